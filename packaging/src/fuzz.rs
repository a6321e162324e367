//! What strangers send, at random but led by what it makes the parsers do: `cargo xtask fuzz`.
//!
//! Takes targets and a time, gives what was tried and what was found. The targets are a workspace of their own in
//! `packaging/fuzz`, built here with the compiler's coverage and LibFuzzer, which needs a C++ compiler and nothing else.

use std::{
    fmt, fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use tokio::process::Command;

/// Whose inputs are made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// The body of a manifest, signed by the right keys.
    Manifest,
    /// A published manifest.
    Envelope,
    /// A frame between node and gateway.
    SessionFrame,
    /// A frame between gateway and control.
    LinkFrame,
    /// A frame on the helper's socket.
    HelperFrame,
    /// A copy of a node's record.
    Record,
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Order {
    /// The targets, one after the other; none means all.
    pub targets: Vec<Target>,
    /// Seconds for each.
    pub seconds: u32,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    targets: usize,
    seconds: u64,
    inputs: u64,
    /// Files with inputs that broke something.
    pub found: Vec<PathBuf>,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "targets={} seconds={} inputs={} violations={}",
            self.targets,
            self.seconds,
            self.inputs,
            self.found.len()
        )
    }
}

/// What makes the compiler count edges and compared values, as LibFuzzer wants it: all of it is known to stable Rust.
const COVERAGE: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1";

/// Memory in MiB that one target may take: no input of ours is worth more.
const MEMORY_MIB: u32 = 1024;

/// Seconds that one input may take.
const INPUT_SECONDS: u32 = 5;

impl Target {
    fn name(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::Envelope => "envelope",
            Self::SessionFrame => "session-frame",
            Self::LinkFrame => "link-frame",
            Self::HelperFrame => "helper-frame",
            Self::Record => "record",
        }
    }

    /// Beyond it every input is refused by its length alone.
    fn bytes_max(self) -> u32 {
        match self {
            Self::Manifest | Self::SessionFrame | Self::LinkFrame | Self::HelperFrame => 16 << 10,
            Self::Envelope => 32 << 10,
            Self::Record => 8 << 10,
        }
    }
}

/// Builds the targets, and gives each its time.
pub async fn run(order: &Order) -> Result<Figures> {
    let targets = if order.targets.is_empty() {
        Target::value_variants()
    } else {
        &order.targets
    };
    let programs = build().await?;
    let mut figures = Figures::default();
    for target in targets {
        let before = figures.found.len();
        let inputs = fuzz(&programs, *target, order.seconds, &mut figures).await?;
        tell(&format!(
            "{}: {inputs} inputs in {} s, {} that broke something",
            target.name(),
            order.seconds,
            figures.found.len() - before
        ));
    }
    Ok(figures)
}

/// Builds every target; gives the folder of the programs.
async fn build() -> Result<PathBuf> {
    let (fuzz, target) = (packaging().join("fuzz"), triple());
    // The versions that are shipped are the ones to fuzz: cargo adds what is used here alone.
    fs::copy(packaging().join("../Cargo.lock"), fuzz.join("Cargo.lock"))
        .context("copy the lock file")?;
    let kept = packaging().join("../target/fuzz");
    let flags = format!(
        "CARGO_TARGET_{}_RUSTFLAGS",
        target.to_uppercase().replace('-', "_")
    );
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(&fuzz)
        .args(["build", "--profile", "fuzz", "--target", &target])
        .arg("--target-dir")
        .arg(&kept)
        .env(flags, COVERAGE)
        .env_remove("RUSTFLAGS")
        .env_remove("BCD_FAULT")
        .kill_on_drop(true)
        .status()
        .await
        .context("start cargo")?;
    ensure!(status.success(), "cargo build ended with {status}");
    Ok(kept.join(target).join("fuzz"))
}

/// Gives one target its time; gives how many inputs it had.
async fn fuzz(programs: &Path, target: Target, seconds: u32, figures: &mut Figures) -> Result<u64> {
    let name = target.name();
    let work = packaging().join("../target/fuzz");
    let (corpus, found) = (
        work.join("corpus").join(name),
        work.join("found").join(name),
    );
    for folder in [&corpus, &found] {
        fs::create_dir_all(folder)?;
    }
    let log = work.join(format!("{name}.log"));
    let told = fs::File::create(&log)?;
    let status = Command::new(programs.join(name))
        // What is found goes to the first folder; the others are only read.
        .arg(&corpus)
        .arg(packaging().join("fuzz/corpus").join(name))
        .args([
            format!("-max_total_time={seconds}"),
            format!("-max_len={}", target.bytes_max()),
            format!("-rss_limit_mb={MEMORY_MIB}"),
            format!("-timeout={INPUT_SECONDS}"),
            format!("-artifact_prefix={}/", found.display()),
            "-print_final_stats=1".to_owned(),
        ])
        .env_remove("BCD_FAULT")
        .stderr(told)
        .kill_on_drop(true)
        .status()
        .await
        .with_context(|| format!("start the target {name}"))?;
    let told = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let inputs = inputs_of(&told).with_context(|| format!("{name} ended with {status}: {told}"))?;
    figures.targets += 1;
    figures.seconds += u64::from(seconds);
    figures.inputs += inputs;
    if !status.success() {
        tell(&told);
    }
    for entry in fs::read_dir(&found)? {
        figures.found.push(entry?.path());
    }
    Ok(inputs)
}

fn inputs_of(told: &str) -> Option<u64> {
    let line = "stat::number_of_executed_units:";
    let found = told.lines().find_map(|told| told.strip_prefix(line))?;
    found.trim().parse().ok()
}

fn packaging() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn triple() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

fn tell(line: &str) {
    // Nobody is left to tell if standard error is closed.
    drop(writeln!(io::stderr(), "{line}"));
}

#[cfg(test)]
mod tests {
    use super::{Target, inputs_of, packaging};
    use clap::ValueEnum as _;

    #[test]
    fn every_target_has_a_program_and_inputs() {
        let listed = std::fs::read_to_string(packaging().join("fuzz/Cargo.toml")).unwrap();
        for target in Target::value_variants() {
            let name = target.name();
            assert!(listed.contains(&format!("name = \"{name}\"")), "{name}");
            let corpus = packaging().join("fuzz/corpus").join(name);
            assert!(std::fs::read_dir(corpus).unwrap().count() > 3, "{name}");
        }
    }

    #[test]
    fn the_last_lines_of_a_target_are_read() {
        let told = "Done\nstat::number_of_executed_units: 1234\nstat::average_exec_per_sec: 7\n";
        assert_eq!(inputs_of(told), Some(1234));
        assert_eq!(inputs_of("==1== ERROR"), None);
    }
}

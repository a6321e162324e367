//! Builds the programs, as cargo would for anybody.
//!
//! Takes what to build, gives paths of executables. Cargo says where it put them, so that no folder is guessed.

mod checkout;
mod manuals;
mod shipped;
mod target;

use std::{
    ffi::OsStr,
    fs::File,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use tokio::process::Command;

pub use checkout::Checkout;
pub use manuals::manuals;
pub use shipped::{Shipping, shipped, shipped_agent, shipped_servers};
pub use target::Target;

/// The servers and the command line.
#[derive(Clone, Debug)]
pub struct Programs {
    /// `better-compute`: control and command line.
    pub control: PathBuf,
    /// `bc-gateway`.
    pub gateway: PathBuf,
}

/// A build of the agent that reports a version of its own.
#[derive(Clone, Copy, Debug)]
pub struct AgentBuild {
    /// The version that it reports.
    pub version: &'static str,
    /// What is wrong with it, if something is.
    pub fault: Option<Fault>,
}

/// What can be wrong with an agent on purpose.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// It starts, and never opens a session.
    NeverConnects,
    /// Whatever its environment says when it is started, if that says anything.
    AsTold,
    /// It speaks protocol 1 and nothing newer.
    OldProtocol,
}

impl Fault {
    fn word(self) -> Option<&'static str> {
        match self {
            Self::NeverConnects => Some("never-connects"),
            Self::OldProtocol => Some("old-protocol"),
            Self::AsTold => None,
        }
    }
}

/// Builds `better-compute` and `bc-gateway`.
pub async fn programs() -> Result<Programs> {
    programs_for(Speed::Daily).await
}

/// The same, for measuring or not.
pub async fn programs_for(speed: Speed) -> Result<Programs> {
    let mut cargo = cargo();
    speed.set(&mut cargo);
    let built = run(cargo).await?;
    Ok(Programs {
        control: find(&built, "better-compute")?,
        gateway: find(&built, "bc-gateway")?,
    })
}

/// Builds `bc-gateway` alone.
pub async fn gateway() -> Result<PathBuf> {
    find(
        &run(cargo_with(&["--package", "bc-gateway", "--bins"])).await?,
        "bc-gateway",
    )
}

/// Builds an agent and copies it to `to`. Only its `main.rs` differs between versions, so that a second build is short.
pub async fn agent(build: AgentBuild, to: &Path) -> Result<()> {
    let mut cargo = cargo();
    cargo.env("BCD_VERSION", build.version);
    if build.fault.is_some() {
        cargo.args(["--features", "bcd/faults"]);
    }
    match build.fault.and_then(Fault::word) {
        Some(word) => cargo.env("BCD_FAULT", word),
        None => cargo.env_remove("BCD_FAULT"),
    };
    if let Some(dir) = to.parent() {
        std::fs::create_dir_all(dir)?;
    }
    // Every version is built to the same path: until it has been copied, nobody else may build.
    let turn = turn().await?;
    let built = run(cargo).await?;
    std::fs::copy(find(&built, "bcd")?, to)
        .with_context(|| format!("copy the agent to {}", to.display()))?;
    drop(turn);
    Ok(())
}

/// Builds an agent that makes whatever mistake its environment names, and copies it to `to`.
pub async fn agent_with_faults(to: &Path) -> Result<()> {
    // It alone: no server is needed for what it is used for.
    let mut cargo = cargo_with(&["--package", "bcd", "--features", "faults"]);
    cargo.env_remove("BCD_FAULT");
    let turn = turn().await?;
    let built = run(cargo).await?;
    std::fs::copy(find(&built, "bcd")?, to)
        .with_context(|| format!("copy the agent to {}", to.display()))?;
    drop(turn);
    Ok(())
}

/// Builds the simulator and runs it with these arguments, where this program's output goes. A build of its own: what it
/// links is in no program that is shipped.
pub async fn simulator(args: &[String]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let what = [
        "run",
        "--quiet",
        "--package",
        "packaging",
        "--features",
        "simulation",
        "--bin",
        "simulate",
        "--",
    ];
    let status = Command::new(cargo).args(what).args(args).status().await?;
    ensure!(status.success(), "the simulator ended with {status}");
    Ok(())
}

/// How quick a program is to be that is built for measuring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// As it is built every day.
    Daily,
    /// Optimised, in a folder of its own, but for the last optimisations of a release: those take longer than the measuring.
    Optimised,
}

impl Speed {
    fn set(self, cargo: &mut Command) {
        match self {
            Self::Daily => {}
            Self::Optimised => {
                cargo
                    .args(["--release", "--target-dir", "target/bench"])
                    .env("CARGO_PROFILE_RELEASE_LTO", "off")
                    .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
            }
        }
    }
}

/// Builds the program that measures control from inside.
pub async fn control_bench(speed: Speed) -> Result<PathBuf> {
    let program = "bc-bench-control";
    let what = ["--package", "better-compute", "--features", "bench"];
    let mut cargo = cargo_with(&[what.as_slice(), &["--bin", program]].concat());
    speed.set(&mut cargo);
    find(&run(cargo).await?, program)
}

/// Programs that are to be quick.
#[derive(Clone, Debug)]
pub struct Optimised {
    /// This program.
    pub own: PathBuf,
    /// `bc-gateway`.
    pub gateway: PathBuf,
}

/// Builds gateway and this program for measuring.
pub async fn optimised_gateway() -> Result<Optimised> {
    let what = ["--package", "bc-gateway", "--package", "packaging"];
    let bins = ["--bin", "bc-gateway", "--bin", "xtask"];
    let mut cargo = cargo_with(&[what.as_slice(), &bins].concat());
    Speed::Optimised.set(&mut cargo);
    let built = run(cargo).await?;
    Ok(Optimised {
        own: find(&built, "xtask")?,
        gateway: find(&built, "bc-gateway")?,
    })
}

/// Waits for the turn to build; it ends when the file is closed, also by a crash.
async fn turn() -> Result<File> {
    tokio::task::spawn_blocking(|| {
        let file = File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))?;
        file.lock()?;
        Ok(file)
    })
    .await?
}

fn cargo() -> Command {
    // Always the whole workspace, so that features and with them third-party crates are the same each time.
    cargo_with(&["--workspace", "--bins"])
}

fn cargo_with(what: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Names, not paths, so that it works from any folder of the workspace.
    cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    cargo
        .arg("build")
        .args(what)
        .args(["--locked", "--message-format", "json-render-diagnostics"]);
    cargo
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true);
    for (name, _) in std::env::vars_os() {
        if is_about_this_package(&name) {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// Whether the cargo that started this process set a variable to tell it about its own package. Build scripts of third
/// parties watch such variables: handed on, they would have those crates built again at every turn.
fn is_about_this_package(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    [
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_BIN_",
        "CARGO_CRATE_",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
}

/// The part of cargo's messages that names an executable.
#[derive(Debug, Deserialize)]
struct Artifact {
    executable: Option<PathBuf>,
}

async fn run(mut cargo: Command) -> Result<Vec<PathBuf>> {
    // Not `output()`: it would keep what cargo tells people, errors too, to itself.
    let output = cargo
        .stdout(Stdio::piped())
        .spawn()
        .context("start cargo")?
        .wait_with_output()
        .await
        .context("wait for cargo")?;
    ensure!(
        output.status.success(),
        "cargo build ended with {}",
        output.status
    );
    let messages = String::from_utf8(output.stdout).context("cargo's messages")?;
    let executables = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Artifact>(line).ok())
        .filter_map(|artifact| artifact.executable)
        .collect();
    Ok(executables)
}

fn find(built: &[PathBuf], name: &str) -> Result<PathBuf> {
    match built
        .iter()
        .find(|path| path.file_name().is_some_and(|file| file == name))
    {
        Some(path) => Ok(path.clone()),
        None => bail!("cargo built no {name}"),
    }
}

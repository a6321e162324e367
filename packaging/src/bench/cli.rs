//! How long the command line takes to start.
//!
//! The program is run again and again, beside one that does nothing at all, in turn, so that whatever else the machine
//! does is in both.

use std::{
    fmt,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use crate::fleet::now;

/// What is run: the least that there is to do, and the parsing of a command deep in the tree.
const RUNS: [(&str, &[&str]); 2] = [
    ("version", &["--version"]),
    ("help", &["rollouts", "list", "--help"]),
];

/// What does nothing.
const FLOOR: &str = "true";

/// What was measured.
#[derive(Clone, Debug)]
pub struct Figures {
    rounds: usize,
    floor: Vec<Duration>,
    starts: Vec<(&'static str, Vec<Duration>)>,
}

/// Measures a program that many times.
pub fn run(program: &Path, rounds: usize) -> Result<Figures> {
    ensure!(rounds > 0, "expected at least one round");
    let mut figures = Figures {
        rounds,
        floor: Vec::new(),
        starts: RUNS.map(|(name, _)| (name, Vec::new())).to_vec(),
    };
    // The first finds the program on a disk, the others in memory.
    start(program, &["--version"])?;
    for _ in 0..rounds {
        figures.floor.push(start(Path::new(FLOOR), &[])?);
        for ((_, args), (_, spans)) in RUNS.iter().zip(&mut figures.starts) {
            spans.push(start(program, args)?);
        }
    }
    figures.floor.sort_unstable();
    for (_, spans) in &mut figures.starts {
        spans.sort_unstable();
    }
    Ok(figures)
}

fn start(program: &Path, args: &[&str]) -> Result<Duration> {
    let begun = now();
    let status = Command::new(program)
        .args(args)
        .env_remove("BETTER_COMPUTE_CONFIG")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .status()
        .with_context(|| format!("start {}", program.display()))?;
    let took = now() - begun;
    ensure!(
        status.success(),
        "{} {} ended with {status}",
        program.display(),
        args.join(" ")
    );
    Ok(took)
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "rounds={} floor_p50_ms={:.2}",
            self.rounds,
            ms(&self.floor, 50)
        )?;
        for (name, spans) in &self.starts {
            write!(
                f,
                " {name}_p50_ms={:.2} {name}_p95_ms={:.2}",
                ms(spans, 50),
                ms(spans, 95)
            )?;
        }
        Ok(())
    }
}

/// The span that this share of all does not exceed, in percent.
fn ms(sorted: &[Duration], percent: usize) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let span = sorted.get(last * percent / 100);
    span.copied().unwrap_or_default().as_secs_f64() * 1000.0
}

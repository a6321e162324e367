//! `cargo xtask systemd-fleet`: machines with a real systemd, out of packages, through everything that may happen to them.
//!
//! Takes Debian's own packages and ours, gives what was broken. Control and gateway are processes of this machine; every
//! node is a machine of its own, booted by `systemd-nspawn`, with our package installed by its package manager. Whatever
//! was started is ended when the campaign is over, also by an error.

mod cases;
mod image;
mod machine;
mod node;
mod yard;

use std::{
    fmt,
    io::{self, Write},
    process::Command,
};

use anyhow::{Result, ensure};

pub use image::base;
pub use machine::Machine;

use cases::Case;
use yard::Yard;

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Every case once.
    Short,
    /// Twice, with the machines in each other's place.
    Full,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Machines that were booted.
    pub nodes: usize,
    /// Cases that were tried, each on every machine that it is about.
    pub cases: usize,
    /// What should be and was not.
    pub violations: Vec<String>,
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "nodes={} cases={} violations={}",
            self.nodes,
            self.cases,
            self.violations.len()
        )
    }
}

/// What this machine lacks for the campaign.
pub fn missing() -> Vec<&'static str> {
    let programs = ["debootstrap", "systemd-nspawn", "nsenter", "dpkg-deb"];
    let mut missing: Vec<_> = programs
        .into_iter()
        .filter(|program| !crate::dist::has(program))
        .collect();
    if !nix::unistd::geteuid().is_root() {
        missing.push("root");
    }
    missing
}

/// Runs the campaign.
pub async fn run(extent: Extent) -> Result<Findings> {
    let missing = missing();
    ensure!(missing.is_empty(), "this campaign needs {missing:?}");
    let mut yard = Yard::open().await?;
    let mut findings = Findings {
        nodes: yard.nodes.len(),
        ..Findings::default()
    };
    let rounds = match extent {
        Extent::Short => 1,
        Extent::Full => 2,
    };
    for round in 0..rounds {
        for case in Case::ALL {
            // What takes the nodes away comes at the very end.
            if case.is_final() && round + 1 < rounds {
                continue;
            }
            findings.cases += 1;
            tell(&format!("{case:?}"));
            let began = crate::fleet::now();
            let done = case.run(&mut yard, round).await;
            let seconds = began.elapsed().as_secs_f64();
            tell(&format!("{case:?}: {seconds:.1} s"));
            if let Err(error) = done {
                let violation = format!("{case:?}: {error:#}\n{}", yard.logs());
                tell(&violation);
                findings.violations.push(violation);
            }
        }
    }
    tell(&yard.figures());
    Ok(findings)
}

fn tell(line: &str) {
    // Nobody is left to tell if standard error is closed.
    drop(writeln!(io::stderr(), "{line}"));
}

/// Runs a program of this machine that must succeed; gives what it says.
fn done(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output()?;
    ensure!(
        output.status.success(),
        "{program} ended with {}: {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

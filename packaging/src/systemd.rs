//! `cargo xtask systemd-fleet`: machines with a real systemd, out of packages, through everything that may happen to them.
//!
//! Takes Debian's own packages and ours, gives what was broken. Control and gateway are processes of this machine; every
//! node is a machine of its own, booted by `systemd-nspawn`, with our package installed by its package manager. Whatever
//! was started is ended when the campaign is over, also by an error.

mod cases;
mod image;
mod machine;
mod node;
pub mod qemu;
mod yard;

use std::{
    fmt,
    io::{self, Write},
    path::PathBuf,
    process::Command,
};

use anyhow::{Result, ensure};

pub use cases::guides;
pub use image::base;
pub use machine::Machine;

use cases::Case;
use yard::Yard;

/// What to run.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// How much is done.
    pub extent: Extent,
    /// How many machines are nodes; every other one without rights.
    pub nodes: usize,
    /// Where programs and packages come from.
    pub origin: Origin,
    /// Only cases whose names hold one of these; all of them where there is none.
    pub only: Vec<String>,
}

/// Where programs and packages come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// They are built now, as every day.
    Daily,
    /// The same, but for an agent that was built before and says that it is 6.6.100.
    Agent(PathBuf),
    /// A folder that `cargo xtask dist` has made: the programs as they are shipped, their packages and the release.
    Dist(PathBuf),
}

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Every case once.
    Short,
    /// Twice, with the machines in each other's place.
    Full,
}

impl Campaign {
    fn names(&self, case: Case) -> bool {
        let name = format!("{case:?}").to_lowercase();
        let named = |part: &String| name.contains(&part.to_lowercase().replace('-', ""));
        if !case.is_for(&self.origin) {
            return false;
        }
        match self.extent {
            Extent::Short if case.is_for_the_full_form() => false,
            Extent::Short | Extent::Full => self.only.is_empty() || self.only.iter().any(named),
        }
    }
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
    lacking(&[
        "debootstrap",
        "systemd-nspawn",
        "nsenter",
        "dpkg-deb",
        "rpm",
        "rpmbuild",
    ])
}

/// Which of these programs are not here, and whether root's rights are missing.
fn lacking(programs: &[&'static str]) -> Vec<&'static str> {
    let programs = programs.iter().copied();
    let mut lacking: Vec<_> = programs
        .filter(|program| !crate::dist::has(program))
        .collect();
    if !nix::unistd::geteuid().is_root() {
        lacking.push("root");
    }
    lacking
}

/// Runs the campaign.
pub async fn run(campaign: Campaign) -> Result<Findings> {
    let missing = missing();
    ensure!(missing.is_empty(), "this campaign needs {missing:?}");
    ensure!(
        campaign.nodes >= 2,
        "expected at least two nodes, one as root and one without rights"
    );
    let mut yard = Yard::open(campaign.nodes, &campaign.origin).await?;
    let mut findings = Findings {
        nodes: yard.nodes.len(),
        ..Findings::default()
    };
    let rounds = match campaign.extent {
        Extent::Short => 1,
        Extent::Full => 2,
    };
    for round in 0..rounds {
        for case in Case::ALL {
            if !campaign.names(case) {
                continue;
            }
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

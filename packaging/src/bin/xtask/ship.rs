//! `cargo xtask dist` and `cargo xtask systemd-fleet`: what is shipped, and machines that have it.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use packaging::{
    build::Target,
    dist::{self, Builds, Dist, Proof, Signing},
    systemd,
};

use crate::tell;

#[derive(Debug, Args)]
pub(crate) struct DistArgs {
    /// Where everything goes.
    #[arg(long, value_name = "DIR", default_value = "target/dist")]
    out: PathBuf,
    /// The agent's version, instead of the workspace's.
    #[arg(long)]
    version: Option<String>,
    /// Programs as they are tested every day, not as they are shipped: a look at the packages in a minute.
    #[arg(long)]
    daily: bool,
    /// For which machines. Another kind than this one takes its standard library, by rustup, and a C compiler for it, such as
    /// Debian's gcc-aarch64-linux-gnu.
    #[arg(long, value_enum, default_value_t = Machines::here())]
    target: Machines,
    /// Make everything again, elsewhere, and compare: programs as they are shipped are compiled out of a copy of the
    /// checkout, in a temporary folder of some GB.
    #[arg(long)]
    twice: bool,
    /// The private keys that sign the release; each one's public key lies beside it.
    #[arg(long, value_name = "FILE", requires = "sequence")]
    key: Vec<PathBuf>,
    /// The release's place in the order of releases.
    #[arg(long, requires = "key")]
    sequence: Option<u64>,
}

/// The machines that programs are for.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Machines {
    Amd64,
    Arm64,
}

impl Machines {
    fn here() -> Self {
        match Target::here() {
            Target::Amd64 => Self::Amd64,
            Target::Arm64 => Self::Arm64,
        }
    }
}

/// Packs what is shipped.
pub(crate) async fn pack(args: DistArgs) -> Result<()> {
    let DistArgs {
        out,
        version,
        daily,
        target,
        twice,
        key: keys,
        sequence,
    } = args;
    let what = Dist {
        out,
        version,
        builds: if daily {
            Builds::Daily
        } else {
            Builds::Shipped
        },
        target: match target {
            Machines::Amd64 => Target::Amd64,
            Machines::Arm64 => Target::Arm64,
        },
        signing: sequence.map(|sequence| Signing { sequence, keys }),
        proof: if twice { Proof::Twice } else { Proof::None },
    };
    writeln!(io::stdout(), "{}", dist::run(what, tell).await?)?;
    Ok(())
}

#[derive(Debug, Args)]
pub(crate) struct MachinesArgs {
    /// Every case once.
    #[arg(long)]
    short: bool,
    /// How many machines are nodes; every other one without rights.
    #[arg(long, default_value_t = 2)]
    nodes: usize,
    /// An agent that was built before and says that it is 6.6.100, in place of one that is built now.
    #[arg(long, value_name = "FILE")]
    agent: Option<PathBuf>,
    /// A folder that `cargo xtask dist` has made: its programs serve, its packages are installed, and its release is signed
    /// and brought to the machines. Releases that are no good are built now all the same.
    #[arg(long, value_name = "DIR", conflicts_with = "agent")]
    dist: Option<PathBuf>,
    /// Machines with a kernel and a disk of their own instead, whose plug is really pulled: in the middle of a download, in
    /// the middle of a trial, after the Welcome, after the end. By KVM where that works, else emulated; it says which. Needs
    /// qemu-system-x86_64.
    #[arg(long, conflicts_with = "short")]
    qemu: bool,
    /// Only cases whose names hold one of these words, such as `container` or `older-helper`.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

/// Lets everything happen to machines with a real systemd.
pub(crate) async fn run_machines(args: MachinesArgs) -> Result<()> {
    let MachinesArgs {
        short,
        nodes,
        agent,
        dist,
        qemu,
        only,
    } = args;
    let origin = match (agent, dist) {
        (None, None) => systemd::Origin::Daily,
        (Some(agent), _) => systemd::Origin::Agent(agent),
        (None, Some(dist)) => systemd::Origin::Dist(dist.canonicalize()?),
    };
    let extent = if short {
        systemd::Extent::Short
    } else {
        systemd::Extent::Full
    };
    let campaign = systemd::Campaign {
        extent,
        nodes,
        origin,
        only,
    };
    let findings = if qemu {
        systemd::qemu::run(&campaign).await?
    } else {
        systemd::run(campaign).await?
    };
    writeln!(io::stdout(), "{findings}")?;
    ensure!(findings.violations.is_empty(), "expected no violation");
    Ok(())
}

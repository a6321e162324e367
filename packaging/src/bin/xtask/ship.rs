//! `cargo xtask dist` and `cargo xtask systemd-fleet`: what is shipped, and machines that have it.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use anyhow::{Result, ensure};
use clap::Args;
use packaging::{
    dist::{self, Builds, Dist, Signing},
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
    /// The private keys that sign the release; each one's public key lies beside it.
    #[arg(long, value_name = "FILE", requires = "sequence")]
    key: Vec<PathBuf>,
    /// The release's place in the order of releases.
    #[arg(long, requires = "key")]
    sequence: Option<u64>,
}

/// Packs what is shipped.
pub(crate) async fn pack(args: DistArgs) -> Result<()> {
    let DistArgs {
        out,
        version,
        daily,
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
        signing: sequence.map(|sequence| Signing { sequence, keys }),
    };
    writeln!(io::stdout(), "{}", dist::run(what, tell).await?)?;
    Ok(())
}

/// Lets everything happen to machines with a real systemd.
pub(crate) async fn run_machines(short: bool) -> Result<()> {
    let extent = if short {
        systemd::Extent::Short
    } else {
        systemd::Extent::Full
    };
    let findings = systemd::run(extent).await?;
    writeln!(io::stdout(), "{findings}")?;
    ensure!(findings.violations.is_empty(), "expected no violation");
    Ok(())
}

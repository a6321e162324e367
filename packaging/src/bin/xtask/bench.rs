//! `cargo xtask bench`: one subcommand a benchmark.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use anyhow::{Result, ensure};
use clap::Subcommand;
use packaging::bench;

use crate::tell;

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// From a node's report to the arrival of the next node's spec, in a pool that takes one node at a time.
    ///
    /// Control and the gateway are real; the nodes are simulated: they hold real sessions and answer at once.
    Road {
        /// How many nodes the rollout has.
        #[arg(long, default_value_t = 200)]
        nodes: usize,
    },
    /// The planner on SQLite and on PostgreSQL: rollouts created, passes, starts and pauses, from inside one process.
    ///
    /// What is written is compared with the same rows written with nothing around them, in the same run. The worse database
    /// counts. A goal that is missed by far is a failure. Needs PostgreSQL 15 under /usr/lib/postgresql for its part. For
    /// figures worth keeping set CARGO_PROFILE_DEV_OPT_LEVEL=2.
    Control {
        /// 100,000 nodes instead of 1,000,000, and each thing once: about a minute.
        #[arg(long)]
        short: bool,
    },
    /// The agent as it is shipped: its size, what it costs while it is idle, and its updates against the least possible.
    ///
    /// Real nodes, supervised, update themselves again and again from loopback; between their updates run a one-pass
    /// download as the floor, and curl, tee and sha256sum. Ratios are medians of each round's own. Helper and watchdog
    /// are looked at too, by root. The first time it takes minutes to build; after that, about two. Needs curl and
    /// strace.
    Agent {
        /// Fewer rounds, and a shorter look at the idle node: about a minute.
        #[arg(long)]
        short: bool,
        /// A static agent that was built before, instead of building it now.
        #[arg(long, value_name = "FILE")]
        agent: Option<PathBuf>,
    },
    /// Updates of the agent as it is shipped, and with --peers the same by systemd-sysupdate, in the same rounds.
    ///
    /// That runs out of a Debian trixie in a folder, which debootstrap makes where there is none. Needs root.
    Update {
        /// Against systemd-sysupdate too.
        #[arg(long)]
        peers: bool,
        /// Where the Debian is, or is to be.
        #[arg(long, value_name = "DIR", default_value = "target/peers/trixie")]
        root: PathBuf,
        /// A static agent that was built before, instead of building it now.
        #[arg(long, value_name = "FILE")]
        agent: Option<PathBuf>,
    },
}

/// Runs one benchmark and prints its figures.
pub(crate) async fn run(bench: Bench) -> Result<()> {
    match bench {
        Bench::Road { nodes } => {
            let figures = bench::road::run(nodes).await?;
            writeln!(io::stdout(), "{figures}")?;
        }
        Bench::Control { short } => {
            use bench::control::Extent;
            let extent = if short { Extent::SHORT } else { Extent::FULL };
            let figures = bench::control::run(extent, tell).await?;
            writeln!(io::stdout(), "{figures}")?;
            let missed = figures.missed();
            ensure!(missed.is_empty(), "{}", missed.join("\n"));
        }
        Bench::Agent { short, agent } => {
            use bench::agent::Extent;
            let extent = if short { Extent::SHORT } else { Extent::FULL };
            let figures = bench::agent::run(extent, agent.as_deref(), tell).await?;
            writeln!(io::stdout(), "{figures}")?;
        }
        Bench::Update { peers, root, agent } => {
            let figures = if peers {
                bench::agent::against_sysupdate(&root, agent.as_deref(), tell)
                    .await?
                    .to_string()
            } else {
                bench::agent::run(bench::agent::Extent::SHORT, agent.as_deref(), tell)
                    .await?
                    .to_string()
            };
            writeln!(io::stdout(), "{figures}")?;
        }
    }
    Ok(())
}

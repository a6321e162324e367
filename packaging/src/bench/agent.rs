//! The agent as it is shipped: its size, and the memory that it takes while it has nothing to do.
//!
//! Builds the static release binary, and lets one node of a real fleet run it under its supervisor.

use std::{fmt, fs, time::Duration};

use anyhow::{Context, Result};

use crate::{
    build,
    fleet::{Fleet, Patience, Plan, PoolPlan},
};

/// How long a node is left alone before its memory is looked at.
const SETTLE: Duration = Duration::from_secs(5);

/// How long the node may take to come online.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    binary_bytes: u64,
    node_kib: u64,
    supervisor_kib: u64,
}

impl fmt::Display for Figures {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "binary_mb={:.2} rss_mib={:.2} supervisor_rss_mib={:.2}",
            self.binary_bytes as f64 / 1e6,
            self.node_kib as f64 / 1024.0,
            self.supervisor_kib as f64 / 1024.0,
        )
    }
}

/// Measures.
pub async fn run() -> Result<Figures> {
    let programs = build::programs().await?;
    let folder = tempfile::tempdir()?;
    let agent = folder.path().join("bcd");
    build::shipped_agent(&agent).await?;
    let plan = Plan {
        pools: vec![PoolPlan {
            name: "idle",
            nodes: 1,
            budget: "0",
        }],
        patience: Patience {
            watchdog: Duration::from_secs(60),
            stable: Duration::from_secs(1),
        },
    };
    let fleet = Fleet::start(programs, &agent, &plan).await?;
    fleet.online(1, PATIENCE).await?;
    tokio::time::sleep(SETTLE).await;
    let supervisor = &fleet.nodes.first().context("no node")?.supervisor;
    let node = *supervisor.children()?.first().context("no node runs")?;
    Ok(Figures {
        binary_bytes: fs::metadata(&agent)?.len(),
        node_kib: rss_kib(i64::from(node))?,
        supervisor_kib: rss_kib(supervisor.pid().context("no supervisor runs")?.into())?,
    })
}

/// The memory of a process that is its own, and what it has mapped of files.
fn rss_kib(pid: i64) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.context("the kernel tells no VmRSS")?.parse()?)
}

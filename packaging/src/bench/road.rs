//! From a node's report to the next node's spec.
//!
//! Control and the gateway are real processes on loopback; the nodes are simulated and take no time, so that what is
//! measured is the road itself: report, commit, settle, start, commit, spec, push. The pool takes one node at a time,
//! so every start follows the settling of the node before it.

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    build,
    fleet::{Fleet, Patience, Plan, PoolPlan, Release, now},
    simulated::{Moment, SimulatedNode},
};

/// How long the whole rollout may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// What was measured.
#[derive(Clone, Debug)]
pub struct Figures {
    nodes: usize,
    waits: Vec<Duration>,
}

impl Figures {
    /// The wait that this share of all waits does not exceed, in percent.
    pub fn percentile(&self, percent: usize) -> Duration {
        let last = self.waits.len().saturating_sub(1);
        self.waits
            .get(last * percent / 100)
            .copied()
            .unwrap_or_default()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |percent| self.percentile(percent).as_secs_f64() * 1000.0;
        write!(
            f,
            "nodes={} samples={} settle_to_start_p50_ms={:.2} settle_to_start_p99_ms={:.2}",
            self.nodes,
            self.waits.len(),
            ms(50),
            ms(99),
        )
    }
}

/// Measures with that many nodes.
pub async fn run(nodes: usize) -> Result<Figures> {
    ensure!(nodes >= 2, "--nodes: expected at least 2, found {nodes}");
    let programs = build::programs().await?;
    let plan = Plan {
        pools: vec![PoolPlan {
            name: "one-at-a-time",
            nodes: 0,
            budget: "0",
        }],
        patience: Patience {
            watchdog: Duration::from_secs(60),
            stable: Duration::from_secs(1),
        },
    };
    // No node runs, so what their package's binary would be does not matter either.
    let fleet = Fleet::start(programs.clone(), &programs.gateway, &plan).await?;
    for (sequence, version) in (1..).zip(["1.0.0", "1.1.0"]) {
        // What the binary is does not matter here: no node runs it.
        let binary = programs.gateway.clone();
        fleet.publish(&Release {
            version: version.to_owned(),
            sequence,
            binary,
        })?;
    }

    let (moments, mut seen) = mpsc::unbounded_channel();
    let mut running = JoinSet::new();
    let token = std::fs::read_to_string(fleet.join_token(0, nodes)?)?;
    for _ in 0..nodes {
        let node = SimulatedNode::join(fleet.operator.url(), token.trim()).await?;
        running.spawn(node.run(moments.clone()));
    }
    drop(moments);
    for _ in 0..nodes {
        ensure!(
            next(&mut seen).await?.is_welcome(),
            "a node was told to upgrade too early"
        );
    }
    fleet.operator.run(&[
        "rollouts",
        "create",
        "--version",
        "1.1.0",
        "--waves",
        "100",
        "--soak",
        "0s",
        "--yes",
    ])?;
    let waits = waits(nodes, &mut seen).await?;
    running.shutdown().await;
    Ok(Figures { nodes, waits })
}

/// Pairs every report with the arrival of the next spec.
async fn waits(nodes: usize, seen: &mut mpsc::UnboundedReceiver<Moment>) -> Result<Vec<Duration>> {
    let deadline = now() + PATIENCE;
    let mut reported: Option<Instant> = None;
    let mut waits = Vec::new();
    while waits.len() + 1 < nodes {
        ensure!(
            now() < deadline,
            "only {} nodes in {PATIENCE:?}",
            waits.len()
        );
        match next(seen).await? {
            Moment::Reported(at) => reported = Some(at),
            Moment::Told(at) => waits.extend(reported.take().map(|before| at - before)),
            Moment::Welcomed => {}
        }
    }
    waits.sort_unstable();
    Ok(waits)
}

async fn next(seen: &mut mpsc::UnboundedReceiver<Moment>) -> Result<Moment> {
    tokio::time::timeout(Duration::from_secs(30), seen.recv())
        .await
        .context("no node did anything for 30 s")?
        .context("every node has ended")
}

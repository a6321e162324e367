//! A fleet to look at: a real control and gateway, and simulated nodes that take their time.
//!
//! Takes how many nodes and what they are like, gives a fleet whose nodes are online and for which two releases are
//! registered. Everything ends when it is dropped.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};

use crate::{
    build::Programs,
    fleet::{Fleet, Patience, Plan, PoolPlan, Release},
    simulated::{Habits, SimulatedNode},
};

/// How long all nodes may take to be welcomed.
const WELCOMED: Duration = Duration::from_secs(60);

/// The release that nodes say they run, and the one that they are brought.
const VERSIONS: [&str; 2] = ["1.0.0", "1.1.0"];

/// A fleet that is shown.
#[derive(Debug)]
pub struct Stage {
    /// Control, gateway and whoever calls them.
    pub fleet: Fleet,
    // They end with it.
    _nodes: JoinSet<Result<()>>,
}

impl Stage {
    /// Starts it, with one pool of so many nodes, of which a fifth may be disrupted at once.
    pub async fn start(programs: &Programs, nodes: usize, habits: &Habits) -> Result<Self> {
        let plan = Plan {
            pools: vec![PoolPlan {
                name: "edge",
                nodes: 0,
                budget: "0.2",
            }],
            patience: Patience {
                watchdog: Duration::from_secs(60),
                stable: Duration::from_secs(1),
            },
        };
        // No node runs a binary, so what it is does not matter.
        let binary = &programs.gateway;
        let fleet = Fleet::start(programs.clone(), binary, &plan).await?;
        for (sequence, version) in (1..).zip(VERSIONS) {
            fleet.publish(&Release {
                version: version.to_owned(),
                sequence,
                binary: binary.clone(),
            })?;
        }
        let (moments, mut seen) = mpsc::unbounded_channel();
        let mut running = JoinSet::new();
        let token = std::fs::read_to_string(fleet.join_token(0, nodes)?)?;
        for _ in 0..nodes {
            let node = SimulatedNode::join(fleet.operator.url(), token.trim()).await?;
            running.spawn(node.with(habits.clone()).run(moments.clone()));
        }
        for _ in 0..nodes {
            timeout(WELCOMED, seen.recv())
                .await
                .context("expected every node to be welcomed within a minute")?
                .context("every node has ended")?;
        }
        fleet.online(nodes, WELCOMED).await?;
        Ok(Self {
            fleet,
            _nodes: running,
        })
    }
}

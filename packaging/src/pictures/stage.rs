//! A fleet to look at: a real control and gateway, and simulated nodes that take their time.
//!
//! Takes which nodes there are and what they are like, gives a fleet whose nodes are online and for which three releases
//! are registered. Everything ends when it is dropped.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
    time::timeout,
};

use crate::{
    build::Programs,
    fleet::{Fleet, Patience, Plan, PoolPlan, Release},
    simulated::{Habits, Moment, SimulatedNode},
};

/// How long all nodes may take to be welcomed.
const WELCOMED: Duration = Duration::from_secs(60);

/// A whole fleet joins by one token, from one address.
const AT_ONCE: &str = "\n[limits]\njoins_per_second = 10000\n";

/// How many join at once: each makes a key.
const JOINING_MAX: usize = 32;

/// The release that nodes say they run, and those that they are brought.
const VERSIONS: [&str; 3] = ["1.0.0", "1.1.0", "1.2.0"];

/// The nodes of one pool.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// What people call the pool; its nodes' names begin with it.
    pub pool: &'static str,
    /// How many.
    pub nodes: usize,
    /// The share of them that may be disrupted at once, as text.
    pub budget: &'static str,
    /// Of a hundred nodes so many are held by their owners.
    pub held: usize,
    /// How they take what they are told.
    pub habits: Habits,
}

/// A fleet that is shown.
#[derive(Debug)]
pub struct Stage {
    /// Control, gateway and whoever calls them.
    pub fleet: Fleet,
    /// By pool, in the crowds' order.
    lives: Vec<Vec<AbortHandle>>,
    // They end with it.
    nodes: JoinSet<Result<()>>,
}

impl Stage {
    /// Starts it, with one pool of so many nodes, of which a fifth may be disrupted at once.
    pub async fn start(programs: &Programs, nodes: usize, habits: &Habits) -> Result<Self> {
        let edge = Crowd {
            pool: "edge",
            nodes,
            budget: "0.2",
            held: 0,
            habits: habits.clone(),
        };
        Self::with(programs, &[edge]).await
    }

    /// Starts it, with several pools.
    pub async fn with(programs: &Programs, crowds: &[Crowd]) -> Result<Self> {
        let pools = crowds.iter().map(|crowd| PoolPlan {
            name: crowd.pool,
            nodes: 0,
            budget: crowd.budget,
        });
        let plan = Plan {
            pools: pools.collect(),
            patience: Patience {
                watchdog: Duration::from_secs(60),
                stable: Duration::from_secs(1),
            },
        };
        // No node runs a binary, so what it is does not matter.
        let binary = &programs.gateway;
        let fleet = Fleet::start_with(programs.clone(), binary, &plan, AT_ONCE).await?;
        for (sequence, version) in (1..).zip(VERSIONS) {
            fleet.publish(&Release {
                version: version.to_owned(),
                sequence,
                binary: binary.clone(),
            })?;
        }
        let mut stage = Self {
            fleet,
            lives: Vec::new(),
            nodes: JoinSet::new(),
        };
        let (moments, mut seen) = mpsc::unbounded_channel();
        for (pool, crowd) in crowds.iter().enumerate() {
            stage.enter(pool, crowd, &moments).await?;
        }
        let all = crowds.iter().map(|crowd| crowd.nodes).sum();
        let mut welcomed = 0;
        while welcomed < all {
            let moment = timeout(WELCOMED, seen.recv())
                .await
                .context("expected every node to be welcomed within a minute")?
                .context("every node has ended")?;
            welcomed += usize::from(moment.is_welcome());
        }
        stage.fleet.online(all, WELCOMED).await?;
        Ok(stage)
    }

    async fn enter(
        &mut self,
        pool: usize,
        crowd: &Crowd,
        moments: &mpsc::UnboundedSender<Moment>,
    ) -> Result<()> {
        let token = std::fs::read_to_string(self.fleet.join_token(pool, crowd.nodes)?)?;
        let mut joining = JoinSet::new();
        let mut lives = Vec::new();
        for number in 1..=crowd.nodes {
            let url = self.fleet.operator.url().to_owned();
            let token = token.trim().to_owned();
            let name = format!("{}-{number:04}", crowd.pool);
            let habits = crowd.habits.clone();
            let is_held = number % 100 < crowd.held;
            joining.spawn(async move {
                let node = SimulatedNode::join(&url, &token).await?;
                let node = node.named(name).with(habits);
                anyhow::Ok(if is_held {
                    node.held("moves to another rack this week")
                } else {
                    node
                })
            });
            if joining.len() >= JOINING_MAX
                && let Some(node) = joining.join_next().await
            {
                lives.push(self.nodes.spawn(node??.run(moments.clone())));
            }
        }
        while let Some(node) = joining.join_next().await {
            lives.push(self.nodes.spawn(node??.run(moments.clone())));
        }
        self.lives.push(lives);
        Ok(())
    }

    /// Takes so many nodes of a pool away, as if their power went.
    pub fn lose(&self, pool: usize, nodes: usize) {
        let lives = self.lives.get(pool).into_iter().flatten();
        lives.take(nodes).for_each(AbortHandle::abort);
    }
}

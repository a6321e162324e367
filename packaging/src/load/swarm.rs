//! The nodes of one process.
//!
//! Takes a plan, and from then on how many nodes there are to be; tells how things stand. All nodes are gone when it is
//! dropped.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, stream};
use tokio::{
    sync::{Semaphore, mpsc, watch},
    task::{AbortHandle, JoinSet},
};

use super::{
    SESSIONS_PER_PROCESS,
    credentials::Maker,
    node::{Node, Shared},
    plan::{Plan, Status},
    tally::Tally,
};

/// Nodes that join at once: control is loaded by their joining, not drowned in it.
const JOINING_MAX: usize = 16;

/// Many nodes.
pub struct Swarm {
    shared: Arc<Shared>,
    wanted: watch::Sender<usize>,
    nodes: AbortHandle,
}

impl Swarm {
    /// Makes the plan's nodes in the background; none connects yet.
    pub fn new(plan: Plan) -> Result<Self> {
        ensure!(
            plan.nodes <= SESSIONS_PER_PROCESS,
            "expected at most {SESSIONS_PER_PROCESS} nodes in a process, found {}",
            plan.nodes
        );
        let maker = Maker::new(&plan.source)?;
        let (wanted, heard) = watch::channel(0);
        let shared = Arc::new(Shared {
            opening: Semaphore::new(plan.opening_max.max(1)),
            plan,
            tally: Tally::default(),
            wanted: heard,
        });
        let nodes = tokio::spawn(run(maker, Arc::clone(&shared))).abort_handle();
        Ok(Self {
            shared,
            wanted,
            nodes,
        })
    }

    /// From now on there are to be this many nodes, the first ones; more of them than are ready connect when they are.
    pub fn want(&self, nodes: usize) {
        self.wanted.send_replace(nodes);
    }

    /// Begins spreads and failures anew; counts go on.
    pub fn forget(&self) {
        self.shared.tally.forget();
    }

    /// How things stand.
    pub fn status(&self) -> Status {
        self.shared.tally.status()
    }
}

impl Drop for Swarm {
    fn drop(&mut self) {
        self.nodes.abort();
    }
}

/// Makes nodes and has them live. Ends only when it is aborted, and all nodes with it.
async fn run(maker: Maker, shared: Arc<Shared>) {
    let (made, mut come) = mpsc::channel(JOINING_MAX);
    let making = async {
        let all = 0..shared.plan.nodes;
        stream::iter(all)
            .for_each_concurrent(JOINING_MAX, |index| {
                let (maker, shared, made) = (&maker, &shared, made.clone());
                async move {
                    let number = shared.plan.first + index;
                    match maker.make(number).await.context("make a node") {
                        // The other end is gone only where this future is.
                        Ok(credentials) => drop(made.send((index, credentials)).await),
                        Err(error) => shared.tally.trouble(&error),
                    }
                }
            })
            .await;
        std::future::pending::<()>().await;
    };
    let living = async {
        let mut nodes = JoinSet::new();
        while let Some((index, credentials)) = come.recv().await {
            let shared = Arc::clone(&shared);
            shared.tally.ready.fetch_add(1, Relaxed);
            let node = Node {
                shared,
                index,
                credentials,
            };
            nodes.spawn(node.live());
        }
    };
    tokio::join!(making, living);
}

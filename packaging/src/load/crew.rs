//! A swarm that is larger than one process.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use tokio::time::sleep;

use super::{
    Plan, Status,
    worker::{Order, Role, Worker},
};
use crate::fleet::now;

/// Workers that together are one swarm.
pub struct Crew {
    workers: Vec<Worker>,
    sizes: Vec<usize>,
}

impl Crew {
    /// As many workers as the nodes need, each from an address of loopback of its own where the gateway is on this
    /// machine.
    pub async fn start(program: &Path, plan: &Plan, per_process: usize) -> Result<Self> {
        let program: Arc<Path> = program.into();
        let (mut workers, mut sizes) = (Vec::new(), Vec::new());
        let mut first = 0;
        while first < plan.nodes {
            let nodes = per_process.min(plan.nodes - first);
            let host = u8::try_from(workers.len() + 2).context("too many processes")?;
            let part = Plan {
                first: plan.first + first,
                nodes,
                from: Some([127, 0, 0, host].into()),
                ..plan.clone()
            };
            workers.push(Worker::start(&program, &Role::Nodes(Box::new(part))).await?);
            sizes.push(nodes);
            first += nodes;
        }
        Ok(Self { workers, sizes })
    }

    /// Wants that many nodes.
    pub async fn want(&mut self, mut nodes: usize) -> Result<()> {
        for (worker, size) in self.workers.iter_mut().zip(&self.sizes) {
            let part = nodes.min(*size);
            worker.ask(&Order::Want(part)).await?;
            nodes -= part;
        }
        Ok(())
    }

    /// Begins the spreads anew.
    pub async fn forget(&mut self) -> Result<()> {
        for worker in &mut self.workers {
            worker.ask(&Order::Forget).await?;
        }
        Ok(())
    }

    /// How things stand, of all together.
    pub async fn status(&mut self) -> Result<Status> {
        let mut all = Status::default();
        for worker in &mut self.workers {
            all = all.with(worker.status().await?);
        }
        Ok(all)
    }

    /// Wants that many nodes, and waits until they are all there or all gone; gives how things stand then.
    pub async fn reach(&mut self, nodes: usize, patience: Duration) -> Result<Status> {
        self.want(nodes).await?;
        self.until(patience, |status| status.live == nodes).await
    }

    /// Waits for something to be so.
    pub async fn until(
        &mut self,
        patience: Duration,
        is: impl Fn(&Status) -> bool,
    ) -> Result<Status> {
        let deadline = now() + patience;
        loop {
            let status = self.status().await?;
            if is(&status) {
                return Ok(status);
            }
            if now() > deadline {
                bail!("not within {patience:?}: {status:?}");
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Its processes, while they run.
    pub fn pids(&self) -> Vec<u32> {
        self.workers.iter().filter_map(Worker::pid).collect()
    }

    /// How many processes there are.
    pub fn processes(&self) -> usize {
        self.workers.len()
    }
}

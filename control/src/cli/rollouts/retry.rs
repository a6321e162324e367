//! `rollouts retry`.

use bc_protocol::id::RolloutId;
use clap::Args;

use crate::{
    api::rollout::{RetryRollout, Rollout},
    cli::{
        exit::Exit,
        failure::Failure,
        online::{NodeName, Online},
    },
};

/// Try nodes that failed in a completed rollout again
///
/// They are started as late nodes, within their pools' budgets; the rollout's waves stay as they ended.
#[derive(Debug, Args)]
pub(in crate::cli) struct Retry {
    /// Its id
    #[arg(value_name = "ROLLOUT")]
    rollout: RolloutId,
    /// Only this node, by id, the end of it, or hostname; may be given several times
    #[arg(long = "node", value_name = "NODE")]
    nodes: Vec<NodeName>,
}

impl Retry {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let mut nodes = Vec::new();
        for node in &self.nodes {
            nodes.push(online.node(node).await?);
        }
        let request = RetryRollout {
            tenant_id: online.client.tenant.clone(),
            rollout_id: self.rollout,
            node_ids: Some(nodes).filter(|nodes| !nodes.is_empty()),
        };
        online.show::<Rollout>("rollouts/retry", &request).await
    }
}

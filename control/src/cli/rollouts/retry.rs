//! `rollouts retry`.

use bc_protocol::id::{NodeId, RolloutId};
use clap::Args;

use crate::{
    api::rollout::{RetryRollout, Rollout},
    cli::{exit::Exit, failure::Failure, online::Online},
};

/// Try nodes that failed in a completed rollout again
///
/// They are started as late nodes, within their pools' budgets; the rollout's waves stay as they ended.
#[derive(Debug, Args)]
pub(in crate::cli) struct Retry {
    /// Its id
    #[arg(value_name = "ROLLOUT")]
    rollout: RolloutId,
    /// Only this node; may be given several times
    #[arg(long = "node", value_name = "NODE")]
    nodes: Vec<NodeId>,
}

impl Retry {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = RetryRollout {
            tenant_id: online.client.tenant.clone(),
            rollout_id: self.rollout,
            node_ids: Some(self.nodes).filter(|nodes| !nodes.is_empty()),
        };
        online.show::<Rollout>("rollouts/retry", &request).await
    }
}

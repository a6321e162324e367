//! `rollouts get`.

use bc_protocol::id::RolloutId;
use clap::Args;

use crate::{
    api::rollout::{OneRollout, Rollout},
    cli::{exit::Exit, failure::Failure, named::Named, online::Online},
};

/// Show one rollout: its waves, and the nodes where something went wrong
///
/// With --output wide, all its nodes.
#[derive(Debug, Args)]
pub(in crate::cli) struct Get {
    /// Its id, or the beginning or end of it
    #[arg(value_name = "ROLLOUT")]
    rollout: Named<RolloutId>,
}

impl Get {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = OneRollout {
            tenant_id: online.client.tenant.clone(),
            rollout_id: online.id(&self.rollout).await?,
        };
        online.show::<Rollout>("rollouts/get", &request).await
    }
}

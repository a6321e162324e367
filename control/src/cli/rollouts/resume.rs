//! `rollouts resume`.

use bc_protocol::id::RolloutId;
use clap::Args;

use super::watch::{WatchFlags, or_show};
use crate::{
    api::rollout::{OneRollout, Rollout},
    cli::{exit::Exit, failure::Failure, named::Named, online::Online},
};

/// Go on with a paused rollout; what has failed in its wave so far is accepted
#[derive(Debug, Args)]
pub(in crate::cli) struct Resume {
    /// Its id, or the beginning or end of it
    #[arg(value_name = "ROLLOUT")]
    rollout: Named<RolloutId>,
    #[command(flatten)]
    watch: WatchFlags,
}

impl Resume {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = OneRollout {
            tenant_id: online.client.tenant.clone(),
            rollout_id: online.id(&self.rollout).await?,
        };
        let resumed = online
            .client
            .call::<Rollout>("rollouts/resume", &request)
            .await?;
        or_show(online, self.watch, resumed).await
    }
}

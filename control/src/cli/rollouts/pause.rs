//! `rollouts pause`.

use bc_protocol::id::RolloutId;
use clap::Args;

use super::arguments::reason;
use crate::{
    api::rollout::{PauseRollout, Rollout},
    cli::{exit::Exit, failure::Failure, named::Named, online::Online},
};

/// Pause a rollout: no more nodes start; those under way settle
#[derive(Debug, Args)]
pub(in crate::cli) struct Pause {
    /// Its id, or the beginning or end of it
    #[arg(value_name = "ROLLOUT")]
    rollout: Named<RolloutId>,
    /// Why, for everybody who looks at it later
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
}

impl Pause {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = PauseRollout {
            tenant_id: online.client.tenant.clone(),
            rollout_id: online.id(&self.rollout).await?,
            reason: self.reason,
        };
        online.show::<Rollout>("rollouts/pause", &request).await
    }
}

//! `rollouts abort`.

use bc_protocol::id::RolloutId;
use clap::Args;

use super::{
    arguments::reason,
    progress::in_words,
    watch::{WatchFlags, or_show},
};
use crate::{
    api::rollout::{AbortRollout, OneRollout, Rollout},
    cli::{
        ask::{Consent, confirm},
        exit::Exit,
        failure::Failure,
        named::Named,
        online::Online,
    },
};

/// End a rollout for good: nodes that have not started never will
///
/// Nodes that have the release keep it. Nodes under way count as failed, or go back with --rollback.
#[derive(Debug, Args)]
pub(in crate::cli) struct Abort {
    /// Its id, or the beginning or end of it
    #[arg(value_name = "ROLLOUT")]
    rollout: Named<RolloutId>,
    /// Why, for everybody who looks at it later
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
    /// Bring nodes that are under way back to the version that they come from
    #[arg(long)]
    rollback: bool,
    #[command(flatten)]
    watch: WatchFlags,
    #[command(flatten)]
    consent: Consent,
}

impl Abort {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let rollout_id = online.id(&self.rollout).await?;
        if self.consent.is_open() {
            confirm(&question(online, &rollout_id).await?, &self.consent)?;
        }
        let request = AbortRollout {
            tenant_id: online.client.tenant.clone(),
            rollout_id,
            reason: self.reason,
            rollback: self.rollback,
        };
        let aborted = online
            .client
            .call::<Rollout>("rollouts/abort", &request)
            .await?;
        or_show(online, self.watch, aborted).await
    }
}

/// Says what it is about: an id alone tells nobody that it is the wrong one.
async fn question(online: &Online, rollout: &RolloutId) -> Result<String, Failure> {
    let request = OneRollout {
        tenant_id: online.client.tenant.clone(),
        rollout_id: rollout.clone(),
    };
    let rollout = online
        .client
        .call::<Rollout>("rollouts/get", &request)
        .await?
        .value;
    Ok(format!(
        "Abort the rollout of {} ({})?",
        rollout.version,
        in_words(&rollout.nodes)
    ))
}

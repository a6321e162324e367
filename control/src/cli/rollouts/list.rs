//! `rollouts list`.

use clap::Args;

use crate::{
    api::rollout::{ListRollouts, Rollouts},
    cli::{exit::Exit, failure::Failure, online::Online},
};

/// List the 100 newest rollouts, newest first
#[derive(Debug, Args)]
pub(in crate::cli) struct List {}

impl List {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = ListRollouts {
            tenant_id: online.client.tenant.clone(),
        };
        online.show::<Rollouts>("rollouts/list", &request).await
    }
}

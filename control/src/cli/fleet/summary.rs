//! `fleet summary`.

use clap::Args;

use crate::{
    api::freeze::{FleetSummary, OneFleet},
    cli::{exit::Exit, failure::Failure, online::Online},
};

/// Count the tenant's nodes by pool: versions, who is online, late, or refuses what it was told to run
#[derive(Debug, Args)]
pub(in crate::cli) struct Summary {}

impl Summary {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = OneFleet {
            tenant_id: online.client.tenant.clone(),
        };
        online.show::<FleetSummary>("fleet/summary", &request).await
    }
}

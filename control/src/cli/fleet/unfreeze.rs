//! `fleet unfreeze`.

use clap::Args;

use crate::{
    api::freeze::{Fleet, OneFleet},
    cli::{exit::Exit, failure::Failure, online::Online},
};

/// Let nodes start again
#[derive(Debug, Args)]
pub(in crate::cli) struct Unfreeze {}

impl Unfreeze {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = OneFleet {
            tenant_id: online.client.tenant.clone(),
        };
        online.show::<Fleet>("fleet/unfreeze", &request).await
    }
}

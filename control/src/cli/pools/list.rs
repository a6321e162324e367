//! `pools list`.

use clap::Args;

use crate::{
    api::fleet::{ListPools, Pools},
    cli::{exit::Exit, failure::Failure, online::Online},
};

/// List the tenant's pools
#[derive(Debug, Args)]
pub(in crate::cli) struct List {}

impl List {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = ListPools {
            tenant_id: online.client.tenant.clone(),
        };
        online.show::<Pools>("pools/list", &request).await
    }
}

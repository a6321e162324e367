//! `releases list`.

use clap::Args;

use crate::{
    api::release::{ListReleases, Releases},
    cli::{exit::Exit, failure::Failure, online::Online},
};

/// List all releases, the highest sequence first
#[derive(Debug, Args)]
pub(in crate::cli) struct List {}

impl List {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = ListReleases {
            tenant_id: online.client.tenant.clone(),
        };
        online.show::<Releases>("releases/list", &request).await
    }
}

//! `gateways list`.

use clap::Args;

use crate::{
    api::gateway::{Gateways, ListGateways},
    cli::{exit::Exit, failure::Failure, online::Online},
};

/// List gateways, and which of them are linked to control now
#[derive(Debug, Args)]
pub(in crate::cli) struct List {}

impl List {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = ListGateways {
            tenant_id: online.client.tenant.clone(),
        };
        online.show::<Gateways>("gateways/list", &request).await
    }
}

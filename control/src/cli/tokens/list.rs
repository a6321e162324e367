//! `tokens list`.

use clap::Args;

use crate::{
    api::access::{ListTokens, Tokens},
    cli::{exit::Exit, failure::Failure, online::Online},
};

/// List the tenant's API tokens, without their secrets
#[derive(Debug, Args)]
pub(in crate::cli) struct List {}

impl List {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = ListTokens {
            tenant_id: online.client.tenant.clone(),
        };
        online.show::<Tokens>("tokens/list", &request).await
    }
}

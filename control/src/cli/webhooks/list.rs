//! `webhooks list`.

use clap::Args;

use crate::{
    api::event::{ListWebhooks, Webhooks},
    cli::{exit::Exit, failure::Failure, online::Online},
};

/// List where the tenant's events are sent
#[derive(Debug, Args)]
pub(in crate::cli) struct List {}

impl List {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = ListWebhooks {
            tenant_id: online.client.tenant.clone(),
        };
        online.show::<Webhooks>("webhooks/list", &request).await
    }
}

//! `webhooks delete`.

use bc_protocol::id::WebhookId;
use clap::Args;

use crate::{
    api::event::{OneWebhook, Webhook},
    cli::{exit::Exit, failure::Failure, named::Named, online::Online},
};

/// Send no more events there; what waits to be sent is not
#[derive(Debug, Args)]
pub(in crate::cli) struct Delete {
    /// Its id, or the beginning or end of it
    #[arg(value_name = "WEBHOOK")]
    webhook: Named<WebhookId>,
}

impl Delete {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = OneWebhook {
            tenant_id: online.client.tenant.clone(),
            webhook_id: online.id(&self.webhook).await?,
        };
        online.show::<Webhook>("webhooks/delete", &request).await
    }
}

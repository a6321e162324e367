//! `webhooks deliveries`.

use bc_protocol::id::WebhookId;
use clap::Args;

use crate::{
    api::event::{self, Deliveries},
    cli::{exit::Exit, failure::Failure, named::Named, online::Online},
};

/// List how a webhook's deliveries stand, newest first
///
/// What was delivered or given up is listed for a week.
#[derive(Debug, Args)]
pub(in crate::cli) struct ListDeliveries {
    /// Its id, or the beginning or end of it
    #[arg(value_name = "WEBHOOK")]
    webhook: Named<WebhookId>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

impl ListDeliveries {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = event::ListDeliveries {
            tenant_id: online.client.tenant.clone(),
            webhook_id: online.id(&self.webhook).await?,
            limit: Some(self.limit),
        };
        online
            .show::<Deliveries>("webhooks/deliveries", &request)
            .await
    }
}

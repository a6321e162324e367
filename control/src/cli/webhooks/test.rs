//! `webhooks test`.

use std::time::Duration;

use bc_protocol::id::{EventId, WebhookId};
use clap::Args;
use tokio::time::{sleep, timeout};

use crate::{
    api::event::{Deliveries, Delivery, DeliveryState, ListDeliveries, OneWebhook, WebhookTest},
    cli::{exit::Exit, failure::Failure, named::Named, online::Online, print::Answer},
};

/// Between looks at how it goes.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Longer than control waits for a receiver's answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Deliveries to look through: what else happens meanwhile is among them.
const LOOKED_AT: u32 = 100;

/// Send an event of type webhook.test there, and say how the first attempt went
///
/// It takes the way of every event, whatever types the webhook wants. What fails is tried again, as every delivery is.
#[derive(Debug, Args)]
pub(in crate::cli) struct Test {
    /// Its id, or the beginning or end of it
    #[arg(value_name = "WEBHOOK")]
    webhook: Named<WebhookId>,
}

impl Test {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let webhook_id = online.id(&self.webhook).await?;
        let request = OneWebhook {
            tenant_id: online.client.tenant.clone(),
            webhook_id: webhook_id.clone(),
        };
        let sent = online
            .client
            .call::<WebhookTest>("webhooks/test", &request)
            .await?;
        let event = &sent.value.event_id;
        let Ok(tried) = timeout(PATIENCE, tried(online, webhook_id, event)).await else {
            return Err(Failure::TimedOut {
                what: format!("the first attempt to deliver {event}"),
                waited: PATIENCE,
            });
        };
        let answer = tried?;
        online.show_answer(&answer).await?;
        match answer.value.state {
            DeliveryState::Delivered => Ok(Exit::Done),
            DeliveryState::Pending | DeliveryState::Failed => Ok(Exit::Failed),
        }
    }
}

/// Waits for the first attempt's end.
async fn tried(
    online: &Online,
    webhook_id: WebhookId,
    event: &EventId,
) -> Result<Answer<Delivery>, Failure> {
    let request = ListDeliveries {
        tenant_id: online.client.tenant.clone(),
        webhook_id,
        limit: Some(LOOKED_AT),
    };
    loop {
        let answer = online
            .client
            .call::<Deliveries>("webhooks/deliveries", &request)
            .await?;
        let mut deliveries = answer.value.deliveries.into_iter();
        let mine = deliveries.find(|delivery| delivery.event_id == *event);
        if let Some(value) = mine.filter(has_ended) {
            let raw = serde_json::json!(value);
            return Ok(Answer { value, raw });
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Whether an attempt is over.
fn has_ended(delivery: &Delivery) -> bool {
    match delivery.state {
        DeliveryState::Delivered | DeliveryState::Failed => true,
        DeliveryState::Pending => delivery.last_error.is_some(),
    }
}

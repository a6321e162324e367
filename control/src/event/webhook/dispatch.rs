//! The loop that makes deliveries happen.
//!
//! Waits for word of events, or for a while; makes deliveries of what was committed, and gives every webhook that
//! something is due for a sender of its own: one that is slow delays nobody else. What leaves the process comes from
//! committed rows; what a sender was about when the process ended is sent again.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bc_protocol::id::WebhookId;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    attempt, queue,
    reach::{Clients, ClientsError, Reach},
};
use crate::{
    api::event::DeliveryState,
    clock::{Moment, Stopwatch},
    db::Db,
    event::sight::ReadError,
    metrics::{Delivered, Metrics, Work},
};

/// Webhooks that are sent to at once.
const SENDERS_MAX: usize = 128;

/// Between clearings of what has long been delivered.
const FORGET_EVERY: Duration = Duration::from_secs(60 * 60);

/// What senders share.
#[derive(Debug)]
struct Shared {
    db: Db,
    clients: Clients,
    metrics: Arc<Metrics>,
}

/// Starts the loop; it ends when it is told to stop.
pub(crate) fn spawn(
    db: Db,
    reach: &Reach,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) -> Result<JoinHandle<()>, ClientsError> {
    let shared = Arc::new(Shared {
        db,
        clients: Clients::new(reach)?,
        metrics,
    });
    Ok(tokio::spawn(async move {
        stop.run_until_cancelled(run(&shared)).await;
    }))
}

async fn run(shared: &Arc<Shared>) {
    let mut reading = shared.db.news().read();
    let mut busy = BTreeSet::new();
    // Dropped with the loop: what it was about is sent again by whoever comes next.
    let mut senders = JoinSet::new();
    let mut forgotten: Option<Stopwatch> = None;
    loop {
        if let Err(error) = round(shared, &mut busy, &mut senders).await {
            let error: &dyn std::error::Error = &error;
            tracing::error!(error, "webhooks wait: the database failed");
            shared.metrics.has_failed(&Work::WEBHOOKS);
        }
        if forgotten.is_none_or(|since| since.elapsed() >= FORGET_EVERY) {
            forgotten = Some(Stopwatch::start());
            if let Err(error) = queue::forget(&shared.db, Moment::now()).await {
                tracing::warn!(%error, "old deliveries are not forgotten");
            }
        }
        tokio::select! {
            () = reading.next() => {}
            Some(ended) = senders.join_next() => free(&mut busy, ended),
        }
        while let Some(ended) = senders.try_join_next() {
            free(&mut busy, ended);
        }
    }
}

fn free(busy: &mut BTreeSet<WebhookId>, ended: Result<WebhookId, tokio::task::JoinError>) {
    match ended {
        Ok(webhook) => {
            busy.remove(&webhook);
        }
        Err(error) => {
            // Which one it was nobody knows: none is kept away for ever.
            tracing::error!(%error, "a sender of webhooks ended with a panic");
            busy.clear();
        }
    }
}

async fn round(
    shared: &Arc<Shared>,
    busy: &mut BTreeSet<WebhookId>,
    senders: &mut JoinSet<WebhookId>,
) -> Result<(), ReadError> {
    while queue::fan_out(&shared.db, Moment::now()).await? {}
    for webhook in queue::due(&shared.db, Moment::now()).await? {
        if busy.len() >= SENDERS_MAX {
            tracing::warn!(max = SENDERS_MAX, "webhooks wait for slow receivers");
            break;
        }
        if busy.insert(webhook.clone()) {
            senders.spawn(deliver(Arc::clone(shared), webhook));
        }
    }
    Ok(())
}

/// Sends what is due for one webhook, one after another, until nothing is.
async fn deliver(shared: Arc<Shared>, webhook: WebhookId) -> WebhookId {
    while let Some(true) = deliver_one(&shared, &webhook).await {}
    webhook
}

/// Whether something was delivered; nothing where there is nothing to do for now.
async fn deliver_one(shared: &Shared, webhook: &WebhookId) -> Option<bool> {
    let failed = |error: sqlx::Error| {
        let error: &dyn std::error::Error = &error;
        tracing::error!(%webhook, error, "a webhook waits: the database failed");
        shared.metrics.has_failed(&Work::WEBHOOKS);
    };
    let taken = queue::take(&shared.db, webhook, Moment::now()).await;
    let taken = taken.map_err(failed).ok()??;
    let went = attempt::send(&shared.clients, &taken, Moment::now()).await;
    let outcome = match went.state {
        DeliveryState::Delivered => Delivered::DELIVERED,
        DeliveryState::Pending => Delivered::RETRIED,
        DeliveryState::Failed => Delivered::FAILED,
    };
    shared.metrics.deliveries.get_or_create(&outcome).inc();
    if let Some(error) = &went.error {
        let (event, attempt) = (&taken.event.id, taken.attempt);
        tracing::info!(%webhook, %event, attempt, error, "a delivery failed");
    }
    let reported = queue::report(&shared.db, &taken, &went, Moment::now()).await;
    reported.map_err(failed).ok()?;
    // A receiver that fails gets a rest before what else is due.
    Some(went.state == DeliveryState::Delivered)
}

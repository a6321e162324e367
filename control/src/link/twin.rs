//! Two processes with one gateway's certificate, as a copied state folder makes them.
//!
//! Takes a process that wants the gateway's link while another has it. The one that was linked first keeps it for as long as
//! it answers, here or at another control process; otherwise the two would throw each other out for ever, and all their nodes
//! with them. One that does not answer is gone, and the newcomer is the gateway that has come back. People are told.

use std::{sync::Arc, time::Duration};

use bc_protocol::{id::GatewayId, link::LinkHello};
use serde_json::json;
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    time::{Instant, sleep},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Shared,
    limits::{ANSWER_MAX, ELSEWHERE_LOOK, ELSEWHERE_MAX},
};
use crate::{
    access::action::ROOT_TENANT,
    clock::Moment,
    db::{query, query_scalar},
    event::outbox::{CONTROL, Draft, publish},
};

/// Between two events about one gateway.
const TOLD_EVERY: Duration = Duration::from_secs(60 * 60);

/// What a gateway hears that is refused. It has to fit into a closing frame.
pub(super) const REASON: &str =
    "another process with this gateway's certificate is linked and answers: is state_dir a copy";

/// Whether no other process of the gateway has its link at another control process, or has it no longer within a bounded time.
pub(super) async fn is_free_elsewhere(
    shared: &Shared,
    gateway: &GatewayId,
    process: &[u8],
) -> Result<bool, sqlx::Error> {
    if !shared.services.db.is_shared() || !is_elsewhere(shared, gateway, process).await? {
        return Ok(true);
    }
    // Whichever process holds that link asks whether anybody is there, and ends it otherwise.
    shared.services.tell_doubted(gateway);
    let until = Instant::now() + ELSEWHERE_MAX;
    while Instant::now() < until {
        sleep(ELSEWHERE_LOOK).await;
        if !is_elsewhere(shared, gateway, process).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn is_elsewhere(
    shared: &Shared,
    gateway: &GatewayId,
    process: &[u8],
) -> Result<bool, sqlx::Error> {
    let db = &shared.services.db;
    let others: i64 = query_scalar(
        "SELECT count(*) FROM gateways
         WHERE id = $1 AND linked = 1 AND process <> $2 AND link_process <> $3",
    )
    .bind(gateway.as_str())
    .bind(db.process())
    .bind(process)
    .fetch_one(db.reader())
    .await?;
    Ok(others > 0)
}

/// Tells of a process that was refused, at most once an hour and gateway.
pub(super) async fn tell(
    shared: &Shared,
    gateway: &GatewayId,
    hello: &LinkHello,
) -> Result<(), sqlx::Error> {
    let now = Moment::now();
    let mut tx = shared.services.db.begin().await?;
    let told = query(
        "UPDATE gateways SET duplicate_told_at = $2
         WHERE id = $1 AND (duplicate_told_at IS NULL OR duplicate_told_at <= $3)",
    )
    .bind(gateway.as_str())
    .bind(now.millis())
    .bind(now.minus(TOLD_EVERY).millis())
    .execute(&mut *tx)
    .await?;
    let Some(tenant) = ROOT_TENANT
        .parse()
        .ok()
        .filter(|_| told.rows_affected() > 0)
    else {
        return Ok(());
    };
    let name: String = query_scalar("SELECT name FROM gateways WHERE id = $1")
        .bind(gateway.as_str())
        .fetch_one(&mut *tx)
        .await?;
    let draft = Draft {
        kind: "gateway.duplicate",
        subject: format!("gateway/{gateway}"),
        tenant: &tenant,
        actor: CONTROL,
        data: json!({ "name": name, "version": hello.version }),
    };
    publish(&mut tx, draft, now);
    tx.commit().await?;
    tracing::warn!(%gateway, name, "a gateway's certificate is used by two processes: the second is refused");
    Ok(())
}

/// Looks after gateways whose links another control process doubts, until it is told to stop.
pub(super) async fn watch(
    shared: Arc<Shared>,
    mut news: Receiver<GatewayId>,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    let hear = async {
        loop {
            match news.recv().await {
                Ok(gateway) => {
                    let (shared, stop) = (Arc::clone(&shared), stop.clone());
                    tasks.spawn(async move {
                        let doubt = shared.turns.doubt(&gateway, ANSWER_MAX);
                        stop.run_until_cancelled(doubt).await;
                    });
                }
                Err(RecvError::Lagged(missed)) => {
                    tracing::debug!(missed, "word of doubted links is lost");
                }
                // The process ends.
                Err(RecvError::Closed) => return,
            }
        }
    };
    stop.run_until_cancelled(hear).await;
}

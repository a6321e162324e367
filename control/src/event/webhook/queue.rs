//! Deliveries as rows.
//!
//! Takes events that were committed, gives each webhook a delivery of those that it wants; hands a delivery out to one
//! sender at a time, and writes down how it went. An attempt that nobody reports on is taken for lost after a while,
//! and is made again: with the same id, so that the receiver can tell.

use std::time::Duration;

use bc_protocol::id::{TenantId, WebhookId};
use serde_json::json;

use super::{WebhookError, filter_of, find, sign::Secret, subject};
use crate::{
    api::event::{Deliveries, Delivery, DeliveryState, Event, ListDeliveries},
    clock::Moment,
    db::{
        Db, Row,
        column::{moment, number, parsed, signed, undecodable},
        query,
    },
    event::{
        kinds::WEBHOOK_TEST,
        read::{Scope, read},
        sight::{ReadError, Sight},
    },
};

/// Events that one transaction makes deliveries of.
const ROWS_MAX: u32 = 500;

/// Longer than an attempt can take.
const LOST_AFTER: Duration = Duration::from_secs(60);

/// What was delivered, or given up, is shown for so long.
const KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Makes deliveries of what has happened. Gives whether there is more to do.
pub(super) async fn fan_out(db: &Db, now: Moment) -> Result<bool, ReadError> {
    let webhooks = query("SELECT * FROM webhooks WHERE deleted_at IS NULL ORDER BY id")
        .fetch_all(db.reader())
        .await?;
    let mut more = false;
    for webhook in &webhooks {
        more |= fan_out_to(db, webhook, now).await?;
    }
    Ok(more)
}

async fn fan_out_to(db: &Db, webhook: &Row, now: Moment) -> Result<bool, ReadError> {
    let id: WebhookId = parsed(webhook, "id")?;
    let scope = Scope {
        tenant: parsed::<TenantId>(webhook, "tenant")?,
        filter: filter_of(webhook)?.and(WEBHOOK_TEST),
        subject: None,
        sight: Sight::everything(),
    };
    let position = number(webhook, "position")?;
    let page = scope.after(db, position, ROWS_MAX).await?;
    if page.next == position {
        return Ok(false);
    }
    let mut tx = db.begin().await?;
    // Another process may have been faster: then there is nothing left to do, or the same is done again.
    let moved = query(
        "UPDATE webhooks SET position = $2 WHERE id = $1 AND position < $2 AND deleted_at IS NULL",
    )
    .bind(id.as_str())
    .bind(signed(page.next))
    .execute(&mut tx)
    .await?;
    if moved.rows_affected() == 0 {
        return Ok(page.is_full);
    }
    let own = subject(&id);
    // Who tries another webhook means that one.
    let concerns = |event: &&Event| event.kind != WEBHOOK_TEST || event.subject == own;
    for event in page.events.iter().filter(concerns) {
        query(
            "INSERT INTO webhook_deliveries (webhook_id, position, state, due_at, updated_at)
             VALUES ($1, $2, 'pending', $3, $3) ON CONFLICT (webhook_id, position) DO NOTHING",
        )
        .bind(id.as_str())
        .bind(signed(event.position))
        .bind(now.millis())
        .execute(&mut tx)
        .await?;
    }
    tx.commit().await?;
    Ok(page.is_full)
}

/// Webhooks that something is due for, the longest due first.
pub(super) async fn due(db: &Db, now: Moment) -> Result<Vec<WebhookId>, sqlx::Error> {
    let rows = query(
        "SELECT webhook_id FROM webhook_deliveries WHERE state = 'pending' AND due_at <= $1
         GROUP BY webhook_id ORDER BY min(due_at), webhook_id",
    )
    .bind(now.millis())
    .fetch_all(db.reader())
    .await?;
    rows.iter().map(|row| parsed(row, "webhook_id")).collect()
}

/// A delivery that was handed out.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) webhook: WebhookId,
    pub(super) url: String,
    pub(super) secret: Secret,
    pub(super) event: Event,
    /// This attempt, from 1.
    pub(super) attempt: u32,
}

/// Takes the longest due delivery of a webhook. From the commit on the attempt counts, whether it is made or not.
pub(super) async fn take(
    db: &Db,
    webhook: &WebhookId,
    now: Moment,
) -> Result<Option<Taken>, sqlx::Error> {
    let mut tx = db.begin().await?;
    let row = query(
        "SELECT e.*, w.url, w.secret, d.attempts, d.due_at
         FROM webhook_deliveries d
         JOIN events e ON e.position = d.position
         JOIN webhooks w ON w.id = d.webhook_id
         WHERE d.webhook_id = $1 AND d.state = 'pending' AND d.due_at <= $2
             AND w.deleted_at IS NULL
         ORDER BY d.due_at, d.position LIMIT 1",
    )
    .bind(webhook.as_str())
    .bind(now.millis())
    .fetch_optional(&mut tx)
    .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let attempts: u32 = number(&row, "attempts")?;
    let taken = Taken {
        webhook: webhook.clone(),
        url: row.try_get("url")?,
        secret: Secret::of(row.try_get("secret")?),
        event: read(&row)?,
        attempt: attempts.saturating_add(1),
    };
    let due: i64 = row.try_get("due_at")?;
    let handed = query(
        "UPDATE webhook_deliveries SET attempts = $3, due_at = $4, updated_at = $5
         WHERE webhook_id = $1 AND position = $2 AND state = 'pending' AND due_at = $6",
    )
    .bind(webhook.as_str())
    .bind(signed(taken.event.position))
    .bind(taken.attempt)
    .bind(now.plus(LOST_AFTER).millis())
    .bind(now.millis())
    .bind(due)
    .execute(&mut tx)
    .await?;
    tx.commit().await?;
    Ok((handed.rows_affected() == 1).then_some(taken))
}

/// How an attempt went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Went {
    pub(super) state: DeliveryState,
    /// When the next attempt is due, where there is one.
    pub(super) due_at: Moment,
    pub(super) status: Option<u32>,
    pub(super) error: Option<String>,
}

/// Writes down how an attempt went, unless a later one has begun.
pub(super) async fn report(
    db: &Db,
    taken: &Taken,
    went: &Went,
    now: Moment,
) -> Result<(), sqlx::Error> {
    let mut tx = db.begin().await?;
    query(
        "UPDATE webhook_deliveries
         SET state = $4, due_at = $5, last_status = $6, last_error = $7, updated_at = $8
         WHERE webhook_id = $1 AND position = $2 AND attempts = $3 AND state = 'pending'",
    )
    .bind(taken.webhook.as_str())
    .bind(signed(taken.event.position))
    .bind(taken.attempt)
    .bind(word(went.state))
    .bind(went.due_at.millis())
    .bind(went.status)
    .bind(went.error.as_deref())
    .bind(now.millis())
    .execute(&mut tx)
    .await?;
    tx.commit().await
}

/// Forgets what has long been delivered or given up.
pub(super) async fn forget(db: &Db, now: Moment) -> Result<(), sqlx::Error> {
    let mut tx = db.begin().await?;
    query("DELETE FROM webhook_deliveries WHERE state <> 'pending' AND updated_at < $1")
        .bind(
            now.millis()
                .saturating_sub(signed(u64::try_from(KEPT.as_millis()).unwrap_or(u64::MAX))),
        )
        .execute(&mut tx)
        .await?;
    tx.commit().await
}

/// A webhook's deliveries, newest first.
pub(crate) async fn deliveries(
    db: &Db,
    request: &ListDeliveries,
    limit: u32,
) -> Result<Deliveries, WebhookError> {
    let mut conn = db.reader().begin().await?;
    let webhook = find(&mut conn, &request.tenant_id, &request.webhook_id).await?;
    let rows = query(
        "SELECT d.*, e.id, e.type FROM webhook_deliveries d
         JOIN events e ON e.position = d.position
         WHERE d.webhook_id = $1 ORDER BY d.position DESC LIMIT $2",
    )
    .bind(webhook.id.as_str())
    .bind(limit)
    .fetch_all(&mut conn)
    .await?;
    let deliveries = rows.iter().map(shown).collect::<Result<_, _>>()?;
    Ok(Deliveries { deliveries })
}

fn shown(row: &Row) -> Result<Delivery, sqlx::Error> {
    let state: String = row.try_get("state")?;
    let state: DeliveryState =
        serde_json::from_value(json!(state)).map_err(|error| undecodable("state", error))?;
    let status: Option<i64> = row.try_get("last_status")?;
    Ok(Delivery {
        event_id: parsed(row, "id")?,
        position: number(row, "position")?,
        kind: row.try_get("type")?,
        state,
        attempts: number(row, "attempts")?,
        next_attempt_at: match state {
            DeliveryState::Pending => Some(moment(row, "due_at")?),
            DeliveryState::Delivered | DeliveryState::Failed => None,
        },
        last_status: status.and_then(|status| status.try_into().ok()),
        last_error: row.try_get("last_error")?,
        updated_at: moment(row, "updated_at")?,
    })
}

/// The state as rows keep it.
fn word(state: DeliveryState) -> &'static str {
    match state {
        DeliveryState::Pending => "pending",
        DeliveryState::Delivered => "delivered",
        DeliveryState::Failed => "failed",
    }
}

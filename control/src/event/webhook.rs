//! Webhooks: where a tenant wants its events sent.
//!
//! Takes a tenant's wishes, gives its webhooks and how their deliveries stand. The secret is shown once, yet kept as it
//! is: messages are signed with it. What is sent, and when, is [`dispatch`]'s.

mod attempt;
pub(crate) mod dispatch;
mod queue;
mod reach;
mod sign;

use bc_protocol::id::{TenantId, WebhookId};
use serde_json::json;
use thiserror::Error;

pub(crate) use queue::deliveries;
pub(crate) use reach::{ClientsError, Reach, UrlError};

use super::{
    filter::{Filter, FilterError},
    kinds::WEBHOOK_TEST,
    outbox::{Draft, publish},
};
use crate::{
    api::event::{CreateWebhook, NewWebhook, OneWebhook, Webhook, WebhookTest},
    chance,
    clock::Moment,
    db::{
        Conn, Db, Row,
        column::{json as column_json, moment, moment_option, parsed, undecodable},
        contention::turn,
        query, query_scalar,
    },
};

/// Of one tenant. Every event is sent to each of them.
const WEBHOOKS_MAX: i64 = 20;

/// Why a webhook is not made or found.
#[derive(Debug, Error)]
pub(crate) enum WebhookError {
    /// The database failed.
    #[error("the database failed")]
    Sql(#[from] sqlx::Error),
    /// Nothing may be sent there.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The types are none.
    #[error(transparent)]
    Types(#[from] FilterError),
    /// The tenant has as many as it may.
    #[error("expected at most {WEBHOOKS_MAX} webhooks of one tenant, found as many already")]
    TooMany,
    /// Not a webhook of this tenant.
    #[error("expected a webhook of this tenant, found none")]
    NotFound,
}

/// Makes a webhook. The event that says so is the first that it gets.
pub(crate) async fn create(
    db: &Db,
    reach: &Reach,
    (actor, now): (&str, Moment),
    request: &CreateWebhook,
) -> Result<NewWebhook, WebhookError> {
    let url = reach.check(&request.url)?;
    let filter = Filter::asked(&request.types)?;
    let id = WebhookId::random(now.unix_ms(), chance::bits());
    let secret = sign::Secret::fresh();
    let mut tx = db.begin().await?;
    turn(&mut tx, "webhooks").await?;
    let held: i64 =
        query_scalar("SELECT count(*) FROM webhooks WHERE tenant = $1 AND deleted_at IS NULL")
            .bind(request.tenant_id.as_str())
            .fetch_one(&mut tx)
            .await?;
    if held >= WEBHOOKS_MAX {
        return Err(WebhookError::TooMany);
    }
    // Whatever has a position up to the counter's is committed.
    query(
        "INSERT INTO webhooks (id, tenant, url, secret, types, position, created_at, created_by)
         VALUES ($1, $2, $3, $4, $5,
             coalesce((SELECT value FROM counters WHERE name = 'events'), 0), $6, $7)",
    )
    .bind(id.as_str())
    .bind(request.tenant_id.as_str())
    .bind(url.as_str())
    .bind(secret.bytes())
    .bind(json!(filter.types()).to_string())
    .bind(now.millis())
    .bind(actor)
    .execute(&mut tx)
    .await?;
    let draft = Draft {
        kind: "webhook.created",
        subject: subject(&id),
        tenant: &request.tenant_id,
        actor,
        data: json!({ "url": url, "types": filter.types() }),
    };
    publish(&mut tx, draft, now);
    tx.commit().await?;
    Ok(NewWebhook {
        id,
        url: url.into(),
        secret: secret.reveal(),
        created_at: now,
    })
}

/// The tenant's webhooks, oldest first.
pub(crate) async fn list(db: &Db, tenant: &TenantId) -> Result<Vec<Webhook>, WebhookError> {
    let rows = query("SELECT * FROM webhooks WHERE tenant = $1 AND deleted_at IS NULL ORDER BY id")
        .bind(tenant.as_str())
        .fetch_all(db.reader())
        .await?;
    Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
}

/// Writes an event that is sent to one webhook, whatever types that wants: by the same way as every other.
pub(crate) async fn test(
    db: &Db,
    (actor, now): (&str, Moment),
    request: &OneWebhook,
) -> Result<WebhookTest, WebhookError> {
    let mut tx = db.begin().await?;
    let webhook = find(&mut tx, &request.tenant_id, &request.webhook_id).await?;
    if webhook.deleted_at.is_some() {
        return Err(WebhookError::NotFound);
    }
    let draft = Draft {
        kind: WEBHOOK_TEST,
        subject: subject(&webhook.id),
        tenant: &request.tenant_id,
        actor,
        data: json!({ "url": webhook.url }),
    };
    let event_id = publish(&mut tx, draft, now);
    tx.commit().await?;
    Ok(WebhookTest {
        webhook_id: webhook.id,
        event_id,
    })
}

/// What events about a webhook name.
fn subject(id: &WebhookId) -> String {
    format!("webhook/{id}")
}

/// Ends a webhook; what waits to be sent is not. Repeated, it answers the same.
pub(crate) async fn delete(
    db: &Db,
    (actor, now): (&str, Moment),
    request: &OneWebhook,
) -> Result<Webhook, WebhookError> {
    let mut tx = db.begin().await?;
    turn(&mut tx, "webhooks").await?;
    let mut webhook = find(&mut tx, &request.tenant_id, &request.webhook_id).await?;
    if webhook.deleted_at.is_some() {
        return Ok(webhook);
    }
    query("UPDATE webhooks SET deleted_at = $2 WHERE id = $1")
        .bind(webhook.id.as_str())
        .bind(now.millis())
        .execute(&mut tx)
        .await?;
    query("DELETE FROM webhook_deliveries WHERE webhook_id = $1 AND state = 'pending'")
        .bind(webhook.id.as_str())
        .execute(&mut tx)
        .await?;
    let draft = Draft {
        kind: "webhook.deleted",
        subject: subject(&webhook.id),
        tenant: &request.tenant_id,
        actor,
        data: json!({ "url": webhook.url }),
    };
    publish(&mut tx, draft, now);
    tx.commit().await?;
    webhook.deleted_at = Some(now);
    Ok(webhook)
}

async fn find(conn: &mut Conn, tenant: &TenantId, id: &WebhookId) -> Result<Webhook, WebhookError> {
    let row = query("SELECT * FROM webhooks WHERE id = $1 AND tenant = $2")
        .bind(id.as_str())
        .bind(tenant.as_str())
        .fetch_optional(conn)
        .await?
        .ok_or(WebhookError::NotFound)?;
    Ok(read(&row)?)
}

fn read(row: &Row) -> Result<Webhook, sqlx::Error> {
    Ok(Webhook {
        id: parsed(row, "id")?,
        url: row.try_get("url")?,
        types: column_json(row, "types")?,
        created_at: moment(row, "created_at")?,
        created_by: row.try_get("created_by")?,
        deleted_at: moment_option(row, "deleted_at")?,
    })
}

/// The types of a row of `webhooks`.
fn filter_of(row: &Row) -> Result<Filter, sqlx::Error> {
    let types: Vec<String> = column_json(row, "types")?;
    Filter::parse(&types).map_err(|error| undecodable("types", error))
}

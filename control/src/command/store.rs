//! What callers can do with commands: make one, and look.
//!
//! Takes the API's requests, gives the API's answers. One call is one transaction with its event; whoever dispatches is
//! told after the commit.

use std::time::Duration;

use bc_protocol::{
    command::{Kind, Part},
    id::{CommandId, NodeId, PoolId, TenantId},
};
use serde_json::{Value, json};
use thiserror::Error;

use super::{limits, row};
use crate::{
    api::command::{Command, CreateCommand, ListCommands, OneCommand, Payload},
    chance,
    clock::Moment,
    db::{
        Conn, Db, Tx,
        column::parsed,
        contention::{lock_nodes, retried},
        query, query_scalar,
    },
    event::outbox::{Draft, publish},
};

/// Why a call about commands does not get what it wants.
#[derive(Debug, Error)]
pub(crate) enum CommandError {
    /// The database failed.
    #[error("the database failed")]
    Sql(#[from] sqlx::Error),
    /// Not a node of this tenant.
    #[error("expected a node of this tenant, found none")]
    NoNode,
    /// Not a command of this tenant.
    #[error("expected a command of this tenant, found none")]
    NotFound,
    /// Upgrades follow from rollouts.
    #[error(
        "expected daemon.restart or diagnostics.collect, found daemon.upgrade, which only rollouts make"
    )]
    Upgrade,
    /// The kind has no particulars.
    #[error("expected no payload for {kind}, found one")]
    Payload {
        /// Which.
        kind: Kind,
    },
    /// One part comes once in a report.
    #[error("expected every part once, found one twice")]
    Parts,
    /// No key.
    #[error("expected 1 to 128 letters, digits or any of ._~:/+=-, found another text")]
    Key,
    /// Upgrades' own names.
    #[error("expected a key that does not begin with rollout:, found one that does")]
    ReservedKey,
    /// No span.
    #[error("expected 1 to 2592000 seconds, found {found}")]
    Expiry {
        /// What was asked for.
        found: f64,
    },
    /// The key is another command's.
    #[error("expected a new key, found that of {id}, which is another command")]
    Taken {
        /// Which.
        id: CommandId,
    },
    /// Too many wait already.
    #[error(
        "expected at most {} commands of a node that have not ended, found as many",
        limits::OPEN_MAX
    )]
    TooMany,
}

/// A command that is about to be written.
pub(super) struct Draught<'a> {
    pub(super) tenant: &'a TenantId,
    pub(super) node: &'a NodeId,
    pub(super) kind: Kind,
    pub(super) payload: Value,
    pub(super) key: &'a str,
    pub(super) life: Duration,
    pub(super) actor: &'a str,
}

/// The pool of a node, for whoever decides who may.
pub(crate) async fn pool_of(
    db: &Db,
    tenant: &TenantId,
    node: &NodeId,
) -> Result<Option<PoolId>, CommandError> {
    let row =
        query("SELECT pool_id FROM nodes WHERE id = $1 AND tenant = $2 AND removed_at IS NULL")
            .bind(node.as_str())
            .bind(tenant.as_str())
            .fetch_optional(db.reader())
            .await?;
    Ok(row.as_ref().map(|row| parsed(row, "pool_id")).transpose()?)
}

/// `commands.create`
pub(crate) async fn create(
    db: &Db,
    actor: &str,
    request: &CreateCommand,
    now: Moment,
) -> Result<Command, CommandError> {
    let (tenant, node) = (&request.tenant_id, &request.node_id);
    check(request)?;
    let fresh = format!("{:032x}", chance::bits());
    let draught = Draught {
        tenant,
        node,
        kind: request.kind,
        payload: payload(request.kind, &request.payload),
        key: request.idempotency_key.as_deref().unwrap_or(&fresh),
        life: life(request.expires_in_seconds)?,
        actor,
    };
    retried(|| create_once(db, &draught, now)).await
}

async fn create_once(db: &Db, draught: &Draught<'_>, now: Moment) -> Result<Command, CommandError> {
    let (tenant, node) = (draught.tenant, draught.node);
    let mut tx = db.begin().await?;
    lock_node(&mut tx, tenant, node).await?;
    let id = match with_key(&mut tx, node, draught.key).await? {
        Some(found) if (found.kind, &found.payload) == (draught.kind, &draught.payload) => found.id,
        Some(found) => return Err(CommandError::Taken { id: found.id }),
        None => {
            if row::open(&mut tx, node).await?.len() >= limits::OPEN_MAX {
                return Err(CommandError::TooMany);
            }
            write(&mut tx, draught, now).await?
        }
    };
    let command = find(&mut tx, tenant, &id).await?;
    tx.commit().await?;
    Ok(command)
}

fn check(request: &CreateCommand) -> Result<(), CommandError> {
    match request.kind {
        Kind::Upgrade => return Err(CommandError::Upgrade),
        Kind::Restart if !request.payload.is_empty() => {
            return Err(CommandError::Payload { kind: request.kind });
        }
        Kind::Restart | Kind::Diagnostics => {}
    }
    let named = &request.payload.collect;
    let repeats = |(at, part)| named.iter().take(at).any(|before: &Part| before == part);
    if named.iter().enumerate().any(repeats) {
        return Err(CommandError::Parts);
    }
    let Some(key) = request.idempotency_key.as_deref() else {
        return Ok(());
    };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._~:/+=-".contains(&byte);
    if key.is_empty() || key.len() > limits::KEY_CHARS_MAX || !key.bytes().all(allowed) {
        return Err(CommandError::Key);
    }
    if key.starts_with("rollout:") {
        return Err(CommandError::ReservedKey);
    }
    Ok(())
}

fn life(seconds: Option<f64>) -> Result<Duration, CommandError> {
    let Some(found) = seconds else {
        return Ok(limits::LIFE_DEFAULT);
    };
    if !limits::LIFE.contains(&found) {
        return Err(CommandError::Expiry { found });
    }
    Duration::try_from_secs_f64(found).map_err(|_| CommandError::Expiry { found })
}

fn payload(kind: Kind, payload: &Payload) -> Value {
    match kind {
        Kind::Diagnostics => json!({ "collect": payload.collect }),
        Kind::Restart | Kind::Upgrade => json!({}),
    }
}

/// `commands.list`
pub(crate) async fn list(db: &Db, request: &ListCommands) -> Result<Vec<Command>, CommandError> {
    let (tenant, most) = (request.tenant_id.as_str(), limits::LIST_MAX);
    let rows = match &request.node_id {
        Some(node) => {
            query(
                "SELECT * FROM commands WHERE tenant = $1 AND node_id = $2
                 ORDER BY number DESC LIMIT $3",
            )
            .bind(tenant)
            .bind(node.as_str())
            .bind(most)
            .fetch_all(db.reader())
            .await?
        }
        None => {
            query("SELECT * FROM commands WHERE tenant = $1 ORDER BY number DESC LIMIT $2")
                .bind(tenant)
                .bind(most)
                .fetch_all(db.reader())
                .await?
        }
    };
    Ok(rows
        .iter()
        .map(|row| row::shown(row, None))
        .collect::<Result<_, _>>()?)
}

/// `commands.get`
pub(crate) async fn get(db: &Db, request: &OneCommand) -> Result<Command, CommandError> {
    let mut conn = db.reader().begin().await?;
    find(&mut conn, &request.tenant_id, &request.command_id).await
}

async fn find(conn: &mut Conn, tenant: &TenantId, id: &CommandId) -> Result<Command, CommandError> {
    let row = query("SELECT * FROM commands WHERE id = $1 AND tenant = $2")
        .bind(id.as_str())
        .bind(tenant.as_str())
        .fetch_optional(conn)
        .await?
        .ok_or(CommandError::NotFound)?;
    let report = row.try_get("report")?;
    Ok(row::shown(&row, report)?)
}

/// Makes whoever writes commands of one node do so one after the other.
async fn lock_node(tx: &mut Tx, tenant: &TenantId, node: &NodeId) -> Result<(), CommandError> {
    lock_nodes(tx, [node]).await?;
    query("SELECT id FROM nodes WHERE id = $1 AND tenant = $2 AND removed_at IS NULL")
        .bind(node.as_str())
        .bind(tenant.as_str())
        .fetch_optional(tx)
        .await?
        .map(|_| ())
        .ok_or(CommandError::NoNode)
}

/// A command as its key finds it.
pub(super) struct Keyed {
    pub(super) id: CommandId,
    pub(super) kind: Kind,
    pub(super) payload: Value,
}

/// The command of this node with this key.
pub(super) async fn with_key(
    tx: &mut Tx,
    node: &NodeId,
    key: &str,
) -> Result<Option<Keyed>, sqlx::Error> {
    let row =
        query("SELECT id, kind, payload FROM commands WHERE node_id = $1 AND idempotency = $2")
            .bind(node.as_str())
            .bind(key)
            .fetch_optional(tx)
            .await?;
    row.map(|row| {
        Ok(Keyed {
            id: parsed(&row, "id")?,
            kind: parsed(&row, "kind")?,
            payload: crate::db::column::json(&row, "payload")?,
        })
    })
    .transpose()
}

/// Writes a command, with its event, and forgets the oldest that have ended.
pub(super) async fn write(
    tx: &mut Tx,
    draught: &Draught<'_>,
    now: Moment,
) -> Result<CommandId, sqlx::Error> {
    // The id follows from the key: equal calls at once make one row, whoever is first.
    let parts = [
        draught.node.as_str(),
        draught.key,
        &now.millis().to_string(),
    ];
    let id = CommandId::derived(&parts.map(str::as_bytes));
    let number: i64 = query_scalar(
        "INSERT INTO counters (name, value) VALUES ('commands', 1)
         ON CONFLICT (name) DO UPDATE SET value = counters.value + 1 RETURNING value",
    )
    .fetch_one(&mut *tx)
    .await?;
    let expires_at = now.plus(draught.life).millis();
    query(
        "INSERT INTO commands (id, number, tenant, node_id, kind, lane, payload, idempotency, state,
             expires_at, due_at, created_at, created_by)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'pending', $9, $9, $10, $11)",
    )
    .bind(id.as_str())
    .bind(number)
    .bind(draught.tenant.as_str())
    .bind(draught.node.as_str())
    .bind(draught.kind.word())
    .bind(draught.kind.lane().word())
    .bind(draught.payload.to_string())
    .bind(draught.key)
    .bind(expires_at)
    .bind(now.millis())
    .bind(draught.actor)
    .execute(&mut *tx)
    .await?;
    forget_oldest(tx, draught.node).await?;
    let draft = Draft {
        kind: "command.created",
        subject: format!("node/{}", draught.node),
        tenant: draught.tenant,
        actor: draught.actor,
        data: json!({ "commandId": id, "kind": draught.kind, "payload": draught.payload }),
    };
    publish(tx, draft, now);
    Ok(id)
}

async fn forget_oldest(tx: &mut Tx, node: &NodeId) -> Result<(), sqlx::Error> {
    query(
        "DELETE FROM commands WHERE node_id = $1 AND state NOT IN ('pending', 'dispatched')
           AND number <= (SELECT number FROM commands
                WHERE node_id = $1 AND state NOT IN ('pending', 'dispatched')
                ORDER BY number DESC LIMIT 1 OFFSET $2)",
    )
    .bind(node.as_str())
    .bind(limits::ENDED_MAX)
    .execute(tx)
    .await?;
    Ok(())
}

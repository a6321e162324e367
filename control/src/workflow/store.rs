//! Workflows' rows.
//!
//! Takes calls, gives workflows. Each call is one transaction: the row, the node's place in its pool's budget, and the
//! event. Whoever calls wakes the controller after the commit.

use bc_protocol::id::{PoolId, TenantId, WorkflowId};
use serde_json::json;

use super::{error::WorkflowError, lifecycle::Standing};
use crate::{
    api::{
        reason,
        workflow::{CreateWorkflow, ListWorkflows, UpdateWorkflow, Workflow, WorkflowState},
    },
    chance,
    clock::Moment,
    db::{
        Conn, Db, Row, Tx,
        column::{moment, moment_option, parsed, undecodable},
        contention::retried,
        query, query_scalar,
    },
    event::outbox::{Draft, publish},
    fleet::disruption,
};

/// Workflows that `workflows.list` gives.
const LISTED_MAX: i64 = 100;
/// Characters of a kind: it is a word for tables and metrics.
pub(crate) const KIND_CHARS_MAX: usize = 64;
/// Characters of an idempotency key.
pub(crate) const KEY_CHARS_MAX: usize = 128;

/// Makes a workflow, or finds the one that an equal call made. It takes its node's place at once, whatever the budget
/// says.
pub(crate) async fn create(
    db: &Db,
    actor: &str,
    request: &CreateWorkflow,
    now: Moment,
) -> Result<Workflow, WorkflowError> {
    check(request)?;
    retried(|| create_once(db, actor, request, now)).await
}

async fn create_once(
    db: &Db,
    actor: &str,
    request: &CreateWorkflow,
    now: Moment,
) -> Result<Workflow, WorkflowError> {
    let mut tx = db.begin().await?;
    let id = id(actor, request, now);
    if let Some(made) = find(&mut tx, &request.tenant_id, &id).await? {
        if made.node_id != request.node_id || made.kind != request.kind {
            return Err(WorkflowError::KeyTaken { workflow: id });
        }
        return Ok(made);
    }
    let pool = pool_of(&mut tx, request).await?;
    lock(&mut tx, &pool).await?;
    query(
        "INSERT INTO workflows (id, tenant, node_id, pool_id, kind, state, reason, created_at, created_by, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $8)",
    )
    .bind(id.as_str())
    .bind(request.tenant_id.as_str())
    .bind(request.node_id.as_str())
    .bind(pool.as_str())
    .bind(&request.kind)
    .bind(WorkflowState::Pending.word())
    .bind(request.reason.as_deref())
    .bind(now.millis())
    .bind(actor)
    .execute(&mut tx)
    .await?;
    disruption::occupy(&mut tx, &request.node_id, &pool, id.as_str(), now).await?;
    let made = found(&mut tx, &request.tenant_id, &id).await?;
    announce(
        &mut tx,
        "workflow.created",
        (&request.tenant_id, actor),
        &made,
        now,
    );
    tx.commit().await?;
    tracing::info!(workflow = %id, node = %made.node_id, actor, "workflow.created");
    Ok(made)
}

/// Moves a workflow. One that ends gives its node's place back, unless something else disrupts the node too.
pub(crate) async fn update(
    db: &Db,
    actor: &str,
    request: &UpdateWorkflow,
    now: Moment,
) -> Result<Workflow, WorkflowError> {
    if let Some(reason) = &request.reason {
        reason::check(reason)?;
    }
    retried(|| update_once(db, actor, request, now)).await
}

async fn update_once(
    db: &Db,
    actor: &str,
    request: &UpdateWorkflow,
    now: Moment,
) -> Result<Workflow, WorkflowError> {
    let (tenant, id) = (&request.tenant_id, &request.workflow_id);
    let mut tx = db.begin().await?;
    let pool = found(&mut tx, tenant, id).await?.pool_id;
    lock(&mut tx, &pool).await?;
    let before = found(&mut tx, tenant, id).await?;
    let same = before.state == request.state;
    if !same && !before.state.may_become(request.state) {
        return Err(WorkflowError::Move {
            from: before.state,
            to: request.state,
        });
    }
    write(&mut tx, request, &before, now).await?;
    let after = found(&mut tx, tenant, id).await?;
    announce(&mut tx, "workflow.updated", (tenant, actor), &after, now);
    tx.commit().await?;
    tracing::info!(workflow = %id, state = after.state.word(), actor, "workflow.updated");
    Ok(after)
}

async fn write(
    tx: &mut Tx,
    request: &UpdateWorkflow,
    before: &Workflow,
    now: Moment,
) -> Result<(), WorkflowError> {
    let ends = match request.state.standing() {
        Standing::Open => None,
        Standing::Ended => Some(before.finished_at.unwrap_or(now)),
    };
    // The state in the condition: two that move it at once do not both end it.
    let written = query(
        "UPDATE workflows SET state = $3, reason = coalesce($4, reason), updated_at = $5, finished_at = $6
         WHERE id = $1 AND state = $2",
    )
    .bind(before.id.as_str())
    .bind(before.state.word())
    .bind(request.state.word())
    .bind(request.reason.as_deref())
    .bind(now.millis())
    .bind(ends.map(Moment::millis))
    .execute(&mut *tx)
    .await?;
    if written.rows_affected() != 1 {
        return Err(WorkflowError::Move {
            from: before.state,
            to: request.state,
        });
    }
    if ends.is_some() {
        disruption::vacate(tx, &before.node_id, before.id.as_str()).await?;
    }
    Ok(())
}

/// The tenant's newest workflows, newest first.
pub(crate) async fn list(db: &Db, request: &ListWorkflows) -> Result<Vec<Workflow>, WorkflowError> {
    let node = request.node_id.as_ref().map_or("", |node| node.as_str());
    let state = request.state.map_or("", WorkflowState::word);
    let rows = query(
        "SELECT * FROM workflows
         WHERE tenant = $1 AND ($2 = '' OR node_id = $2) AND ($3 = '' OR state = $3)
         ORDER BY created_at DESC, id DESC LIMIT $4",
    )
    .bind(request.tenant_id.as_str())
    .bind(node)
    .bind(state)
    .bind(LISTED_MAX)
    .fetch_all(db.reader())
    .await?;
    Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
}

fn check(request: &CreateWorkflow) -> Result<(), WorkflowError> {
    let word =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let kind = &request.kind;
    if !(1..=KIND_CHARS_MAX).contains(&kind.len()) || !kind.bytes().all(word) {
        return Err(WorkflowError::Kind);
    }
    let key = |byte: u8| byte.is_ascii_alphanumeric() || b"._~:/+=-".contains(&byte);
    if let Some(text) = &request.idempotency_key
        && !((1..=KEY_CHARS_MAX).contains(&text.len()) && text.bytes().all(key))
    {
        return Err(WorkflowError::Key);
    }
    if let Some(reason) = &request.reason {
        reason::check(reason)?;
    }
    Ok(())
}

fn id(actor: &str, request: &CreateWorkflow, now: Moment) -> WorkflowId {
    match &request.idempotency_key {
        Some(key) => WorkflowId::derived(&[
            request.tenant_id.as_str().as_bytes(),
            actor.as_bytes(),
            key.as_bytes(),
        ]),
        None => WorkflowId::random(now.unix_ms(), chance::bits()),
    }
}

async fn pool_of(tx: &mut Tx, request: &CreateWorkflow) -> Result<PoolId, WorkflowError> {
    let pool: Option<String> = query_scalar(
        "SELECT pool_id FROM nodes WHERE id = $1 AND tenant = $2 AND removed_at IS NULL",
    )
    .bind(request.node_id.as_str())
    .bind(request.tenant_id.as_str())
    .fetch_optional(tx)
    .await?;
    let pool = pool.ok_or_else(|| WorkflowError::NoNode {
        node: request.node_id.clone(),
    })?;
    Ok(pool
        .parse()
        .map_err(|source| undecodable("pool_id", source))?)
}

/// Whoever changes who is disrupted in a pool holds it, as passes do.
async fn lock(tx: &mut Tx, pool: &PoolId) -> Result<(), sqlx::Error> {
    query("SELECT id FROM pools WHERE id = $1")
        .bind(pool.as_str())
        .for_update()
        .fetch_optional(tx)
        .await?;
    Ok(())
}

async fn found(
    conn: &mut Conn,
    tenant: &TenantId,
    id: &WorkflowId,
) -> Result<Workflow, WorkflowError> {
    find(conn, tenant, id)
        .await?
        .ok_or_else(|| WorkflowError::NotFound {
            workflow: id.clone(),
        })
}

async fn find(
    conn: &mut Conn,
    tenant: &TenantId,
    id: &WorkflowId,
) -> Result<Option<Workflow>, sqlx::Error> {
    let row = query("SELECT * FROM workflows WHERE id = $1 AND tenant = $2")
        .bind(id.as_str())
        .bind(tenant.as_str())
        .fetch_optional(conn)
        .await?;
    row.map(|row| read(&row)).transpose()
}

fn read(row: &Row) -> Result<Workflow, sqlx::Error> {
    let word: &str = row.try_get("state")?;
    let state = WorkflowState::from_word(word)
        .ok_or_else(|| undecodable("state", UnknownState(word.to_owned())))?;
    Ok(Workflow {
        id: parsed(row, "id")?,
        node_id: parsed(row, "node_id")?,
        pool_id: parsed(row, "pool_id")?,
        kind: row.try_get("kind")?,
        state,
        reason: row.try_get("reason")?,
        created_at: moment(row, "created_at")?,
        created_by: row.try_get("created_by")?,
        updated_at: moment(row, "updated_at")?,
        finished_at: moment_option(row, "finished_at")?,
    })
}

fn announce(
    tx: &mut Tx,
    kind: &'static str,
    (tenant, actor): (&TenantId, &str),
    workflow: &Workflow,
    now: Moment,
) {
    let draft = Draft {
        kind,
        subject: format!("workflow/{}", workflow.id),
        tenant,
        actor,
        data: json!({
            "nodeId": workflow.node_id,
            "kind": workflow.kind,
            "state": workflow.state,
            "reason": workflow.reason,
        }),
    };
    publish(tx, draft, now);
}

/// A state that this build does not know.
#[derive(Debug, thiserror::Error)]
#[error("expected a workflow's state, found \"{0}\"")]
struct UnknownState(String);

#[cfg(test)]
mod tests;

//! What operators do to nodes: labels and maintenance, and the end of a membership.
//!
//! Takes a node of a tenant, leaves its rows as wanted and an event beside them. Each is one transaction, which waits
//! for the lock of a pass: once it has answered, no plan is made from what held before.

use std::collections::BTreeMap;

use serde_json::json;

use super::node::{self, NodeError};
use crate::{
    api::fleet::{Node, OneNode, RemovedNode, UpdateNode},
    clock::Moment,
    db::{
        Db, Tx,
        column::{json as column_json, moment_option, parsed, undecodable},
        query,
    },
    event::outbox::{Draft, publish},
    fleet::{join::check_labels, late},
};

/// Changes what is given and leaves the rest.
pub(crate) async fn update(
    db: &Db,
    actor: &str,
    request: &UpdateNode,
    now: Moment,
) -> Result<Node, NodeError> {
    let (tenant, node) = (&request.tenant_id, &request.node_id);
    let mut tx = db.begin().await?;
    let row = query(
        "SELECT said_labels, set_labels FROM nodes
         WHERE id = $1 AND tenant = $2 AND removed_at IS NULL",
    )
    .bind(node.as_str())
    .bind(tenant.as_str())
    .for_update()
    .fetch_optional(&mut *tx)
    .await?
    .ok_or(NodeError::NotFound)?;
    let said: BTreeMap<String, String> = column_json(&row, "said_labels")?;
    let mut set: BTreeMap<String, String> = column_json(&row, "set_labels")?;
    for (name, value) in &request.labels {
        match value {
            Some(value) => set.insert(name.clone(), value.clone()),
            None => set.remove(name),
        };
    }
    check_labels(&set).map_err(|_| NodeError::Labels)?;
    query(
        "UPDATE nodes SET set_labels = $2, labels = $3, maintenance = coalesce($4, maintenance)
         WHERE id = $1",
    )
    .bind(node.as_str())
    .bind(text(&set)?)
    .bind(text(&merged(said, &set))?)
    .bind(request.maintenance)
    .execute(&mut *tx)
    .await?;
    late::look_again(&mut tx, node).await?;
    let draft = Draft {
        kind: "node.updated",
        subject: format!("node/{node}"),
        tenant,
        actor,
        data: json!({ "labels": request.labels, "maintenance": request.maintenance }),
    };
    publish(&mut tx, draft, now);
    tx.commit().await?;
    node::get(db, tenant, node).await
}

/// Ends a node's membership: it leaves its pool's counters here, its rows in rollouts with the next pass, and the
/// gateways as soon as they hear of it. Repeated, it answers the same.
pub(crate) async fn remove(
    db: &Db,
    actor: &str,
    request: &OneNode,
    now: Moment,
) -> Result<RemovedNode, NodeError> {
    let (tenant, node) = (&request.tenant_id, &request.node_id);
    let mut tx = db.begin().await?;
    // The pool first, as everybody does: a node never changes it.
    query("SELECT id FROM pools WHERE id = (SELECT pool_id FROM nodes WHERE id = $1)")
        .bind(node.as_str())
        .for_update()
        .fetch_optional(&mut *tx)
        .await?;
    let row = query("SELECT pool_id, removed_at FROM nodes WHERE id = $1 AND tenant = $2")
        .bind(node.as_str())
        .bind(tenant.as_str())
        .for_update()
        .fetch_optional(&mut *tx)
        .await?
        .ok_or(NodeError::NotFound)?;
    let mut removed = RemovedNode {
        id: node.clone(),
        pool_id: parsed(&row, "pool_id")?,
        removed_at: now,
    };
    if let Some(removed_at) = moment_option(&row, "removed_at")? {
        removed.removed_at = removed_at;
        return Ok(removed);
    }
    take_out(&mut tx, &removed).await?;
    let draft = Draft {
        kind: "node.removed",
        subject: format!("node/{node}"),
        tenant,
        actor,
        data: json!({ "poolId": removed.pool_id }),
    };
    publish(&mut tx, draft, now);
    tx.commit().await?;
    tracing::info!(%node, actor, "a node was removed");
    Ok(removed)
}

async fn take_out(tx: &mut Tx, removed: &RemovedNode) -> Result<(), sqlx::Error> {
    let (node, pool) = (removed.id.as_str(), removed.pool_id.as_str());
    query("UPDATE nodes SET removed_at = $2 WHERE id = $1")
        .bind(node)
        .bind(removed.removed_at.millis())
        .execute(&mut **tx)
        .await?;
    query("UPDATE node_facts SET online = 0, since = $2 WHERE node_id = $1 AND online = 1")
        .bind(node)
        .bind(removed.removed_at.millis())
        .execute(&mut **tx)
        .await?;
    late::forget(tx, &removed.id).await?;
    // All its reasons at once, also those of rollouts that have ended: there is nobody left who could be disrupted.
    let reasons = query("DELETE FROM disruptions WHERE node_id = $1")
        .bind(node)
        .execute(&mut **tx)
        .await?
        .rows_affected();
    query("UPDATE pools SET nodes = nodes - 1, disrupted = disrupted - $2 WHERE id = $1")
        .bind(pool)
        .bind(i64::from(reasons > 0))
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// What a node says of itself, under what an operator says of it.
pub(super) fn merged(
    mut said: BTreeMap<String, String>,
    set: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    said.extend(set.clone());
    said
}

fn text(labels: &BTreeMap<String, String>) -> Result<String, sqlx::Error> {
    serde_json::to_string(labels).map_err(|error| undecodable("labels", error))
}

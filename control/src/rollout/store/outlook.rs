//! What a forecast needs beside the nodes in scope. Writes nothing.

use std::{collections::BTreeMap, time::Duration};

use bc_protocol::id::{NodeId, PoolId, RolloutId, TenantId};

use super::load::share;
use crate::{
    db::{
        Conn,
        column::{number, parsed},
        query,
    },
    rollout::budget::Budget,
};

/// The budgets of a tenant's pools.
pub(crate) async fn budgets(
    conn: &mut Conn,
    tenant: &TenantId,
) -> Result<BTreeMap<PoolId, Budget>, sqlx::Error> {
    let rows = query("SELECT id, nodes, budget_ppm, disrupted FROM pools WHERE tenant = $1")
        .bind(tenant.as_str())
        .fetch_all(conn)
        .await?;
    rows.iter()
        .map(|row| {
            let (nodes, disrupted) = (number(row, "nodes")?, number(row, "disrupted")?);
            let budget = Budget::new(nodes, share(row, "budget_ppm")?, disrupted);
            Ok((parsed(row, "id")?, budget))
        })
        .collect()
}

/// What a node needed in the tenant's newest completed rollout, on the average.
pub(crate) async fn per_node(
    conn: &mut Conn,
    tenant: &TenantId,
) -> Result<Option<Duration>, sqlx::Error> {
    let row = query(
        "SELECT count(*) AS nodes, CAST(coalesce(sum(h.finished_at - h.started_at), 0) AS BIGINT) AS millis
         FROM rollout_rows r JOIN rollout_notes h ON h.rollout = r.rollout AND h.node = r.node
         WHERE r.state = 'succeeded' AND h.started_at IS NOT NULL AND r.rollout = (
             SELECT number FROM rollouts WHERE tenant = $1 AND state = 'completed'
             ORDER BY created_at DESC, id DESC LIMIT 1)",
    )
    .bind(tenant.as_str())
    .fetch_one(conn)
    .await?;
    let (nodes, millis): (u64, u64) = (number(&row, "nodes")?, number(&row, "millis")?);
    Ok(millis.checked_div(nodes).map(Duration::from_millis))
}

/// Nodes that are in a running or paused rollout of the tenant, with that rollout.
pub(crate) async fn busy(
    conn: &mut Conn,
    tenant: &TenantId,
) -> Result<BTreeMap<NodeId, RolloutId>, sqlx::Error> {
    let rows = query(
        "SELECT n.id AS node_id, o.id FROM rollouts o CROSS JOIN rollout_rows r CROSS JOIN nodes n
         WHERE o.tenant = $1 AND o.state IN ('running', 'paused') AND r.rollout = o.number AND n.number = r.node",
    )
    .bind(tenant.as_str())
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| Ok((parsed(row, "node_id")?, parsed(row, "id")?)))
        .collect()
}

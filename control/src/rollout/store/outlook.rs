//! What a forecast needs beside the nodes in scope. Writes nothing.

use std::{collections::BTreeMap, time::Duration};

use bc_protocol::{
    id::{NodeId, PoolId, RolloutId, TenantId},
    version::Version,
};

use super::{
    load::{rollout_state, share},
    node,
};
use crate::{
    api::rollout::RolloutState,
    db::{
        Conn,
        column::{number, parsed},
        query,
    },
    rollout::{budget::Budget, forecast::Aborted, snapshot::Node},
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

/// A pool's nodes, as a pass would see them.
pub(crate) async fn nodes(conn: &mut Conn, pool: &PoolId) -> Result<Vec<Node>, sqlx::Error> {
    const NODES: &str = concat!(
        "SELECT ",
        node::node_columns!(),
        "FROM nodes n LEFT JOIN node_facts f ON f.node_id = n.id
         WHERE n.pool_id = $1 AND n.removed_at IS NULL AND n.generation > 0"
    );
    let rows = query(NODES).bind(pool.as_str()).fetch_all(conn).await?;
    rows.iter().map(node::node).collect()
}

/// The tenant's newest rollout of a version, if it was aborted.
pub(crate) async fn aborted(
    conn: &mut Conn,
    tenant: &TenantId,
    version: &Version,
) -> Result<Option<Aborted>, sqlx::Error> {
    let row = query(
        "SELECT id, state, reason FROM rollouts WHERE tenant = $1 AND version = $2
         ORDER BY created_at DESC, id DESC LIMIT 1",
    )
    .bind(tenant.as_str())
    .bind(version.as_str())
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    if rollout_state(&row)? != RolloutState::Aborted {
        return Ok(None);
    }
    Ok(Some(Aborted {
        rollout: parsed(&row, "id")?,
        reason: row.try_get::<Option<String>>("reason")?.unwrap_or_default(),
    }))
}

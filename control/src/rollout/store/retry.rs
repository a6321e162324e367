//! Failed nodes of a completed rollout that an operator wants tried again.

use std::collections::BTreeMap;

use bc_protocol::id::{NodeId, PoolId, RolloutId};

use crate::{
    db::{Conn, Tx, column::parsed, query, query_scalar},
    fleet::late,
    rollout::plan::late_attempt,
};

/// Whether nodes or a selector narrowed a rollout.
pub(crate) async fn is_narrowed(conn: &mut Conn, id: &RolloutId) -> Result<bool, sqlx::Error> {
    query_scalar("SELECT narrowed FROM rollouts WHERE id = $1")
        .bind(id.as_str())
        .fetch_one(conn)
        .await
}

/// Nodes whose newest word in a rollout is that they failed.
pub(crate) async fn failed(
    conn: &mut Conn,
    id: &RolloutId,
) -> Result<BTreeMap<NodeId, PoolId>, sqlx::Error> {
    let rows = query(
        "SELECT r.node_id, r.pool_id FROM rollout_nodes r
         WHERE r.rollout_id = $1 AND r.state = 'failed' AND NOT EXISTS (
             SELECT 1 FROM rollout_late l WHERE l.node_id = r.node_id AND l.rollout_id = $1)
         UNION
         SELECT l.node_id, l.pool_id FROM rollout_late l WHERE l.rollout_id = $1 AND l.state = 'failed'",
    )
    .bind(id.as_str())
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| Ok((parsed(row, "node_id")?, parsed(row, "pool_id")?)))
        .collect()
}

/// Has a node tried again: its late row waits for its turn, and until then has no say.
pub(crate) async fn ask(
    tx: &mut Tx,
    id: &RolloutId,
    (node, pool): (&NodeId, &PoolId),
) -> Result<(), sqlx::Error> {
    query(
        "INSERT INTO rollout_late (node_id, rollout_id, pool_id, state, tries, attempt)
         VALUES ($1, $2, $3, 'pending', 0, $4)
         ON CONFLICT (node_id, rollout_id) DO UPDATE SET state = 'pending', finished_at = NULL, error_code = NULL,
             error = NULL",
    )
    .bind(node.as_str())
    .bind(id.as_str())
    .bind(pool.as_str())
    .bind(late_attempt(id, node, 0).as_str())
    .execute(&mut *tx)
    .await?;
    late::add(tx, node, pool).await
}

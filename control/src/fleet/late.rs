//! Nodes that may be late for a rollout.
//!
//! Takes what happens to nodes, keeps the list of those that may be late and whose turn it is to be looked at. It does
//! not know what late means: it forgets nobody who could be, and whoever passes over the list decides. Each function
//! belongs into the transaction of what happened, so that no scan of the fleet ever has to find out.

use bc_protocol::id::{NodeId, PoolId};

use crate::db::{Tx, query};

/// A node that may be late from now on, and that nothing can be done for before something happens to it.
pub(crate) async fn await_change(
    tx: &mut Tx,
    node: &NodeId,
    pool: &PoolId,
) -> Result<(), sqlx::Error> {
    query(
        "INSERT INTO late_candidates (node_id, pool_id, ready) VALUES ($1, $2, 0)
         ON CONFLICT (node_id) DO NOTHING",
    )
    .bind(node.as_str())
    .bind(pool.as_str())
    .execute(tx)
    .await?;
    Ok(())
}

/// A node whose turn it is.
pub(crate) async fn add(tx: &mut Tx, node: &NodeId, pool: &PoolId) -> Result<(), sqlx::Error> {
    query(
        "INSERT INTO late_candidates (node_id, pool_id, ready) VALUES ($1, $2, 1)
         ON CONFLICT (node_id) DO UPDATE SET ready = 1",
    )
    .bind(node.as_str())
    .bind(pool.as_str())
    .execute(tx)
    .await?;
    Ok(())
}

/// Every node of a pool that has been out of use: which of them are late is found out when their turn comes.
pub(super) async fn add_all_of(tx: &mut Tx, pool: &PoolId) -> Result<(), sqlx::Error> {
    query(
        "INSERT INTO late_candidates (node_id, pool_id, ready)
         SELECT id, pool_id, 1 FROM nodes WHERE pool_id = $1 AND removed_at IS NULL
         ON CONFLICT (node_id) DO UPDATE SET ready = 1",
    )
    .bind(pool.as_str())
    .execute(tx)
    .await?;
    Ok(())
}

/// Something has happened to a node that may be late: it came online, left maintenance, was let go by its owner or by
/// what disrupted it. To all others it means nothing.
pub(crate) async fn look_again(tx: &mut Tx, node: &NodeId) -> Result<(), sqlx::Error> {
    query("UPDATE late_candidates SET ready = 1 WHERE node_id = $1 AND ready = 0")
        .bind(node.as_str())
        .execute(tx)
        .await?;
    Ok(())
}

/// As [`look_again`], for many nodes at once.
pub(crate) async fn look_again_all(
    tx: &mut Tx,
    nodes: impl Iterator<Item = &NodeId>,
) -> Result<(), sqlx::Error> {
    let nodes: Vec<&NodeId> = nodes.collect();
    if nodes.is_empty() {
        return Ok(());
    }
    let list = serde_json::to_string(&nodes).map_err(|error| sqlx::Error::Encode(error.into()))?;
    query(
        "UPDATE late_candidates SET ready = 1
         WHERE ready = 0 AND node_id IN (SELECT value FROM json_each($1))",
    )
    .bind(list)
    .execute(tx)
    .await?;
    Ok(())
}

/// Nothing to do for a node now.
pub(crate) async fn park(tx: &mut Tx, node: &NodeId) -> Result<(), sqlx::Error> {
    query("UPDATE late_candidates SET ready = 0 WHERE node_id = $1")
        .bind(node.as_str())
        .execute(tx)
        .await?;
    Ok(())
}

/// A node that cannot be late, or was removed.
pub(crate) async fn forget(tx: &mut Tx, node: &NodeId) -> Result<(), sqlx::Error> {
    query("DELETE FROM late_candidates WHERE node_id = $1")
        .bind(node.as_str())
        .execute(tx)
        .await?;
    Ok(())
}

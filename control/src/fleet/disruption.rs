//! A node's place in its pool's budget.
//!
//! Takes a reason, gives or ends the place. The place belongs to the node: the pool's counter moves with the first
//! reason and with the last, in the transaction of whoever has the reason.

use bc_protocol::id::{NodeId, PoolId};

use crate::{clock::Moment, db::Tx};

/// Adds a reason for which the node is disrupted; a reason that it has already changes nothing.
pub(crate) async fn occupy(
    tx: &mut Tx,
    node: &NodeId,
    pool: &PoolId,
    reason: &str,
    now: Moment,
) -> Result<(), sqlx::Error> {
    let added = sqlx::query(
        "INSERT INTO disruptions (node_id, reason, pool_id, since) VALUES ($1, $2, $3, $4)
         ON CONFLICT (node_id, reason) DO NOTHING",
    )
    .bind(node.as_str())
    .bind(reason)
    .bind(pool.as_str())
    .bind(now.millis())
    .execute(&mut **tx)
    .await?;
    if added.rows_affected() == 1 && reasons(tx, node).await? == 1 {
        sqlx::query("UPDATE pools SET disrupted = disrupted + 1 WHERE id = $1")
            .bind(pool.as_str())
            .execute(&mut **tx)
            .await?;
    }
    Ok(())
}

/// Takes a reason away; one that the node does not have changes nothing.
pub(crate) async fn vacate(tx: &mut Tx, node: &NodeId, reason: &str) -> Result<(), sqlx::Error> {
    let pool: Option<String> = sqlx::query_scalar(
        "DELETE FROM disruptions WHERE node_id = $1 AND reason = $2 RETURNING pool_id",
    )
    .bind(node.as_str())
    .bind(reason)
    .fetch_optional(&mut **tx)
    .await?;
    let Some(pool) = pool else {
        return Ok(());
    };
    if reasons(tx, node).await? == 0 {
        sqlx::query("UPDATE pools SET disrupted = disrupted - 1 WHERE id = $1")
            .bind(pool)
            .execute(&mut **tx)
            .await?;
    }
    Ok(())
}

async fn reasons(tx: &mut Tx, node: &NodeId) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("SELECT count(*) FROM disruptions WHERE node_id = $1")
        .bind(node.as_str())
        .fetch_one(&mut **tx)
        .await
}

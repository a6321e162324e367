//! Rollouts' rows.
//!
//! Takes transactions, gives snapshots, and writes plans exactly as they are. Decides nothing: what a row becomes is in
//! the plan, and a plan that was made from another revision is refused, not merged.

pub(crate) mod apply;
pub(crate) mod census;
pub(crate) mod create;
pub(crate) mod explain;
pub(crate) mod freeze;
pub(crate) mod late;
pub(crate) mod load;
pub(crate) mod outlook;
pub(crate) mod read;
pub(crate) mod retry;

mod node;
mod pending;
mod queries;

use bc_protocol::id::{NodeId, RolloutId};
use thiserror::Error;

use crate::{
    db::{Db, Tx, query, query_scalar},
    release::store::ReleaseError,
};

/// Why rows could not be read or written.
#[derive(Debug, Error)]
pub(crate) enum StoreError {
    /// The database failed.
    #[error("the database failed")]
    Sql(#[from] sqlx::Error),
    /// The release could not be read.
    #[error("the rollout's release cannot be read")]
    Release(#[from] ReleaseError),
    /// The rollout has changed since the plan's snapshot.
    #[error("expected {rollout} at revision {expected}, found another")]
    Stale {
        /// The rollout.
        rollout: RolloutId,
        /// The revision that the plan was made from.
        expected: u64,
    },
    /// A row is not in the state that the plan moves it from: the counters and the rows have parted.
    #[error("expected place {place} of {rollout} to be {expected}, found another state")]
    Row {
        /// The rollout.
        rollout: RolloutId,
        /// The row's place.
        place: u32,
        /// The state that the plan saw.
        expected: &'static str,
    },
    /// A late row is not in the state that the plan moves it from.
    #[error("expected the late row of {node} in {rollout} to be {expected}, found another state")]
    LateRow {
        /// The rollout.
        rollout: RolloutId,
        /// The row's node.
        node: NodeId,
        /// The state that the plan saw.
        expected: &'static str,
    },
}

/// Takes the locks of a pass and of an operator's call: the rollout's, then its pools', and nobody freezes the fleet or
/// lets it go meanwhile. Waits for whoever has them.
pub(crate) async fn lock(tx: &mut Tx, id: &RolloutId) -> Result<(), sqlx::Error> {
    query("SELECT id FROM rollouts WHERE id = $1")
        .bind(id.as_str())
        .for_update()
        .fetch_optional(&mut *tx)
        .await?;
    lock_pools_of(tx, id).await
}

/// As [`lock`], unless somebody else has the rollout: then it is false, and the rollout in good hands.
pub(crate) async fn lock_if_free(tx: &mut Tx, id: &RolloutId) -> Result<bool, sqlx::Error> {
    let locked = query("SELECT id FROM rollouts WHERE id = $1")
        .bind(id.as_str())
        .for_update_if_free()
        .fetch_optional(&mut *tx)
        .await?;
    if locked.is_none() {
        return Ok(false);
    }
    lock_pools_of(tx, id).await?;
    Ok(true)
}

async fn lock_pools_of(tx: &mut Tx, id: &RolloutId) -> Result<(), sqlx::Error> {
    query(
        "SELECT id FROM pools WHERE id IN (SELECT pool_id FROM rollout_pools WHERE rollout_id = $1) ORDER BY id",
    )
    .bind(id.as_str())
    .for_update()
    .fetch_all(&mut *tx)
    .await?;
    freeze::hold(tx, id).await
}

/// Rollouts that a pass can change: those that are under way, and those that still hold places of nodes.
pub(crate) async fn active(db: &Db) -> Result<Vec<RolloutId>, sqlx::Error> {
    let ids: Vec<String> = query_scalar(
        "SELECT id FROM rollouts WHERE state IN ('running', 'paused')
         UNION
         SELECT DISTINCT reason FROM disruptions WHERE reason >= 'rollout_' AND reason < 'rollout`'
         ORDER BY 1",
    )
    .fetch_all(db.reader())
    .await?;
    ids.iter()
        .map(|id| {
            id.parse()
                .map_err(|source| crate::db::column::undecodable("id", source))
        })
        .collect()
}

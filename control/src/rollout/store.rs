//! Rollouts' rows.
//!
//! Takes transactions, gives snapshots, and writes plans exactly as they are. Decides nothing: what a row becomes is in
//! the plan, and a plan that was made from another revision is refused, not merged.

pub(crate) mod apply;
pub(crate) mod board;
pub(crate) mod census;
pub(crate) mod create;
pub(crate) mod explain;
pub(crate) mod freeze;
pub(crate) mod late;
pub(crate) mod listing;
pub(crate) mod load;
pub(crate) mod outlook;
pub(crate) mod read;
pub(crate) mod retry;

mod flights;
mod node;
mod pending;
mod queries;

use std::collections::BTreeSet;

use bc_protocol::id::{NodeId, RolloutId};
use thiserror::Error;

use crate::{
    db::{Db, Tx, contention::is_alone, query, query_scalar},
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
    /// Rows are not in the states that the plan moves them from: the counters and the rows have parted.
    #[error("expected {expected} rows of {rollout} as the plan saw them, found {found}")]
    Rows {
        /// The rollout.
        rollout: RolloutId,
        /// How many the plan moves.
        expected: usize,
        /// How many were as it saw them.
        found: u64,
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
    if !is_alone(tx) {
        query(LOCK).bind(id.as_str()).fetch_one(tx).await?;
    }
    Ok(())
}

/// As [`lock`], unless somebody else has the rollout: then it is false, and the rollout in good hands.
pub(crate) async fn lock_if_free(tx: &mut Tx, id: &RolloutId) -> Result<bool, sqlx::Error> {
    if is_alone(tx) {
        return Ok(true);
    }
    let locked = query(LOCK_IF_FREE).bind(id.as_str()).fetch_one(tx).await?;
    Ok(locked.try_get::<i64>("rollouts")? > 0)
}

/// All locks of a rollout, one after the other, in one statement: each list is made whole before the next is begun. What they
/// are found by never changes, and whatever is decided by is read after them.
macro_rules! lock {
    ($unless:literal) => {
        concat!(
            "WITH o AS MATERIALIZED (
                 SELECT id, tenant FROM rollouts WHERE id = $1 FOR NO KEY UPDATE ",
            $unless,
            "), p AS MATERIALIZED (
                 SELECT id FROM pools
                 WHERE id IN (SELECT q.pool_id FROM rollout_pools q WHERE q.rollout_id IN (SELECT o.id FROM o))
                 ORDER BY id FOR NO KEY UPDATE),
             z AS MATERIALIZED (
                 SELECT tenant FROM fleets
                 WHERE tenant IN (SELECT o.tenant FROM o) AND (SELECT count(*) FROM p) >= 0 FOR SHARE)
             SELECT (SELECT count(*) FROM o) AS rollouts, (SELECT count(*) FROM p) AS pools,
                    (SELECT count(*) FROM z) AS fleets"
        )
    };
}

const LOCK: &str = lock!("");

const LOCK_IF_FREE: &str = lock!("SKIP LOCKED");

/// Rollouts that a pass can change: those that are under way, and those that still hold places of nodes.
pub(crate) async fn active(db: &Db) -> Result<Vec<RolloutId>, sqlx::Error> {
    let ids: Vec<String> = query_scalar(ACTIVE).fetch_all(db.reader()).await?;
    parsed_ids(&ids)
}

/// Those of them that move through the pools of some nodes.
pub(crate) async fn active_around(
    db: &Db,
    nodes: &BTreeSet<NodeId>,
) -> Result<Vec<RolloutId>, sqlx::Error> {
    let ids: Vec<String> = query_scalar(ACTIVE_AROUND)
        .bind(load::list(nodes)?)
        .fetch_all(db.reader())
        .await?;
    parsed_ids(&ids)
}

/// Each part begins at an index of the few rollouts, or rows, that it asks for.
macro_rules! active {
    () => {
        "SELECT id FROM rollouts WHERE state IN ('running', 'paused')
         UNION
         SELECT id FROM rollouts WHERE state = 'aborted' AND finished_at IS NULL
         UNION
         SELECT o.id FROM (SELECT DISTINCT rollout FROM rollout_rows WHERE lingers = 1) r
         JOIN rollouts o ON o.number = r.rollout"
    };
}

const ACTIVE: &str = concat!(active!(), " ORDER BY 1");

const ACTIVE_AROUND: &str = concat!(
    "WITH a AS (",
    active!(),
    ") SELECT a.id FROM a WHERE EXISTS (
         SELECT 1 FROM rollout_pools p WHERE p.rollout_id = a.id AND p.pool_id IN (
             SELECT n.pool_id FROM nodes n WHERE n.id IN (SELECT value FROM json_each($1))))
     ORDER BY a.id"
);

fn parsed_ids(ids: &[String]) -> Result<Vec<RolloutId>, sqlx::Error> {
    let ids = ids.iter().map(|id| {
        id.parse()
            .map_err(|source| crate::db::column::undecodable("id", source))
    });
    ids.collect()
}

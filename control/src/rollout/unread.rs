//! Nodes that have not read what they are to run.
//!
//! Takes rows, gives nodes that are online and whose newest spec they have not observed, of rollouts that changed lately.
//! Whoever pushes specs hears of them a second time: a hint to another process may have been lost.

use std::time::Duration;

use bc_protocol::id::NodeId;

use crate::{
    clock::Moment,
    db::{Db, column::undecodable, query_scalar},
};

/// An attempt that ended longer ago has been told of more than once.
const LATELY: Duration = Duration::from_secs(120);

/// Such nodes, each once.
pub(crate) async fn nodes(db: &Db, now: Moment) -> Result<Vec<NodeId>, sqlx::Error> {
    let lately = now.minus(LATELY).millis();
    let ids: Vec<String> = query_scalar(
        "SELECT n.id FROM rollouts o CROSS JOIN rollout_rows r CROSS JOIN rollout_notes h
         CROSS JOIN nodes n CROSS JOIN node_facts f
         WHERE (o.state IN ('running', 'paused') OR o.updated_at >= $1)
           AND r.rollout = o.number AND r.state IN ('upgrading', 'rolling-back') AND r.deadline_at > 0
           AND h.rollout = r.rollout AND h.node = r.node
           AND n.number = r.node AND f.node_id = n.id AND f.online = 1
           AND (coalesce(n.spec_attempt, '') <> coalesce(h.attempt, '') OR f.observed_generation < n.generation)
         UNION
         SELECT n.id FROM rollouts o CROSS JOIN rollout_rows r CROSS JOIN rollout_notes h
         CROSS JOIN nodes n CROSS JOIN node_facts f
         WHERE (o.state IN ('running', 'paused') OR o.updated_at >= $1)
           AND r.rollout = o.number AND r.state IN ('failed', 'rolled-back')
           AND h.rollout = r.rollout AND h.node = r.node AND h.finished_at >= $1
           AND n.number = r.node AND f.node_id = n.id AND f.online = 1
         UNION
         SELECT r.node_id FROM rollout_late r CROSS JOIN nodes n CROSS JOIN node_facts f
         WHERE (r.state = 'upgrading' OR (r.state = 'failed' AND r.finished_at >= $1))
           AND n.id = r.node_id AND f.node_id = r.node_id AND f.online = 1
           AND (coalesce(n.spec_attempt, '') <> coalesce(r.attempt, '') OR f.observed_generation < n.generation
                OR r.state = 'failed')",
    )
    .bind(lately)
    .fetch_all(db.reader())
    .await?;
    ids.iter()
        .map(|id| id.parse().map_err(|source| undecodable("node_id", source)))
        .collect()
}

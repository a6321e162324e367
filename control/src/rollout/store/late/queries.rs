//! The statements about late nodes.

use crate::rollout::store::node::{flight_columns, node_columns};

/// For every pool with ready nodes the rollout that they converge on, if there is one. The pools are found one by one in the
/// index of ready nodes, however many each has.
macro_rules! ready {
    () => {
        "WITH RECURSIVE p (pool_id) AS (
        SELECT min(pool_id) FROM late_candidates WHERE ready = 1
        UNION ALL
        SELECT (SELECT min(c.pool_id) FROM late_candidates c WHERE c.ready = 1 AND c.pool_id > p.pool_id)
        FROM p WHERE p.pool_id IS NOT NULL)
    SELECT p.pool_id,
           (SELECT o.id FROM rollout_pools q JOIN rollouts o ON o.id = q.rollout_id
            WHERE q.pool_id = p.pool_id AND o.state = 'completed' AND o.narrowed = 0
            ORDER BY o.created_at DESC, o.id DESC LIMIT 1) AS rollout_id
    FROM p WHERE p.pool_id IS NOT NULL
    UNION "
    };
}

/// Those, and completed rollouts with late rows in flight or places held.
pub(super) const DUE: &str = concat!(
    ready!(),
    "SELECT '', rollout_id FROM rollout_late WHERE state = 'upgrading'
     UNION
     SELECT '', l.rollout_id FROM disruptions d JOIN rollout_late l ON l.node_id = d.node_id AND l.rollout_id = d.reason"
);

/// The same, of the nodes of the list $1.
pub(super) const DUE_AROUND: &str = concat!(
    ready!(),
    "SELECT '', l.rollout_id FROM rollout_late l
     WHERE l.node_id IN (SELECT value FROM json_each($1)) AND (l.state = 'upgrading' OR EXISTS (
         SELECT 1 FROM disruptions d WHERE d.node_id = l.node_id AND d.reason = l.rollout_id))"
);

/// Parks a pool's nodes that nothing has completed over.
pub(super) const PARK_POOL: &str = "
    UPDATE late_candidates SET ready = 0 WHERE pool_id = $1 AND ready = 1 AND NOT EXISTS (
        SELECT 1 FROM rollout_pools q JOIN rollouts o ON o.id = q.rollout_id
        WHERE q.pool_id = $1 AND o.state = 'completed' AND o.narrowed = 0)";

/// A rollout that late nodes converge on.
pub(super) const HEAD: &str = "
    SELECT r.*, d.sequence, d.published FROM rollouts r JOIN daemon_releases d ON d.version = r.version
    WHERE r.id = $1 AND r.state = 'completed' AND r.narrowed = 0";

/// Its pools with ready nodes that no newer one has completed over.
pub(super) const POOLS: &str = "
    SELECT r.pool_id,
           EXISTS (SELECT 1 FROM rollout_pools q JOIN rollouts o ON o.id = q.rollout_id
                   WHERE q.pool_id = r.pool_id AND o.narrowed = 0 AND o.state IN ('running', 'paused')) AS unended
    FROM rollout_pools r
    WHERE r.rollout_id = $1
      AND EXISTS (SELECT 1 FROM late_candidates c WHERE c.pool_id = r.pool_id AND c.ready = 1)
      AND NOT EXISTS (
          SELECT 1 FROM rollout_pools q JOIN rollouts o ON o.id = q.rollout_id
          WHERE q.pool_id = r.pool_id AND o.state = 'completed' AND o.narrowed = 0
            AND (o.created_at > $2 OR (o.created_at = $2 AND o.id > $1)))
    ORDER BY r.pool_id";

/// Whether a pool is one of the rollout's, and no newer one has completed over it.
pub(super) const IS_NEWEST: &str = "
    SELECT 1 FROM rollout_pools r
    WHERE r.rollout_id = $1 AND r.pool_id = $3
      AND NOT EXISTS (
          SELECT 1 FROM rollout_pools q JOIN rollouts o ON o.id = q.rollout_id
          WHERE q.pool_id = r.pool_id AND o.state = 'completed' AND o.narrowed = 0
            AND (o.created_at > $2 OR (o.created_at = $2 AND o.id > $1)))";

/// What is asked of a node that may be late for rollout $1, created at $3.
macro_rules! candidate_columns {
    () => {
        concat!(
            "SELECT ",
            node_columns!(),
            ", f.sequence, l.state AS late_state, coalesce(l.tries, 0) AS tries,
             (SELECT min(d.reason) FROM disruptions d WHERE d.node_id = r.node_id) AS disrupted_by,
             (EXISTS (SELECT 1 FROM rollout_pools q CROSS JOIN rollouts o CROSS JOIN rollout_rows t
                      WHERE q.pool_id = n.pool_id AND o.id = q.rollout_id
                        AND (o.created_at > $3 OR (o.created_at = $3 AND o.id > $1))
                        AND t.rollout = o.number AND t.node = n.number AND t.state NOT IN ('pending', 'skipped'))
              OR EXISTS (SELECT 1 FROM rollout_late t JOIN rollouts o ON o.id = t.rollout_id
                         WHERE t.node_id = r.node_id AND t.state NOT IN ('pending', 'skipped')
                           AND (o.created_at > $3 OR (o.created_at = $3 AND o.id > $1)))) AS touched_since,
             (EXISTS (SELECT 1 FROM rollouts o CROSS JOIN rollout_rows t
                      WHERE o.id = $1 AND t.rollout = o.number AND t.node = n.number
                        AND t.state NOT IN ('pending', 'skipped'))
              OR coalesce(l.state NOT IN ('pending', 'skipped'), 1 = 0)) AS touched_by_it
             FROM late_candidates r JOIN nodes n ON n.id = r.node_id
             LEFT JOIN node_facts f ON f.node_id = r.node_id
             LEFT JOIN rollout_late l ON l.node_id = r.node_id AND l.rollout_id = $1
             WHERE r.pool_id = $2 "
        )
    };
}

/// The nodes of a pool whose turn it is, in order.
pub(super) const READY: &str = concat!(
    candidate_columns!(),
    "AND r.ready = 1 ORDER BY r.node_id LIMIT $4"
);

/// One node of a pool, if it may be late.
pub(super) const CANDIDATE: &str = concat!(candidate_columns!(), "AND r.node_id = $4");

/// Late rows in flight, in order.
pub(super) const FLIGHTS: &str = concat!(
    "SELECT ",
    flight_columns!(),
    ", EXISTS (SELECT 1 FROM disruptions d WHERE d.node_id = r.node_id AND d.reason <> r.rollout_id) AS shared
     FROM rollout_late r JOIN nodes n ON n.id = r.node_id LEFT JOIN node_facts f ON f.node_id = r.node_id
     WHERE r.rollout_id = $1 AND r.state = 'upgrading' ORDER BY r.node_id"
);

/// Late rows that have settled and whose node still holds a place.
pub(super) const LINGERING: &str = concat!(
    "SELECT ",
    flight_columns!(),
    ", EXISTS (SELECT 1 FROM disruptions o WHERE o.node_id = d.node_id AND o.reason <> d.reason) AS shared
     FROM disruptions d CROSS JOIN rollout_late r
     JOIN nodes n ON n.id = r.node_id LEFT JOIN node_facts f ON f.node_id = r.node_id
     WHERE d.reason = $2 AND r.node_id = d.node_id AND r.rollout_id = d.reason AND r.state <> 'upgrading'
     ORDER BY r.node_id"
);

/// A rollout's late rows, in the order in which they were started.
pub(super) const LISTED: &str = "
    SELECT * FROM rollout_late WHERE rollout_id = $1 ORDER BY coalesce(started_at, finished_at), node_id";

/// Nodes to which a completed rollout has brought something are not late for it.
pub(super) const FORGET_TOUCHED: &str = "
    DELETE FROM late_candidates
    WHERE pool_id IN (SELECT pool_id FROM rollout_pools WHERE rollout_id = $1)
      AND EXISTS (SELECT 1 FROM nodes n CROSS JOIN rollout_rows r
                  WHERE n.id = late_candidates.node_id AND r.node = n.number
                    AND r.rollout = (SELECT number FROM rollouts WHERE id = $1) AND r.state <> 'skipped')";

/// Nodes that a completed rollout has passed over.
pub(super) const ADD_SKIPPED: &str = "
    INSERT INTO late_candidates (node_id, pool_id, ready)
    SELECT n.id, n.pool_id, 1 FROM rollouts o CROSS JOIN rollout_rows r CROSS JOIN nodes n
    WHERE o.id = $1 AND r.rollout = o.number AND r.state = 'skipped' AND n.number = r.node AND n.removed_at IS NULL
    ON CONFLICT (node_id) DO UPDATE SET ready = 1";

/// Whoever of its pools may be late and can be reached.
pub(super) const LOOK_AGAIN: &str = "
    UPDATE late_candidates SET ready = 1
    WHERE ready = 0 AND pool_id IN (SELECT pool_id FROM rollout_pools WHERE rollout_id = $1)
      AND EXISTS (SELECT 1 FROM node_facts f WHERE f.node_id = late_candidates.node_id AND f.online = 1)";

/// A pool's nodes in maintenance.
pub(super) const ADD_LEFT_OUT: &str = "
    INSERT INTO late_candidates (node_id, pool_id, ready)
    SELECT id, pool_id, 0 FROM nodes WHERE pool_id = $1 AND maintenance = 1 AND removed_at IS NULL
    ON CONFLICT (node_id) DO NOTHING";

//! The queries of a snapshot that run in every pass.
//!
//! Each begins at an index that leads to what it looks for: the few rows in flight, pending in the open wave, failed in
//! it, or gone away. None reads all rows of a rollout. Where a part is materialized, that is why: without statistics
//! SQLite prefers the primary key to an index that does not hold every column, and the key holds everybody. It takes the
//! sides of a CROSS JOIN in the order in which they are written, and so they stand in the order of fewest rows; PostgreSQL,
//! which has statistics, chooses for itself. What joins them is in WHERE, where both take it.

use super::node::columns;

/// Rows in flight, in order.
pub(super) const FLIGHTS: &str = concat!(
    "WITH i AS MATERIALIZED (
         SELECT place FROM rollout_nodes WHERE rollout_id = $1 AND state IN ('upgrading', 'rolling-back'))
     SELECT ",
    columns!(),
    ", (SELECT d.sequence FROM daemon_releases d WHERE d.version = r.from_version) AS from_sequence
     , EXISTS (SELECT 1 FROM disruptions d WHERE d.node_id = r.node_id AND d.reason <> r.rollout_id) AS shared
     FROM i CROSS JOIN rollout_nodes r
     JOIN nodes n ON n.id = r.node_id LEFT JOIN node_facts f ON f.node_id = r.node_id
     WHERE r.rollout_id = $1 AND r.place = i.place ORDER BY r.place"
);

/// What is asked of a pending row at a place of `i`.
macro_rules! waiting_at {
    () => {
        concat!(
            " SELECT ",
            columns!(),
            ", (SELECT min(d.reason) FROM disruptions d WHERE d.node_id = r.node_id) AS disrupted_by
             FROM i CROSS JOIN rollout_nodes r
             JOIN nodes n ON n.id = r.node_id LEFT JOIN node_facts f ON f.node_id = r.node_id
             WHERE r.rollout_id = $1 AND r.place = i.place ORDER BY r.place"
        )
    };
}

/// The first pending rows of one wave, in order.
pub(super) const PENDING: &str = concat!(
    "WITH i AS MATERIALIZED (
         SELECT place FROM rollout_nodes WHERE rollout_id = $1 AND state = 'pending' AND wave = $2
         ORDER BY place LIMIT $3)",
    waiting_at!()
);

/// The first pending rows of one wave and pool whose node can be reached and that nothing else disrupts.
pub(super) const PENDING_OF_POOL: &str = concat!(
    "WITH i AS MATERIALIZED (
         SELECT w.place FROM rollout_nodes w CROSS JOIN node_facts v
         WHERE w.rollout_id = $1 AND w.state = 'pending' AND w.wave = $2 AND w.pool_id = $3
           AND v.node_id = w.node_id AND v.online = 1
           AND NOT EXISTS (SELECT 1 FROM disruptions d WHERE d.node_id = w.node_id)
         ORDER BY w.place LIMIT $4)",
    waiting_at!()
);

/// Pools of which nodes of one wave wait. They are found one by one in the index, however many nodes each has.
pub(super) const POOLS_WAITING: &str = "
    WITH RECURSIVE p (pool_id) AS (
        SELECT min(pool_id) FROM rollout_nodes WHERE rollout_id = $1 AND state = 'pending' AND wave = $2
        UNION ALL
        SELECT (SELECT min(w.pool_id) FROM rollout_nodes w
                WHERE w.rollout_id = $1 AND w.state = 'pending' AND w.wave = $2 AND w.pool_id > p.pool_id)
        FROM p WHERE p.pool_id IS NOT NULL)
    SELECT pool_id FROM p WHERE pool_id IS NOT NULL";

/// Somebody of one wave who waits and can be reached.
pub(super) const PENDING_ONLINE: &str = "
    SELECT w.place FROM rollout_nodes w CROSS JOIN node_facts v
    WHERE w.rollout_id = $1 AND w.state = 'pending' AND w.wave = $2 AND v.node_id = w.node_id AND v.online = 1
    LIMIT 1";

/// Pending rows of this wave and later ones whose node is removed, in maintenance or in an archived pool. Read from the few such
/// nodes, not from the many rows that wait.
pub(super) const OUT_OF_SCOPE: &str = concat!(
    "WITH i AS MATERIALIZED (
         SELECT n.id FROM rollout_pools p CROSS JOIN nodes n
         WHERE p.rollout_id = $1 AND n.pool_id = p.pool_id AND (n.removed_at IS NOT NULL OR n.maintenance = 1)
           AND (n.removed_at IS NOT NULL OR $3 = 1)
         UNION
         SELECT n.id FROM rollout_pools p CROSS JOIN pools q CROSS JOIN nodes n
         WHERE p.rollout_id = $1 AND q.id = p.pool_id AND n.pool_id = p.pool_id
           AND q.archived_at IS NOT NULL AND n.removed_at IS NULL)
     SELECT ",
    columns!(),
    ", NULL AS disrupted_by
     FROM i CROSS JOIN rollout_nodes r
     JOIN nodes n ON n.id = r.node_id LEFT JOIN node_facts f ON f.node_id = r.node_id
     WHERE r.node_id = i.id AND r.rollout_id = $1 AND r.state = 'pending' AND r.wave >= $2 ORDER BY r.place"
);

/// Settled rows whose node still holds a place; where the rollout has a late row of the node, that row answers for it.
pub(super) const LINGERING: &str = concat!(
    "SELECT ",
    columns!(),
    ", EXISTS (SELECT 1 FROM disruptions o WHERE o.node_id = d.node_id AND o.reason <> d.reason) AS shared
     FROM disruptions d CROSS JOIN rollout_nodes r
     JOIN nodes n ON n.id = r.node_id LEFT JOIN node_facts f ON f.node_id = r.node_id
     WHERE d.reason = $1 AND r.node_id = d.node_id AND r.rollout_id = d.reason AND r.state NOT IN ('upgrading', 'rolling-back')
       AND NOT EXISTS (SELECT 1 FROM rollout_late l WHERE l.node_id = d.node_id AND l.rollout_id = d.reason)
     ORDER BY r.place"
);

/// Failed rows of one wave, by code.
pub(super) const TROUBLES: &str = "
    WITH i AS MATERIALIZED (
        SELECT place FROM rollout_nodes WHERE rollout_id = $1 AND state = 'failed' AND wave = $2)
    SELECT coalesce(r.error_code, 'failed') AS code, count(*) AS nodes
    FROM i CROSS JOIN rollout_nodes r WHERE r.rollout_id = $1 AND r.place = i.place GROUP BY 1";

/// Succeeded rows of one wave whose node has gone away since.
pub(super) const LOST: &str = "
    SELECT f.node_id, f.since
    FROM node_facts f CROSS JOIN rollout_nodes r
    WHERE r.node_id = f.node_id AND r.rollout_id = $1 AND f.online = 0 AND f.since >= $3
      AND r.wave = $2 AND r.state = 'succeeded' AND f.since >= r.finished_at";

/// Succeeded rows of one wave whose node has restarted twice since by itself.
pub(super) const UNSTEADY: &str = "
    SELECT f.node_id
    FROM node_facts f CROSS JOIN rollout_nodes r
    WHERE r.node_id = f.node_id AND r.rollout_id = $1 AND f.restarted_before_at >= $3
      AND r.wave = $2 AND r.state = 'succeeded' AND f.restarted_before_at >= r.finished_at";

#[cfg(test)]
mod tests {
    use super::{
        FLIGHTS, LINGERING, LOST, OUT_OF_SCOPE, PENDING, PENDING_OF_POOL, PENDING_ONLINE,
        POOLS_WAITING, TROUBLES, UNSTEADY,
    };
    use crate::db::{Conn, query, query_text, tests::fresh};

    /// What the database would do for a query, a step a line.
    async fn steps(conn: &mut Conn, text: &str) -> String {
        let explained = match conn {
            Conn::Sqlite(_) => query_text(format!("EXPLAIN QUERY PLAN {text}")),
            Conn::Postgres(_) => {
                // Empty tables are read fastest as a whole; large ones are meant here.
                for setting in [
                    "SET LOCAL enable_seqscan = off",
                    "SET LOCAL enable_sort = off",
                ] {
                    query(setting).execute(&mut *conn).await.unwrap();
                }
                query_text(format!("EXPLAIN (COSTS OFF) {text}")).bind("rollout_x")
            }
        };
        let explained = match conn {
            Conn::Sqlite(_) => explained,
            Conn::Postgres(_) => ["$2", "$3", "$4"]
                .into_iter()
                .filter(|bind| text.contains(bind))
                .fold(explained, |query, bind| {
                    if text.contains(&format!("pool_id = {bind}")) {
                        query.bind("pool_x")
                    } else {
                        query.bind(1_i64)
                    }
                }),
        };
        let rows = explained.fetch_all(&mut *conn).await.unwrap();
        let column = match conn {
            Conn::Sqlite(_) => "detail",
            Conn::Postgres(_) => "QUERY PLAN",
        };
        let steps: Vec<&str> = rows.iter().map(|row| row.get(column)).collect();
        steps.join("\n")
    }

    /// What a pass costs grows with what changed, not with the fleet.
    #[tokio::test]
    async fn no_query_of_a_pass_reads_every_row() {
        let (db, _dir) = fresh().await;
        let mut tx = db.begin().await.unwrap();
        for (query, index) in [
            (FLIGHTS, "rollout_nodes_by_state"),
            (PENDING, "rollout_nodes_by_state"),
            (PENDING_OF_POOL, "rollout_nodes_waiting"),
            (POOLS_WAITING, "rollout_nodes_waiting"),
            (PENDING_ONLINE, "rollout_nodes"),
            (OUT_OF_SCOPE, "nodes_out_of_scope"),
            (LINGERING, "disruptions_by_reason"),
            (TROUBLES, "rollout_nodes_by_state"),
            (LOST, "node_facts_by_presence"),
            (UNSTEADY, "node_facts_by_restart"),
        ] {
            let steps = steps(&mut tx, query).await;
            if matches!(*tx, Conn::Sqlite(_)) {
                assert!(steps.contains(index), "{index} is not used:\n{steps}");
            }
            let everything = |step: &str| {
                (step.starts_with("SCAN") && !["SCAN i", "SCAN p"].contains(&step))
                    || step.contains("USING PRIMARY KEY (rollout_id=?)")
                    || step.contains("Seq Scan")
            };
            assert!(!steps.lines().any(everything), "{steps}");
        }
    }
}

//! The queries of a snapshot that run in every pass.
//!
//! Each begins at an index that leads to what it looks for: the few rows in flight, pending in the open wave, failed in
//! it, or gone away. None reads all rows of a rollout. Where a part is materialized, that is why: without statistics
//! SQLite prefers the primary key to an index that does not hold every column, and the key holds everybody. It prefers the key to
//! an index of which no more columns are given, too: so every row in flight is asked for a deadline, which all have. It takes the
//! sides of a CROSS JOIN in the order in which they are written, and so they stand in the order of fewest rows; PostgreSQL,
//! which has statistics, chooses for itself. What joins them is in WHERE, where both take it.

use super::node::{columns, joined, node_columns};

/// Whether the place of `n` is taken when rollout $2 lets go, or was given back before.
macro_rules! shared {
    () => {
        "(SELECT CASE WHEN count(*) = 1 AND min(d.reason) = $2 THEN 0 ELSE 1 END
          FROM disruptions d WHERE d.node_id = n.id) AS shared"
    };
}

/// What is asked of a row in flight. $2 is the rollout's id.
macro_rules! flight_columns {
    () => {
        concat!(
            columns!(),
            ", (SELECT d.sequence FROM daemon_releases d WHERE d.version = h.from_version) AS from_sequence, ",
            shared!()
        )
    };
}

/// That a row, found by its node, is in flight: asked for as no index has it, or PostgreSQL would go through everything in
/// flight for one of them.
macro_rules! flies {
    () => {
        "r.state || '' IN ('upgrading', 'rolling-back')"
    };
}

/// What is asked of a row in flight at a node of `i`.
macro_rules! flying_at {
    () => {
        concat!(
            " SELECT ",
            flight_columns!(),
            " FROM i CROSS JOIN rollout_rows r ",
            joined!(),
            "WHERE r.rollout = $1 AND r.node = i.node AND ",
            flies!(),
            " ORDER BY r.place"
        )
    };
}

/// Rows in flight, in order.
pub(super) const FLIGHTS: &str = concat!(
    "WITH i AS MATERIALIZED (
         SELECT node FROM rollout_rows
         WHERE rollout = $1 AND state IN ('upgrading', 'rolling-back') AND deadline_at > 0)",
    flying_at!()
);

/// Rows in flight of the nodes of the list $3, none of which is in it twice.
pub(super) const FLIGHTS_OF: &str = concat!(
    "SELECT ",
    flight_columns!(),
    " FROM json_each($3) e CROSS JOIN nodes n CROSS JOIN rollout_rows r
     LEFT JOIN rollout_notes h ON h.rollout = r.rollout AND h.node = r.node
     LEFT JOIN node_facts f ON f.node_id = n.id
     WHERE n.id = e.value AND r.rollout = $1 AND r.node = n.number AND ",
    flies!(),
    " ORDER BY r.place"
);

/// The same, and the first that are overdue at $4.
pub(super) const FLIGHTS_OF_AND_OVERDUE: &str = concat!(
    "WITH i AS MATERIALIZED (
         SELECT m.number AS node FROM nodes m WHERE m.id IN (SELECT value FROM json_each($3))
         UNION
         SELECT node FROM (
             SELECT node FROM rollout_rows
             WHERE rollout = $1 AND state IN ('upgrading', 'rolling-back') AND deadline_at <= $4
             ORDER BY deadline_at LIMIT $5) o)",
    flying_at!()
);

/// Whether any row in flight of rollout `$of` has a node that can be reached and is not in the list $2; and the earliest
/// deadline of all. What is asked for is the same whatever the values are, so that PostgreSQL plans it once.
macro_rules! others {
    ($of:literal) => {
        concat!(
            "CASE WHEN EXISTS (
                SELECT 1 FROM rollout_rows r CROSS JOIN nodes n CROSS JOIN node_facts f
                WHERE r.rollout = ",
            $of,
            " AND r.state IN ('upgrading', 'rolling-back') AND r.deadline_at > 0
                  AND r.node NOT IN (SELECT m.number FROM nodes m WHERE m.id IN (SELECT value FROM json_each($2)))
                  AND n.number = r.node AND f.node_id = n.id AND f.online = 1) THEN 1 ELSE 0 END AS reachable, ",
            "(SELECT min(r.deadline_at) FROM rollout_rows r
              WHERE r.rollout = ",
            $of,
            " AND r.state IN ('upgrading', 'rolling-back') AND r.deadline_at > 0) AS deadline_at"
        )
    };
}

/// Of a rollout's number.
pub(super) const OTHERS: &str = concat!("SELECT ", others!("$1"));

/// A rollout's own row and what is around it, one row a wave; what is no counter of a wave's, in the first alone.
pub(super) const OPENED: &str = concat!(
    "WITH a AS MATERIALIZED (
         SELECT o.number,
                (SELECT string_agg(p.id || ' ' || p.nodes || ' ' || p.budget_ppm || ' ' || p.disrupted || ' '
                                   || CASE WHEN p.archived_at IS NULL THEN '0' ELSE '1' END, ',')
                 FROM rollout_pools q CROSS JOIN pools p WHERE q.rollout_id = o.id AND p.id = q.pool_id) AS pools,
                (SELECT min(g.linked_since) FROM gateways g WHERE g.linked = 1) AS linked_since,
                CASE WHEN EXISTS (SELECT 1 FROM rollout_rows r WHERE r.lingers = 1 AND r.rollout = o.number)
                     THEN 1 ELSE 0 END AS lingers, ",
    others!("o.number"),
    " FROM rollouts o WHERE o.id = $1)
     SELECT r.*, d.sequence, CASE w.wave WHEN 0 THEN d.published END AS published, z.frozen_reason, z.frozen_by,
         z.frozen_since, w.started, w.pending, w.upgrading, w.succeeded, w.failed, w.skipped, w.rolling_back,
         w.rolled_back, CASE w.wave WHEN 0 THEN a.pools END AS pools, a.linked_since, a.lingers, a.reachable, a.deadline_at
     FROM a CROSS JOIN rollouts r JOIN daemon_releases d ON d.version = r.version
     JOIN rollout_waves w ON w.rollout_id = r.id LEFT JOIN fleets z ON z.tenant = r.tenant
     WHERE r.id = $1 ORDER BY w.wave"
);

/// What is asked of a pending row at a node of `i`.
macro_rules! waiting_at {
    () => {
        concat!(
            " SELECT ",
            columns!(),
            ", (SELECT min(d.reason) FROM disruptions d WHERE d.node_id = n.id) AS disrupted_by
             FROM i CROSS JOIN rollout_rows r ",
            joined!(),
            "WHERE r.rollout = $1 AND r.node = i.node AND r.state = 'pending' ORDER BY r.place"
        )
    };
}

/// Nodes of one wave that wait, and perhaps some that stood in a pack with them and wait no more.
macro_rules! all_waiting {
    () => {
        "SELECT node FROM rollout_rows
         WHERE rollout = $1 AND state = 'pending' AND packed = 0 AND wave = $2
         UNION ALL
         SELECT CAST(e.value AS BIGINT) FROM rollout_packs k CROSS JOIN json_each(k.nodes) e
         WHERE k.rollout = $1 AND k.wave = $2"
    };
}

/// Every pending row of one wave, in order.
pub(super) const PENDING: &str = concat!(
    "WITH i AS MATERIALIZED (",
    all_waiting!(),
    ")",
    waiting_at!()
);

/// What is asked of a pending row whose node can be reached and nothing else disrupts. What was noted of it is not: nothing
/// has become of it yet.
macro_rules! may_start {
    ($rows:literal) => {
        concat!(
            "SELECT r.place, r.wave, 'pending' AS state, r.packed, NULL AS disrupted_by, ",
            node_columns!(),
            "FROM ",
            $rows,
            " CROSS JOIN nodes n CROSS JOIN node_facts f
             WHERE r.rollout = $1 AND r.state = 'pending' AND n.number = r.node AND f.node_id = n.id AND f.online = 1
               AND NOT EXISTS (SELECT 1 FROM disruptions d WHERE d.node_id = n.id)"
        )
    };
}

/// The first pending rows of one wave and pool in no pack whose node can be reached and that nothing else disrupts.
pub(super) const PENDING_OF_POOL: &str = concat!(
    may_start!("rollout_rows r"),
    " AND r.packed = 0 AND r.wave = $2 AND r.pool = (SELECT number FROM pools WHERE id = $3)
     ORDER BY r.place LIMIT $4"
);

/// The next packs of a pool behind a place.
pub(super) const PACKS_OF_POOL: &str = "
    SELECT place, nodes FROM rollout_packs
    WHERE rollout = $1 AND wave = $2 AND pool = (SELECT number FROM pools WHERE id = $3) AND place > $4
    ORDER BY place LIMIT $5";

/// The first pending rows of the nodes of the list $2 that can be reached and that nothing else disrupts.
pub(super) const PENDING_OF: &str = concat!(
    may_start!("json_each($2) e CROSS JOIN rollout_rows r"),
    " AND r.node = CAST(e.value AS BIGINT) ORDER BY r.place LIMIT $3"
);

/// Pools of which nodes of one wave wait. They are found one by one in the index and among packs, however many nodes each has.
pub(super) const POOLS_WAITING: &str = "
    WITH RECURSIVE p (pool) AS (
        SELECT min(pool) FROM rollout_rows WHERE rollout = $1 AND state = 'pending' AND packed = 0 AND wave = $2
        UNION ALL
        SELECT (SELECT min(w.pool) FROM rollout_rows w
                WHERE w.rollout = $1 AND w.state = 'pending' AND w.packed = 0 AND w.wave = $2 AND w.pool > p.pool)
        FROM p WHERE p.pool IS NOT NULL),
    k (pool) AS (
        SELECT min(pool) FROM rollout_packs WHERE rollout = $1 AND wave = $2
        UNION ALL
        SELECT (SELECT min(w.pool) FROM rollout_packs w WHERE w.rollout = $1 AND w.wave = $2 AND w.pool > k.pool)
        FROM k WHERE k.pool IS NOT NULL),
    i (pool) AS (SELECT pool FROM p UNION SELECT pool FROM k)
    SELECT q.id AS pool_id FROM i CROSS JOIN pools q WHERE q.number = i.pool";

/// Somebody of one wave who waits and can be reached.
pub(super) const PENDING_ONLINE: &str = concat!(
    "SELECT w.place FROM (",
    all_waiting!(),
    ") i CROSS JOIN rollout_rows w CROSS JOIN nodes m CROSS JOIN node_facts v
    WHERE w.rollout = $1 AND w.node = i.node AND w.state = 'pending' AND m.number = w.node
      AND v.node_id = m.id AND v.online = 1
    LIMIT 1"
);

/// Pending rows of this wave and later ones whose node is removed, in maintenance or in an archived pool. Read from the few such
/// nodes, not from the many rows that wait. $3 is the rollout's id, $4 whether maintenance counts.
pub(super) const OUT_OF_SCOPE: &str = concat!(
    "WITH i AS MATERIALIZED (
         SELECT m.number AS node FROM rollout_pools p CROSS JOIN nodes m
         WHERE p.rollout_id = $3 AND m.pool_id = p.pool_id AND (m.removed_at IS NOT NULL OR m.maintenance = 1)
           AND (m.removed_at IS NOT NULL OR $4 = 1)
         UNION
         SELECT m.number FROM rollout_pools p CROSS JOIN pools q CROSS JOIN nodes m
         WHERE p.rollout_id = $3 AND q.id = p.pool_id AND m.pool_id = p.pool_id
           AND q.archived_at IS NOT NULL AND m.removed_at IS NULL)
     SELECT ",
    columns!(),
    ", NULL AS disrupted_by
     FROM i CROSS JOIN rollout_rows r ",
    joined!(),
    "WHERE r.rollout = $1 AND r.node = i.node AND r.state = 'pending' AND r.wave >= $2 ORDER BY r.place"
);

/// Settled rows whose node still holds a place.
pub(super) const LINGERING: &str = concat!(
    "WITH i AS MATERIALIZED (SELECT node FROM rollout_rows WHERE rollout = $1 AND lingers = 1)
     SELECT ",
    columns!(),
    ", ",
    shared!(),
    " FROM i CROSS JOIN rollout_rows r ",
    joined!(),
    "WHERE r.rollout = $1 AND r.node = i.node ORDER BY r.place"
);

/// Failed rows of one wave, by code.
pub(super) const TROUBLES: &str =
    "SELECT code, nodes FROM rollout_troubles WHERE rollout = $1 AND wave = $2";

/// Whether the node of `f` has succeeded in one wave before it did this. Asked by a subquery: whoever has done it is few, and
/// PostgreSQL, which has no idea how few, would begin at the rows that succeeded.
macro_rules! succeeded_before {
    ($did:literal) => {
        concat!(
            "(SELECT count(*) FROM nodes n CROSS JOIN rollout_rows r CROSS JOIN rollout_notes h
              WHERE n.id = f.node_id AND r.rollout = $1 AND r.node = n.number AND r.wave = $2 AND r.state = 'succeeded'
                AND h.rollout = r.rollout AND h.node = r.node AND h.finished_at <= ",
            $did,
            ") > 0"
        )
    };
}

/// Nodes that succeeded in one wave and have gone away since, and those that have restarted twice since by themselves.
pub(super) const REGRESSED: &str = concat!(
    "SELECT f.node_id, f.since FROM node_facts f WHERE f.online = 0 AND f.since >= $3 AND ",
    succeeded_before!("f.since"),
    " UNION ALL
     SELECT f.node_id, NULL AS since FROM node_facts f WHERE f.restarted_before_at >= $3 AND ",
    succeeded_before!("f.restarted_before_at")
);

#[cfg(test)]
mod tests {
    use super::{
        FLIGHTS, FLIGHTS_OF, FLIGHTS_OF_AND_OVERDUE, LINGERING, OPENED, OTHERS, OUT_OF_SCOPE,
        PACKS_OF_POOL, PENDING, PENDING_OF, PENDING_OF_POOL, PENDING_ONLINE, POOLS_WAITING,
        REGRESSED, TROUBLES,
    };
    use crate::db::{Conn, query, query_text, tests::fresh};

    /// What the database would do for a query, a step a line. `values` says what it takes: texts and numbers.
    async fn steps(conn: &mut Conn, text: &str, values: &str) -> String {
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
                query_text(format!("EXPLAIN (COSTS OFF) {text}"))
            }
        };
        let explained = match conn {
            Conn::Sqlite(_) => explained,
            Conn::Postgres(_) => values.chars().fold(explained, |query, kind| match kind {
                't' => query.bind("x"),
                'j' => query.bind("[]"),
                _ => query.bind(1_i64),
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
        for (query, values, index) in [
            (OPENED, "tj", "rollout_rows_flying"),
            (OPENED, "tj", "rollout_rows_lingering"),
            (FLIGHTS, "nt", "rollout_rows_flying"),
            (FLIGHTS_OF, "ntj", "PRIMARY KEY (rollout=? AND node=?)"),
            (FLIGHTS_OF_AND_OVERDUE, "ntjnn", "rollout_rows_flying"),
            (OTHERS, "nj", "rollout_rows_flying"),
            (PENDING, "nn", "rollout_rows_waiting"),
            (PENDING_OF_POOL, "nntn", "rollout_rows_waiting"),
            (PACKS_OF_POOL, "nntnn", "wave=? AND pool=? AND place>?"),
            (PENDING_OF, "njn", "nodes_by_number"),
            (POOLS_WAITING, "nn", "rollout_rows_waiting"),
            (PENDING_ONLINE, "nn", "rollout_rows_waiting"),
            (OUT_OF_SCOPE, "nntn", "nodes_out_of_scope"),
            (LINGERING, "nt", "rollout_rows_lingering"),
            (TROUBLES, "nn", "PRIMARY KEY (rollout=? AND wave=?)"),
            (REGRESSED, "nnn", "node_facts_by_presence"),
            (REGRESSED, "nnn", "node_facts_by_restart"),
        ] {
            let steps = steps(&mut tx, query, values).await;
            if matches!(*tx, Conn::Sqlite(_)) {
                assert!(steps.contains(index), "{index} is not used:\n{steps}");
            }
            let everything = |step: &str| {
                (step.starts_with("SCAN")
                    && ![
                        "SCAN a",
                        "SCAN g",
                        "SCAN i",
                        "SCAN o",
                        "SCAN p",
                        "SCAN k",
                        "SCAN e VIRTUAL TABLE",
                        "SCAN json_each",
                        "SCAN CONSTANT ROW",
                    ]
                    .iter()
                    .any(|small| step.starts_with(small)))
                    || step.contains("USING PRIMARY KEY (rollout=?)")
                    // Gateways are few.
                    || (step.contains("Seq Scan") && !step.contains("on gateways"))
            };
            assert!(!steps.lines().any(everything), "{steps}");
        }
    }
}

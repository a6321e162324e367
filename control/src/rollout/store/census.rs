//! Counts a tenant's nodes, for people. It reads every one of them: nothing that runs by itself may call it.

use std::collections::BTreeMap;

use bc_protocol::{
    id::{PoolId, TenantId},
    version::Version,
};

use super::load::share;
use crate::{
    api::freeze::{Census, PoolSummary},
    db::{
        Conn, Row,
        column::{moment_option, number, parsed},
        query,
    },
    rollout::budget::Budget,
};

/// Whether the candidate `c`, which is the node `n`, is late: the newest completed rollout of its pool has not reached it.
macro_rules! late {
    () => {
        "EXISTS (
            SELECT 1 FROM rollout_pools q JOIN rollouts b ON b.id = q.rollout_id
            WHERE q.pool_id = c.pool_id AND b.state = 'completed' AND b.narrowed = 0
              AND NOT EXISTS (
                  SELECT 1 FROM rollout_pools u CROSS JOIN rollouts o CROSS JOIN rollout_rows t
                  WHERE u.pool_id = c.pool_id AND o.id = u.rollout_id AND t.rollout = o.number AND t.node = n.number
                    AND t.state NOT IN ('pending', 'skipped')
                    AND (o.created_at > b.created_at OR (o.created_at = b.created_at AND o.id >= b.id)))
              AND NOT EXISTS (
                  SELECT 1 FROM rollout_late t JOIN rollouts o ON o.id = t.rollout_id
                  WHERE t.node_id = c.node_id AND t.state NOT IN ('pending', 'skipped')
                    AND (o.created_at > b.created_at OR (o.created_at = b.created_at AND o.id >= b.id))))"
    };
}
pub(super) use late;

/// Whether the node `n`, whose facts are `f`, refuses what it is wanted to run: its newest attempt is one that it refused,
/// and the rollout that asked for it was not given up.
macro_rules! refusing {
    () => {
        "(f.attempt_outcome = 'refused' AND (
            EXISTS (
                SELECT 1 FROM rollout_pools u CROSS JOIN rollouts o CROSS JOIN rollout_notes t
                WHERE u.pool_id = n.pool_id AND o.id = u.rollout_id AND o.state <> 'aborted'
                  AND t.rollout = o.number AND t.node = n.number AND t.attempt = f.attempt_id)
            OR EXISTS (SELECT 1 FROM rollout_late t WHERE t.node_id = n.id AND t.attempt = f.attempt_id)))"
    };
}
pub(crate) use refusing;

const POOLS: &str = concat!(
    "
    SELECT p.id, p.name, p.archived_at, p.nodes, p.budget_ppm, p.disrupted, coalesce(s.online, 0) AS online,
           coalesce(s.refusing, 0) AS refusing, coalesce(s.on_trial, 0) AS on_trial, coalesce(s.held, 0) AS held,
           coalesce(s.maintenance, 0) AS maintenance, coalesce(l.late, 0) AS late
    FROM pools p
    LEFT JOIN (
        SELECT n.pool_id,
               CAST(sum(CASE WHEN f.online = 1 THEN 1 ELSE 0 END) AS BIGINT) AS online,
               CAST(sum(CASE WHEN ",
    refusing!(),
    " THEN 1 ELSE 0 END) AS BIGINT) AS refusing,
               CAST(sum(CASE WHEN f.trial_attempt IS NOT NULL THEN 1 ELSE 0 END) AS BIGINT) AS on_trial,
               CAST(sum(CASE WHEN f.held IS NOT NULL THEN 1 ELSE 0 END) AS BIGINT) AS held,
               CAST(sum(n.maintenance) AS BIGINT) AS maintenance
        FROM nodes n LEFT JOIN node_facts f ON f.node_id = n.id
        WHERE n.tenant = $1 AND n.removed_at IS NULL GROUP BY n.pool_id) s ON s.pool_id = p.id
    LEFT JOIN (
        SELECT c.pool_id, count(*) AS late FROM late_candidates c
        JOIN nodes n ON n.id = c.node_id AND n.tenant = $1 AND n.removed_at IS NULL
        WHERE ",
    late!(),
    "
        GROUP BY c.pool_id) l ON l.pool_id = p.id
    WHERE p.tenant = $1 AND (p.archived_at IS NULL OR p.nodes > 0) ORDER BY p.name, p.id"
);

const VERSIONS: &str = "
    SELECT n.pool_id, f.version, count(*) AS nodes FROM nodes n JOIN node_facts f ON f.node_id = n.id
    WHERE n.tenant = $1 AND n.removed_at IS NULL GROUP BY n.pool_id, f.version ORDER BY n.pool_id, f.version";

/// The tenant's pools that are in use, and archived ones with nodes, by name; without versions.
pub(crate) async fn pools(
    conn: &mut Conn,
    tenant: &TenantId,
) -> Result<Vec<PoolSummary>, sqlx::Error> {
    let rows = query(POOLS).bind(tenant.as_str()).fetch_all(conn).await?;
    rows.iter().map(pool).collect()
}

fn pool(row: &Row) -> Result<PoolSummary, sqlx::Error> {
    let census = Census {
        nodes: number(row, "nodes")?,
        online: number(row, "online")?,
        disrupted: number(row, "disrupted")?,
        refusing: number(row, "refusing")?,
        on_trial: number(row, "on_trial")?,
        late: number(row, "late")?,
        held: number(row, "held")?,
        maintenance: number(row, "maintenance")?,
        versions: BTreeMap::new(),
    };
    let budget = Budget::new(census.nodes, share(row, "budget_ppm")?, census.disrupted);
    Ok(PoolSummary {
        pool_id: parsed(row, "id")?,
        name: row.try_get("name")?,
        archived_at: moment_option(row, "archived_at")?,
        concurrency: budget.max(),
        census,
    })
}

/// How many nodes of which pool run which version.
pub(crate) async fn versions(
    conn: &mut Conn,
    tenant: &TenantId,
) -> Result<BTreeMap<PoolId, BTreeMap<Version, u32>>, sqlx::Error> {
    let rows = query(VERSIONS)
        .bind(tenant.as_str())
        .fetch_all(conn)
        .await?;
    let mut versions: BTreeMap<PoolId, BTreeMap<Version, u32>> = BTreeMap::new();
    for row in &rows {
        versions
            .entry(parsed(row, "pool_id")?)
            .or_default()
            .insert(parsed(row, "version")?, number(row, "nodes")?);
    }
    Ok(versions)
}

//! Reads rollouts as people look at them: wave by wave, with what holds the pools' places and what went wrong.
//!
//! Takes a tenant or a rollout, gives counters and groups. No list of nodes is read, and nothing is written.

use std::collections::BTreeMap;

use bc_protocol::{
    id::{NodeId, PoolId, RolloutId, TenantId},
    share::Percent,
    version::Version,
};

use super::{
    load::{counts, share},
    node, read,
};
use crate::{
    api::rollout::{RowCounts, RowState},
    clock::Moment,
    db::{
        Conn, Row,
        column::{moment_option, number, parsed, parsed_option},
        query,
    },
    rollout::{budget::Budget, limits},
};

/// Causes that are shown: behind them come single cases.
const CAUSES_MAX: u32 = 50;

/// One wave.
#[derive(Clone, Debug)]
pub(crate) struct Wave {
    /// Cumulative percentage.
    pub percent: Percent,
    /// Its nodes by state.
    pub rows: RowCounts,
}

/// What has happened to several nodes alike.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    /// How those nodes stand.
    pub state: RowState,
    /// The reason as a word.
    pub code: String,
    /// The reason as a sentence: that of one of them.
    pub sentence: String,
    /// How many different sentences there are.
    pub sentences: u32,
    /// How many nodes.
    pub nodes: u32,
    /// One of them.
    pub example: NodeId,
}

/// A pool's budget, and who has its places.
#[derive(Clone, Debug)]
pub(crate) struct PoolBudget {
    /// The pool.
    pub id: PoolId,
    /// What people call it.
    pub name: String,
    /// Its nodes.
    pub nodes: u32,
    /// How many are disrupted.
    pub disrupted: u32,
    /// How many may be.
    pub max: u32,
    /// Whether it is used no more.
    pub archived: bool,
    /// Who disrupts them, most first.
    pub users: Vec<User>,
}

/// A rollout or a workflow that disrupts nodes of a pool.
#[derive(Clone, Debug)]
pub(crate) struct User {
    /// Its id.
    pub reason: String,
    /// How many nodes.
    pub nodes: u32,
    /// One of them.
    pub example: NodeId,
}

/// The waves of a tenant's newest rollouts, by rollout.
pub(crate) async fn newest_waves(
    conn: &mut Conn,
    tenant: &TenantId,
) -> Result<BTreeMap<RolloutId, Vec<Wave>>, sqlx::Error> {
    let rows = query(
        "SELECT w.* FROM (SELECT id FROM rollouts WHERE tenant = $1 ORDER BY created_at DESC, id DESC LIMIT $2) r
         CROSS JOIN rollout_waves w WHERE w.rollout_id = r.id ORDER BY w.rollout_id, w.wave",
    )
    .bind(tenant.as_str())
    .bind(limits::LISTED_MAX)
    .fetch_all(conn)
    .await?;
    let mut waves: BTreeMap<RolloutId, Vec<Wave>> = BTreeMap::new();
    for row in &rows {
        let id = parsed(row, "rollout_id")?;
        waves.entry(id).or_default().push(wave(row)?);
    }
    Ok(waves)
}

/// The waves of one rollout.
pub(crate) async fn waves(conn: &mut Conn, id: &RolloutId) -> Result<Vec<Wave>, sqlx::Error> {
    let rows = query("SELECT * FROM rollout_waves WHERE rollout_id = $1 ORDER BY wave")
        .bind(id.as_str())
        .fetch_all(conn)
        .await?;
    rows.iter().map(wave).collect()
}

fn wave(row: &Row) -> Result<Wave, sqlx::Error> {
    Ok(Wave {
        percent: read::percent(number(row, "percent_ppm")?)?,
        rows: counts(row)?,
    })
}

/// When the open wave's last node settled.
pub(crate) async fn settled_at(
    conn: &mut Conn,
    id: &RolloutId,
) -> Result<Option<Moment>, sqlx::Error> {
    let row = query("SELECT wave_settled_at FROM rollouts WHERE id = $1")
        .bind(id.as_str())
        .fetch_one(conn)
        .await?;
    moment_option(&row, "wave_settled_at")
}

/// What went wrong, most nodes first: failures, nodes that were passed over, and what is being retried.
pub(crate) async fn causes(conn: &mut Conn, id: &RolloutId) -> Result<Vec<Cause>, sqlx::Error> {
    let rows = query(
        "SELECT r.state, coalesce(h.error_code, 'unknown') AS error_code, coalesce(min(h.error), '') AS error,
                count(DISTINCT h.error) AS sentences, count(*) AS nodes, min(n.id) AS example
         FROM rollout_rows r JOIN rollout_notes h ON h.rollout = r.rollout AND h.node = r.node
         JOIN nodes n ON n.number = r.node
         WHERE r.rollout = (SELECT number FROM rollouts WHERE id = $1)
           AND (r.state IN ('failed', 'skipped')
                OR (r.state IN ('upgrading', 'rolling-back') AND h.error_code IS NOT NULL))
         GROUP BY r.state, coalesce(h.error_code, 'unknown') ORDER BY 5 DESC, 1, 2 LIMIT $2",
    )
    .bind(id.as_str())
    .bind(CAUSES_MAX)
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| {
            Ok(Cause {
                state: node::state(row)?,
                code: row.try_get("error_code")?,
                sentence: row.try_get("error")?,
                sentences: number(row, "sentences")?,
                nodes: number(row, "nodes")?,
                example: parsed(row, "example")?,
            })
        })
        .collect()
}

/// The budgets of the pools that a rollout moves through, by name.
pub(crate) async fn budgets(
    conn: &mut Conn,
    id: &RolloutId,
) -> Result<Vec<PoolBudget>, sqlx::Error> {
    let rows = query(
        "SELECT d.pool_id, d.reason, count(*) AS nodes, min(d.node_id) AS example FROM disruptions d
         WHERE d.pool_id IN (SELECT pool_id FROM rollout_pools WHERE rollout_id = $1)
         GROUP BY d.pool_id, d.reason ORDER BY 3 DESC, d.reason",
    )
    .bind(id.as_str())
    .fetch_all(&mut *conn)
    .await?;
    let mut users: BTreeMap<PoolId, Vec<User>> = BTreeMap::new();
    for row in &rows {
        users
            .entry(parsed(row, "pool_id")?)
            .or_default()
            .push(User {
                reason: row.try_get("reason")?,
                nodes: number(row, "nodes")?,
                example: parsed(row, "example")?,
            });
    }
    let rows = query(
        "SELECT p.* FROM rollout_pools q JOIN pools p ON p.id = q.pool_id
         WHERE q.rollout_id = $1 ORDER BY p.name, p.id",
    )
    .bind(id.as_str())
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| {
            let id: PoolId = parsed(row, "id")?;
            let (nodes, disrupted) = (number(row, "nodes")?, number(row, "disrupted")?);
            Ok(PoolBudget {
                max: Budget::new(nodes, share(row, "budget_ppm")?, disrupted).max(),
                users: users.remove(&id).unwrap_or_default(),
                archived: moment_option(row, "archived_at")?.is_some(),
                name: row.try_get("name")?,
                id,
                nodes,
                disrupted,
            })
        })
        .collect()
}

/// A node's part in a rollout, as its history tells.
#[derive(Clone, Debug)]
pub(crate) struct Chapter {
    /// The rollout.
    pub rollout: RolloutId,
    /// What it brings.
    pub version: String,
    /// The wave, from 0; none where the node was late.
    pub wave: Option<u32>,
    /// How the row stands.
    pub state: RowState,
    /// What the node ran before.
    pub from: Option<String>,
    /// When it was started.
    pub started_at: Option<Moment>,
    /// When it settled.
    pub finished_at: Option<Moment>,
    /// What went wrong.
    pub error: Option<String>,
    made_at: Moment,
}

/// A node's parts in its tenant's rollouts, the newest rollout first.
pub(crate) async fn history(
    conn: &mut Conn,
    tenant: &TenantId,
    node: &NodeId,
) -> Result<Vec<Chapter>, sqlx::Error> {
    let waves = query(
        "SELECT o.id, o.version, o.created_at, r.wave, r.state, h.from_version, h.started_at, h.finished_at,
                h.error_code, h.error
         FROM rollouts o CROSS JOIN rollout_rows r
         LEFT JOIN rollout_notes h ON h.rollout = r.rollout AND h.node = r.node
         WHERE o.tenant = $1 AND r.rollout = o.number AND r.node = (SELECT number FROM nodes WHERE id = $2)
         ORDER BY o.created_at DESC, o.id DESC LIMIT $3",
    );
    let late = query(
        "SELECT o.id, o.version, o.created_at, -1 AS wave, r.state, r.from_version, r.started_at, r.finished_at,
                r.error_code, r.error
         FROM rollout_late r JOIN rollouts o ON o.id = r.rollout_id
         WHERE o.tenant = $1 AND r.node_id = $2 ORDER BY o.created_at DESC, o.id DESC LIMIT $3",
    );
    let mut chapters = Vec::new();
    for part in [waves, late] {
        let rows = part
            .bind(tenant.as_str())
            .bind(node.as_str())
            .bind(limits::LISTED_MAX)
            .fetch_all(&mut *conn)
            .await?;
        for row in &rows {
            chapters.push(chapter(row)?);
        }
    }
    chapters.sort_by_key(|chapter| {
        let since = chapter.started_at.unwrap_or(chapter.made_at);
        std::cmp::Reverse((since, chapter.made_at))
    });
    Ok(chapters)
}

fn chapter(row: &Row) -> Result<Chapter, sqlx::Error> {
    let wave: i64 = row.try_get("wave")?;
    Ok(Chapter {
        rollout: parsed(row, "id")?,
        version: row.try_get("version")?,
        wave: u32::try_from(wave).ok(),
        state: node::state(row)?,
        from: row.try_get("from_version")?,
        started_at: moment_option(row, "started_at")?,
        finished_at: moment_option(row, "finished_at")?,
        error: node::trouble(row)?.map(|trouble| trouble.to_string()),
        made_at: crate::db::column::moment(row, "created_at")?,
    })
}

/// What moves whenever something does that a rollout's page shows.
pub(crate) async fn pulse(conn: &mut Conn, tenant: &TenantId) -> Result<(u64, u64), sqlx::Error> {
    let row = query(
        "SELECT count(*) AS rollouts, CAST(coalesce(sum(r.revision), 0) AS BIGINT) AS revisions
         FROM (SELECT revision FROM rollouts WHERE tenant = $1 ORDER BY created_at DESC, id DESC LIMIT $2) r",
    )
    .bind(tenant.as_str())
    .bind(limits::LISTED_MAX)
    .fetch_one(conn)
    .await?;
    Ok((number(&row, "rollouts")?, number(&row, "revisions")?))
}

/// How many of a tenant's nodes run which version.
pub(crate) async fn running(
    conn: &mut Conn,
    tenant: &TenantId,
) -> Result<BTreeMap<Version, u32>, sqlx::Error> {
    let rows = query(
        "SELECT f.version, count(*) AS nodes FROM nodes n JOIN node_facts f ON f.node_id = n.id
         WHERE n.tenant = $1 AND n.removed_at IS NULL GROUP BY f.version",
    )
    .bind(tenant.as_str())
    .fetch_all(conn)
    .await?;
    let rows = rows.iter();
    rows.map(|row| Ok((parsed(row, "version")?, number(row, "nodes")?)))
        .collect()
}

/// Tenants that are named; more are no list that anybody reads.
pub(crate) const TENANTS_MAX: usize = 200;

/// Tenants that have pools, by name.
pub(crate) async fn tenants(conn: &mut Conn) -> Result<Vec<TenantId>, sqlx::Error> {
    let rows = query("SELECT DISTINCT tenant FROM pools ORDER BY tenant LIMIT $1")
        .bind(u32::try_from(TENANTS_MAX).unwrap_or(u32::MAX))
        .fetch_all(conn)
        .await?;
    let tenants = rows.iter().map(|row| parsed_option(row, "tenant"));
    Ok(tenants
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .flatten()
        .collect())
}

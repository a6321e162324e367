//! Nodes, as people ask for them.
//!
//! Takes a tenant and a choice, gives what the nodes last said. Changes nothing.

use bc_protocol::{
    id::{NodeId, PoolId, TenantId},
    limits::{LABEL_BYTES_MAX, LABELS_MAX},
    session::Facts,
};
use thiserror::Error;

use crate::{
    api::fleet::{ListNodes, Node, Nodes, Reported},
    clock::Moment,
    db::{
        Conn, Db, Row,
        column::{json, moment, moment_option, number, parsed, undecodable},
        query, query_scalar,
    },
    fleet::pool::{self, PoolError},
};

/// Why nodes are not found.
#[derive(Debug, Error)]
pub(crate) enum NodeError {
    /// The database failed.
    #[error("the database failed")]
    Sql(#[from] sqlx::Error),
    /// The pool that was asked for.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// No page.
    #[error("expected 1 to {PAGE_MAX}, found {found}")]
    Limit {
        /// What was asked for.
        found: u32,
    },
    /// Labels that would not fit.
    #[error(
        "expected at most {LABELS_MAX} labels with names of 1 to {LABEL_BYTES_MAX} bytes and values of at most as many, without control characters, found others"
    )]
    Labels,
    /// Not a node of this tenant.
    #[error("expected a node of this tenant, found none")]
    NotFound,
}

const NODES: &str = "
SELECT n.*, f.online, f.since, f.facts FROM nodes n LEFT JOIN node_facts f ON f.node_id = n.id
WHERE n.removed_at IS NULL AND n.tenant = $1
  AND ($2 IS NULL OR n.pool_id = $2) AND ($3 IS NULL OR n.id = $3) ORDER BY n.id";

const PAGE: &str = "
SELECT n.*, f.online, f.since, f.facts FROM nodes n LEFT JOIN node_facts f ON f.node_id = n.id
WHERE n.removed_at IS NULL AND n.tenant = $1
  AND ($2 IS NULL OR n.pool_id = $2) AND n.id > $3 ORDER BY n.id LIMIT $4";

/// Nodes of one page: some megabytes.
pub(crate) const PAGE_MAX: u32 = 10_000;

/// The tenant's nodes, or those of one pool; a page of them where a limit is given.
pub(crate) async fn list(db: &Db, request: &ListNodes) -> Result<Nodes, NodeError> {
    let limit = match request.limit {
        Some(limit @ 1..=PAGE_MAX) => i64::from(limit),
        Some(found) => return Err(NodeError::Limit { found }),
        None => i64::MAX,
    };
    if let Some(pool_id) = &request.pool_id {
        let mut conn = db.reader().begin().await?;
        pool::find(&mut conn, &request.tenant_id, pool_id).await?;
    }
    let rows = query(PAGE)
        .bind(request.tenant_id.as_str())
        .bind(request.pool_id.as_ref().map(|pool| pool.as_str()))
        .bind(request.after.as_ref().map_or("", |after| after.as_str()))
        .bind(limit)
        .fetch_all(db.reader())
        .await?;
    let nodes: Vec<Node> = rows.iter().map(read).collect::<Result<_, _>>()?;
    let is_full = i64::try_from(nodes.len()).is_ok_and(|found| found >= limit);
    let next = nodes.last().filter(|_| is_full).map(|last| last.id.clone());
    Ok(Nodes { nodes, next })
}

/// One node.
pub(crate) async fn get(db: &Db, tenant: &TenantId, node: &NodeId) -> Result<Node, NodeError> {
    let row = query(NODES)
        .bind(tenant.as_str())
        .bind(None::<&str>)
        .bind(node.as_str())
        .fetch_optional(db.reader())
        .await?
        .ok_or(NodeError::NotFound)?;
    Ok(read(&row)?)
}

/// The pool of a node of the tenant, a removed one too, for whoever decides who may.
pub(crate) async fn pool_of(
    db: &Db,
    tenant: &TenantId,
    node: &NodeId,
) -> Result<Option<PoolId>, NodeError> {
    let row = query("SELECT pool_id FROM nodes WHERE id = $1 AND tenant = $2")
        .bind(node.as_str())
        .bind(tenant.as_str())
        .fetch_optional(db.reader())
        .await?;
    Ok(row.as_ref().map(|row| parsed(row, "pool_id")).transpose()?)
}

/// How a node's newest report is numbered: its connection, and the report there. None where it has said nothing yet.
pub(crate) async fn newest_report(
    conn: &mut Conn,
    tenant: &TenantId,
    node: &NodeId,
) -> Result<Option<(u64, u64)>, sqlx::Error> {
    let row = query(
        "SELECT f.connect_seq, f.report FROM node_facts f JOIN nodes n ON n.id = f.node_id
         WHERE f.node_id = $1 AND n.tenant = $2",
    )
    .bind(node.as_str())
    .bind(tenant.as_str())
    .fetch_optional(conn)
    .await?;
    row.map(|row| Ok((number(&row, "connect_seq")?, number(&row, "report")?)))
        .transpose()
}

/// Removed nodes, the newest first, for gateways to refuse. Beyond the bound, which keeps the list within a frame, a
/// node is refused when its first fact arrives here.
pub(crate) async fn removed(db: &Db) -> Result<Vec<NodeId>, sqlx::Error> {
    const REMOVED_MAX: u32 = 50_000;
    let ids: Vec<String> = query_scalar(
        "SELECT id FROM nodes WHERE removed_at IS NOT NULL ORDER BY removed_at DESC LIMIT $1",
    )
    .bind(REMOVED_MAX)
    .fetch_all(db.reader())
    .await?;
    ids.iter()
        .map(|id| id.parse().map_err(|error| undecodable("id", error)))
        .collect()
}

/// Nodes that were removed at a moment or later.
pub(crate) async fn removed_since(db: &Db, since: Moment) -> Result<Vec<NodeId>, sqlx::Error> {
    let ids: Vec<String> = query_scalar("SELECT id FROM nodes WHERE removed_at >= $1 ORDER BY id")
        .bind(since.millis())
        .fetch_all(db.reader())
        .await?;
    ids.iter()
        .map(|id| id.parse().map_err(|error| undecodable("id", error)))
        .collect()
}

fn read(row: &Row) -> Result<Node, sqlx::Error> {
    let facts: Option<&str> = row.try_get("facts")?;
    let reported = facts
        .map(serde_json::from_str::<Facts>)
        .transpose()
        .map_err(|error| undecodable("facts", error))?
        .map(Reported::from);
    Ok(Node {
        id: parsed(row, "id")?,
        pool_id: parsed(row, "pool_id")?,
        labels: json(row, "labels")?,
        set_labels: json(row, "set_labels")?,
        online: row.try_get::<Option<bool>>("online")?.unwrap_or(false),
        since: moment_option(row, "since")?,
        maintenance: row.try_get("maintenance")?,
        generation: number(row, "generation")?,
        joined_at: moment(row, "joined_at")?,
        reported,
    })
}

impl From<Facts> for Reported {
    fn from(facts: Facts) -> Self {
        Self {
            version: facts.version,
            sequence: facts.sequence,
            digest: facts.digest,
            slot: facts.slot,
            floor: facts.floor,
            trial: facts.trial,
            last_attempt: facts.last_attempt,
            progress: facts.progress,
            observed_generation: facts.observed_generation,
            held: facts.held,
        }
    }
}

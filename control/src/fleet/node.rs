//! Nodes, as people ask for them.
//!
//! Takes a tenant and a choice, gives what the nodes last said. Changes nothing.

use bc_protocol::{
    id::{NodeId, TenantId},
    limits::{LABEL_BYTES_MAX, LABELS_MAX},
    session::Facts,
};
use thiserror::Error;

use crate::{
    api::fleet::{ListNodes, Node, Reported},
    clock::Moment,
    db::{
        Db, Row,
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
    /// Labels that would not fit.
    #[error(
        "expected at most {LABELS_MAX} labels with names of 1 to {LABEL_BYTES_MAX} bytes and values of at most as many, found more or longer ones"
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

/// The tenant's nodes, or those of one pool.
pub(crate) async fn list(db: &Db, request: &ListNodes) -> Result<Vec<Node>, NodeError> {
    if let Some(pool_id) = &request.pool_id {
        let mut conn = db.reader().begin().await?;
        pool::find(&mut conn, &request.tenant_id, pool_id).await?;
    }
    let rows = query(NODES)
        .bind(request.tenant_id.as_str())
        .bind(request.pool_id.as_ref().map(|pool| pool.as_str()))
        .bind(None::<&str>)
        .fetch_all(db.reader())
        .await?;
    Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
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

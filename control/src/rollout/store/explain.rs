//! One node's part in one rollout. Reads only.

use bc_protocol::id::{NodeId, PoolId, RolloutId, TenantId};

use super::node;
use crate::{
    clock::Moment,
    db::{
        Conn, Row,
        column::{moment, moment_option, number, parsed, parsed_option},
        query, query_scalar,
    },
    rollout::{
        explain::{Account, User},
        snapshot::{Node, Waiting},
    },
};

/// A node that somebody asks about.
#[derive(Debug)]
pub(crate) struct Subject {
    /// Its pool.
    pub pool: PoolId,
    /// When it joined.
    pub joined_at: Moment,
    /// The node.
    pub node: Node,
}

/// A node of a tenant, removed or not.
pub(crate) async fn subject(
    conn: &mut Conn,
    tenant: &TenantId,
    id: &NodeId,
) -> Result<Option<Subject>, sqlx::Error> {
    const SUBJECT: &str = concat!(
        "SELECT ",
        node::node_columns!(),
        "FROM nodes n LEFT JOIN node_facts f ON f.node_id = n.id WHERE n.id = $1 AND n.tenant = $2"
    );
    let row = query(SUBJECT)
        .bind(id.as_str())
        .bind(tenant.as_str())
        .fetch_optional(conn)
        .await?;
    row.map(|row| {
        Ok(Subject {
            pool: parsed(&row, "pool_id")?,
            joined_at: moment(&row, "joined_at")?,
            node: node::node(&row)?,
        })
    })
    .transpose()
}

/// The node's row in a rollout, and its wave.
pub(crate) async fn row(
    conn: &mut Conn,
    (id, node): (&RolloutId, &NodeId),
) -> Result<Option<(u32, Account)>, sqlx::Error> {
    let row = query("SELECT * FROM rollout_nodes WHERE rollout_id = $1 AND node_id = $2")
        .bind(id.as_str())
        .bind(node.as_str())
        .fetch_optional(conn)
        .await?;
    row.map(|row| Ok((number(&row, "wave")?, account(&row)?)))
        .transpose()
}

/// The node's pending row in a rollout, as a pass reads it when its turn comes.
pub(crate) async fn waiting(
    conn: &mut Conn,
    (id, node): (&RolloutId, &NodeId),
) -> Result<Option<Waiting>, sqlx::Error> {
    const WAITING: &str = concat!(
        "SELECT ",
        node::columns!(),
        ", (SELECT min(d.reason) FROM disruptions d WHERE d.node_id = n.id) AS disrupted_by
         FROM rollout_rows r ",
        node::joined!(),
        "WHERE r.rollout = (SELECT number FROM rollouts WHERE id = $1) AND n.id = $2 AND r.state = 'pending'"
    );
    let row = query(WAITING)
        .bind(id.as_str())
        .bind(node.as_str())
        .fetch_optional(conn)
        .await?;
    row.map(|row| {
        Ok(Waiting {
            row: node::row(&row)?,
            packed: row.try_get("packed")?,
            disrupted_by: row.try_get("disrupted_by")?,
            node: node::node(&row)?,
        })
    })
    .transpose()
}

/// The node's late row in a rollout.
pub(crate) async fn late_row(
    conn: &mut Conn,
    (id, node): (&RolloutId, &NodeId),
) -> Result<Option<Account>, sqlx::Error> {
    let row = query("SELECT * FROM rollout_late WHERE rollout_id = $1 AND node_id = $2")
        .bind(id.as_str())
        .bind(node.as_str())
        .fetch_optional(conn)
        .await?;
    row.map(|row| account(&row)).transpose()
}

fn account(row: &Row) -> Result<Account, sqlx::Error> {
    Ok(Account {
        state: node::state(row)?,
        from: parsed_option(row, "from_version")?,
        started_at: moment_option(row, "started_at")?,
        deadline_at: moment_option(row, "deadline_at")?,
        finished_at: moment_option(row, "finished_at")?,
        trouble: node::trouble(row)?,
    })
}

/// Who has places in a pool, the oldest first.
pub(crate) async fn users(conn: &mut Conn, pool: &PoolId) -> Result<Vec<User>, sqlx::Error> {
    let rows = query(
        "SELECT node_id, min(reason) AS reason FROM disruptions WHERE pool_id = $1
         GROUP BY node_id ORDER BY min(since), node_id",
    )
    .bind(pool.as_str())
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| {
            Ok(User {
                node: parsed(row, "node_id")?,
                reason: row.try_get("reason")?,
            })
        })
        .collect()
}

/// What a rollout is made for.
#[derive(Debug)]
pub(crate) struct Made {
    /// When.
    pub created_at: Moment,
    /// Whether for certain nodes only.
    pub narrowed: bool,
    /// Whether it moves through the pool that was asked about.
    pub over_pool: bool,
}

/// What a rollout is made for, as a node of `pool` sees it.
pub(crate) async fn made(
    conn: &mut Conn,
    id: &RolloutId,
    pool: &PoolId,
) -> Result<Made, sqlx::Error> {
    let over_pool: Option<i64> =
        query_scalar("SELECT 1 FROM rollout_pools WHERE rollout_id = $1 AND pool_id = $2")
            .bind(id.as_str())
            .bind(pool.as_str())
            .fetch_optional(&mut *conn)
            .await?;
    let row = query("SELECT created_at, narrowed FROM rollouts WHERE id = $1")
        .bind(id.as_str())
        .fetch_one(conn)
        .await?;
    Ok(Made {
        created_at: moment(&row, "created_at")?,
        narrowed: row.try_get("narrowed")?,
        over_pool: over_pool.is_some(),
    })
}

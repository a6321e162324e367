//! A rollout's nodes, a page at a time.

use bc_protocol::{
    id::{NodeId, PoolId, RolloutId},
    version::Version,
};

use super::{Direction, Listed, pattern, turn_to};
use crate::{
    api::rollout::RowState,
    clock::Moment,
    db::{
        Conn, Query, Row,
        column::{moment_option, number, parsed, parsed_option},
        query,
    },
    rollout::store::node,
};

/// Which nodes of a rollout.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowsWanted {
    /// In this state.
    pub state: Option<RowState>,
    /// Of this pool.
    pub pool: Option<PoolId>,
    /// Of this wave, from 0.
    pub wave: Option<u32>,
    /// With this in its id, its labels or its error.
    pub text: String,
}

/// What a rollout's nodes are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowOrder {
    /// The rollout's own order.
    Place,
    /// The node's id.
    Node,
    /// The pool's name.
    Pool,
    /// The state.
    State,
    /// When it was started.
    Started,
}

/// A node of a rollout.
#[derive(Clone, Debug)]
pub(crate) struct ListedRow {
    /// The node.
    pub node: NodeId,
    /// What it calls itself.
    pub hostname: Option<String>,
    /// Its pool's name.
    pub pool: String,
    /// Its wave, from 0.
    pub wave: u32,
    /// How it stands.
    pub state: RowState,
    /// What it ran before.
    pub from: Option<Version>,
    /// When it was started.
    pub started_at: Option<Moment>,
    /// When it settled.
    pub finished_at: Option<Moment>,
    /// What went wrong.
    pub error: Option<String>,
    /// Whether it holds a session.
    pub online: bool,
}

macro_rules! rows_wanted {
    () => {
        "FROM rollout_rows r JOIN nodes n ON n.number = r.node JOIN pools p ON p.id = n.pool_id
         LEFT JOIN rollout_notes h ON h.rollout = r.rollout AND h.node = r.node
         LEFT JOIN node_facts f ON f.node_id = n.id
         WHERE r.rollout = (SELECT number FROM rollouts WHERE id = $1)
           AND ($2 = '' OR r.state = $2) AND ($3 = '' OR n.pool_id = $3) AND ($4 < 0 OR r.wave = $4)
           AND ($5 = '' OR n.id LIKE $5 ESCAPE '!' OR n.labels LIKE $5 ESCAPE '!'
                OR coalesce(h.error_code, '') LIKE $5 ESCAPE '!' OR coalesce(h.error, '') LIKE $5 ESCAPE '!')"
    };
}

/// One page of a rollout's nodes.
pub(crate) async fn rows(
    conn: &mut Conn,
    id: &RolloutId,
    wanted: &RowsWanted,
    (order, direction, page): (RowOrder, Direction, u32),
) -> Result<Listed<ListedRow>, sqlx::Error> {
    const PAGE: &str = concat!(
        "SELECT n.id AS node_id, json_extract(n.labels, '$.hostname') AS hostname, p.name AS pool, r.wave, r.state,
                h.from_version, h.started_at, h.finished_at, h.error_code, h.error, f.online ",
        rows_wanted!(),
        " ORDER BY CASE $6 WHEN 'state' THEN r.state WHEN 'pool' THEN p.name WHEN 'node' THEN n.id END,
                   CASE $6 WHEN '-state' THEN r.state WHEN '-pool' THEN p.name WHEN '-node' THEN n.id END DESC,
                   CASE $6 WHEN 'started' THEN coalesce(h.started_at, 9000000000000000) END,
                   CASE $6 WHEN '-started' THEN coalesce(h.started_at, 0) WHEN '-place' THEN r.place END DESC,
                   r.place
           LIMIT $7 OFFSET $8"
    );
    const COUNT: &str = concat!("SELECT count(*) AS total ", rows_wanted!());
    let filtered = |sql: &'static str| -> Query {
        query(sql)
            .bind(id.as_str())
            .bind(wanted.state.map_or("", RowState::word))
            .bind(wanted.pool.as_ref().map_or("", |pool| pool.as_str()))
            .bind(wanted.wave.map_or(-1, i64::from))
            .bind(pattern(&wanted.text))
    };
    let word = match order {
        RowOrder::Place => "place",
        RowOrder::Node => "node",
        RowOrder::Pool => "pool",
        RowOrder::State => "state",
        RowOrder::Started => "started",
    };
    let found = turn_to(
        conn,
        (filtered(COUNT), filtered(PAGE)),
        (word, direction, page),
    )
    .await?;
    found.read(listed_row)
}

fn listed_row(row: &Row) -> Result<ListedRow, sqlx::Error> {
    Ok(ListedRow {
        node: parsed(row, "node_id")?,
        hostname: row.try_get("hostname")?,
        pool: row.try_get("pool")?,
        wave: number(row, "wave")?,
        state: node::state(row)?,
        from: parsed_option(row, "from_version")?,
        started_at: moment_option(row, "started_at")?,
        finished_at: moment_option(row, "finished_at")?,
        error: node::trouble(row)?.map(|trouble| trouble.to_string()),
        online: row.try_get::<Option<bool>>("online")?.unwrap_or(false),
    })
}

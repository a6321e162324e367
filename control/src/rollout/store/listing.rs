//! Reads nodes a page at a time: those of a rollout, or those of a tenant, as somebody wants to see them.
//!
//! Takes what is wanted and how it is sorted, gives one page and how many there are. Whoever turns pages of ten thousand
//! nodes pays for one page. Writes nothing.

use bc_protocol::{
    id::{NodeId, PoolId, RolloutId, TenantId},
    version::Version,
};

use super::{census::late, node};
use crate::{
    api::rollout::RowState,
    clock::Moment,
    db::{
        Conn, Query, Row,
        column::{moment_option, number, parsed, parsed_option},
        query,
    },
};

/// Rows of a page.
pub(crate) const PAGE_ROWS: u32 = 100;

/// One page of many rows.
#[derive(Clone, Debug)]
pub(crate) struct Listed<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// How many there are on all pages.
    pub total: u32,
}

/// How rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The least first.
    Up,
    /// The greatest first.
    Down,
}

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
    let total = number(&filtered(COUNT).fetch_one(&mut *conn).await?, "total")?;
    let word = match order {
        RowOrder::Place => "place",
        RowOrder::Node => "node",
        RowOrder::Pool => "pool",
        RowOrder::State => "state",
        RowOrder::Started => "started",
    };
    let found = filtered(PAGE)
        .bind(sorted(word, direction))
        .bind(PAGE_ROWS)
        .bind(PAGE_ROWS.saturating_mul(page))
        .fetch_all(conn)
        .await?;
    let rows = found.iter().map(listed_row).collect::<Result<_, _>>()?;
    Ok(Listed { rows, total })
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

/// How a node stands, whatever rollouts want of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It holds a session.
    Online,
    /// It holds none.
    Offline,
    /// It has a workflow, or an upgrade or its way back in flight.
    Disrupted,
    /// It refused the newest release that it was told to run.
    Refusing,
    /// A binary is on trial on it.
    OnTrial,
    /// The newest completed rollout of its pool has not reached it.
    Late,
    /// Its owner holds it.
    Held,
    /// It is in maintenance.
    Maintenance,
}

impl Standing {
    /// Every one, in the order in which people list them.
    pub(crate) const ALL: [Self; 8] = [
        Self::Online,
        Self::Offline,
        Self::Disrupted,
        Self::OnTrial,
        Self::Refusing,
        Self::Late,
        Self::Held,
        Self::Maintenance,
    ];

    /// Its word in addresses and on pages.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Offline => "offline",
            Self::Disrupted => "disrupted",
            Self::Refusing => "refusing",
            Self::OnTrial => "on-trial",
            Self::Late => "late",
            Self::Held => "held",
            Self::Maintenance => "maintenance",
        }
    }
}

/// Which nodes of a tenant.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodesWanted {
    /// Of this pool.
    pub pool: Option<PoolId>,
    /// That stand so.
    pub standing: Option<Standing>,
    /// That run this version.
    pub version: Option<Version>,
    /// With this in its id or its labels.
    pub text: String,
}

/// What a tenant's nodes are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeOrder {
    /// The node's id, which is the order in which they joined.
    Node,
    /// The pool's name.
    Pool,
    /// What runs, as text.
    Version,
    /// Since when it has been online, or offline.
    Since,
}

/// A node of a tenant.
#[derive(Clone, Debug)]
pub(crate) struct ListedNode {
    /// The node.
    pub node: NodeId,
    /// What it calls itself.
    pub hostname: Option<String>,
    /// Its pool's name.
    pub pool: String,
    /// What runs.
    pub version: Option<Version>,
    /// Since when it has been online, or offline; none where it has never been.
    pub since: Option<Moment>,
    /// How it stands.
    pub standings: Vec<Standing>,
    /// What its updater says about its last attempt, where that went wrong.
    pub trouble: Option<String>,
}

macro_rules! nodes_wanted {
    () => {
        concat!(
            "FROM nodes n JOIN pools p ON p.id = n.pool_id LEFT JOIN node_facts f ON f.node_id = n.id
             WHERE n.tenant = $1 AND n.removed_at IS NULL AND ($2 = '' OR n.pool_id = $2)
               AND ($3 = '' OR f.version = $3)
               AND ($4 = '' OR n.id LIKE $4 ESCAPE '!' OR n.labels LIKE $4 ESCAPE '!')
               AND CASE $5
                   WHEN '' THEN 1 = 1
                   WHEN 'online' THEN coalesce(f.online, 0) = 1
                   WHEN 'offline' THEN coalesce(f.online, 0) = 0
                   WHEN 'disrupted' THEN EXISTS (SELECT 1 FROM disruptions d WHERE d.node_id = n.id)
                   WHEN 'refusing' THEN coalesce(f.attempt_outcome, '') = 'refused'
                   WHEN 'on-trial' THEN f.trial_attempt IS NOT NULL
                   WHEN 'held' THEN f.held IS NOT NULL
                   WHEN 'maintenance' THEN n.maintenance = 1
                   ELSE ",
            is_late!(),
            " END"
        )
    };
}

macro_rules! is_late {
    () => {
        concat!(
            "EXISTS (SELECT 1 FROM late_candidates c WHERE c.node_id = n.id AND ",
            late!(),
            ")"
        )
    };
}

macro_rules! nodes_order {
    () => {
        " ORDER BY CASE $6 WHEN 'pool' THEN p.name WHEN 'version' THEN coalesce(f.version, '') END,
                   CASE $6 WHEN '-pool' THEN p.name WHEN '-version' THEN coalesce(f.version, '')
                           WHEN '-node' THEN n.id END DESC,
                   CASE $6 WHEN 'since' THEN coalesce(f.since, 0) END,
                   CASE $6 WHEN '-since' THEN coalesce(f.since, 0) END DESC,
                   n.id"
    };
}

/// One page of a tenant's nodes.
pub(crate) async fn nodes(
    conn: &mut Conn,
    tenant: &TenantId,
    wanted: &NodesWanted,
    (order, direction, page): (NodeOrder, Direction, u32),
) -> Result<Listed<ListedNode>, sqlx::Error> {
    // What is shown of a node is asked of those on the page alone.
    const PAGE: &str = concat!(
        "WITH k AS (SELECT n.id AS id ",
        nodes_wanted!(),
        nodes_order!(),
        " LIMIT $7 OFFSET $8)
         SELECT n.id AS node_id, json_extract(n.labels, '$.hostname') AS hostname, p.name AS pool, f.version, f.since,
                coalesce(f.online, 0) AS is_online, n.maintenance,
                CASE WHEN EXISTS (SELECT 1 FROM disruptions d WHERE d.node_id = n.id) THEN 1 ELSE 0 END AS is_disrupted,
                CASE WHEN f.held IS NOT NULL THEN 1 ELSE 0 END AS is_held,
                CASE WHEN f.trial_attempt IS NOT NULL THEN 1 ELSE 0 END AS is_on_trial,
                CASE WHEN f.attempt_outcome = 'refused' THEN 1 ELSE 0 END AS is_refusing,
                CASE WHEN ",
        is_late!(),
        " THEN 1 ELSE 0 END AS is_late, f.attempt_code AS error_code, f.attempt_message AS error
          FROM k JOIN nodes n ON n.id = k.id JOIN pools p ON p.id = n.pool_id
          LEFT JOIN node_facts f ON f.node_id = n.id",
        nodes_order!(),
    );
    const COUNT: &str = concat!("SELECT count(*) AS total ", nodes_wanted!());
    let filtered = |sql: &'static str| -> Query {
        query(sql)
            .bind(tenant.as_str())
            .bind(wanted.pool.as_ref().map_or("", |pool| pool.as_str()))
            .bind(
                wanted
                    .version
                    .as_ref()
                    .map_or("", |version| version.as_str()),
            )
            .bind(pattern(&wanted.text))
            .bind(wanted.standing.map_or("", Standing::word))
    };
    let total = number(&filtered(COUNT).fetch_one(&mut *conn).await?, "total")?;
    let word = match order {
        NodeOrder::Node => "node",
        NodeOrder::Pool => "pool",
        NodeOrder::Version => "version",
        NodeOrder::Since => "since",
    };
    let found = filtered(PAGE)
        .bind(sorted(word, direction))
        .bind(PAGE_ROWS)
        .bind(PAGE_ROWS.saturating_mul(page))
        .fetch_all(conn)
        .await?;
    let rows = found.iter().map(listed_node).collect::<Result<_, _>>()?;
    Ok(Listed { rows, total })
}

fn listed_node(row: &Row) -> Result<ListedNode, sqlx::Error> {
    let is = |column: &'static str| row.try_get::<bool>(column);
    let online = is("is_online")?;
    let mut standings = vec![if online {
        Standing::Online
    } else {
        Standing::Offline
    }];
    for (column, standing) in [
        ("is_on_trial", Standing::OnTrial),
        ("is_refusing", Standing::Refusing),
        ("is_disrupted", Standing::Disrupted),
        ("is_late", Standing::Late),
        ("is_held", Standing::Held),
        ("maintenance", Standing::Maintenance),
    ] {
        if is(column)? {
            standings.push(standing);
        }
    }
    let code: Option<String> = row.try_get("error_code")?;
    let trouble = match code.as_deref() {
        None | Some("") => None,
        Some(_) => node::trouble(row)?.map(|trouble| trouble.to_string()),
    };
    Ok(ListedNode {
        node: parsed(row, "node_id")?,
        hostname: row.try_get("hostname")?,
        pool: row.try_get("pool")?,
        version: parsed_option(row, "version")?,
        since: moment_option(row, "since")?,
        standings,
        trouble,
    })
}

/// The pattern of a text that stands for itself.
fn pattern(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let mut pattern = String::from("%");
    for character in text.chars() {
        if matches!(character, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}

fn sorted(word: &str, direction: Direction) -> String {
    match direction {
        Direction::Up => word.to_owned(),
        Direction::Down => format!("-{word}"),
    }
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn what_is_looked_for_stands_for_itself() {
        assert_eq!(pattern(""), "");
        assert_eq!(pattern("web-1"), "%web-1%");
        assert_eq!(pattern("50%_!"), "%50!%!_!!%");
    }
}

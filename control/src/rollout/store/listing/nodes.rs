//! A tenant's nodes, a page at a time.

use bc_protocol::{
    id::{NodeId, PoolId, TenantId},
    version::Version,
};

use super::{Direction, Listed, pattern, turn_to};
use crate::{
    clock::Moment,
    db::{
        Conn, Query, Row,
        column::{moment_option, parsed, parsed_option},
        query,
    },
    rollout::store::{
        census::{late, refusing},
        node,
    },
};

/// How a node stands, whatever rollouts want of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It holds a session.
    Online,
    /// It holds none.
    Offline,
    /// It has a workflow, or an upgrade or its way back in flight.
    Disrupted,
    /// It refused the newest release that it was told to run, and the rollout that told it was not aborted.
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
                   WHEN 'refusing' THEN ",
            refusing!(),
            "
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
                CASE WHEN ",
        refusing!(),
        " THEN 1 ELSE 0 END AS is_refusing,
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
    let word = match order {
        NodeOrder::Node => "node",
        NodeOrder::Pool => "pool",
        NodeOrder::Version => "version",
        NodeOrder::Since => "since",
    };
    let found = turn_to(
        conn,
        (filtered(COUNT), filtered(PAGE)),
        (word, direction, page),
    )
    .await?;
    found.read(listed_node)
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

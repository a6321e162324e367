//! What a forecast needs beside the nodes in scope. Writes nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bc_protocol::{
    id::{PoolId, RolloutId, TenantId},
    sequence::ReleaseFloor,
    version::Version,
};

use super::load::{rollout_state, share};
use crate::{
    api::rollout::RolloutState,
    db::{
        Conn, Row,
        column::{number, parsed, undecodable},
        query,
    },
    rollout::{
        budget::Budget,
        forecast::{Aborted, Reachable},
    },
};

/// The budgets of a tenant's pools.
pub(crate) async fn budgets(
    conn: &mut Conn,
    tenant: &TenantId,
) -> Result<BTreeMap<PoolId, Budget>, sqlx::Error> {
    let rows = query("SELECT id, nodes, budget_ppm, disrupted FROM pools WHERE tenant = $1")
        .bind(tenant.as_str())
        .fetch_all(conn)
        .await?;
    rows.iter()
        .map(|row| {
            let (nodes, disrupted) = (number(row, "nodes")?, number(row, "disrupted")?);
            let budget = Budget::new(nodes, share(row, "budget_ppm")?, disrupted);
            Ok((parsed(row, "id")?, budget))
        })
        .collect()
}

/// Nodes whose average is told. More tell no better, and are read no sooner.
const AVERAGED: u32 = 10_000;

/// What a node needed in the tenant's newest completed rollout, on the average of so many of them.
pub(crate) async fn per_node(
    conn: &mut Conn,
    tenant: &TenantId,
) -> Result<Option<Duration>, sqlx::Error> {
    let row = query(
        "SELECT count(*) AS nodes, CAST(coalesce(sum(i.millis), 0) AS BIGINT) AS millis FROM (
             SELECT h.finished_at - h.started_at AS millis
             FROM rollout_rows r JOIN rollout_notes h ON h.rollout = r.rollout AND h.node = r.node
             WHERE r.state = 'succeeded' AND h.started_at IS NOT NULL AND r.rollout = (
                 SELECT number FROM rollouts WHERE tenant = $1 AND state = 'completed'
                 ORDER BY created_at DESC, id DESC LIMIT 1)
             LIMIT $2) i",
    )
    .bind(tenant.as_str())
    .bind(AVERAGED)
    .fetch_one(conn)
    .await?;
    let (nodes, millis): (u64, u64) = (number(&row, "nodes")?, number(&row, "millis")?);
    Ok(millis.checked_div(nodes).map(Duration::from_millis))
}

/// Nodes that are in a running or paused rollout of the tenant over one of these pools, by number, with that rollout.
pub(crate) async fn busy(
    conn: &mut Conn,
    tenant: &TenantId,
    pools: &BTreeSet<PoolId>,
) -> Result<BTreeMap<i64, RolloutId>, sqlx::Error> {
    let rows = query(BUSY)
        .bind(tenant.as_str())
        .bind(serde_json::to_string(pools).map_err(|error| sqlx::Error::Encode(error.into()))?)
        .fetch_all(conn)
        .await?;
    let mut busy = BTreeMap::new();
    for row in &rows {
        let rollout: RolloutId = parsed(row, "id")?;
        for number in numbers(row)? {
            busy.insert(number, rollout.clone());
        }
    }
    Ok(busy)
}

const BUSY: &str = "
    SELECT o.id, string_agg(CAST(r.node AS TEXT), ' ') AS numbers FROM rollouts o CROSS JOIN rollout_rows r
    WHERE o.tenant = $1 AND o.state IN ('running', 'paused') AND r.rollout = o.number
      AND EXISTS (SELECT 1 FROM rollout_pools p
                  WHERE p.rollout_id = o.id AND p.pool_id IN (SELECT value FROM json_each($2)))
    GROUP BY o.id";

/// Nodes of which all is the same that a forecast asks for.
#[derive(Clone, Debug)]
pub(crate) struct Kin {
    /// Their `cpu.arch` label.
    pub arch: Option<String>,
    /// Whether they can be reached.
    pub reach: Reachable,
    /// What they have said; none before their first session.
    pub said: Option<KinSaid>,
    /// Their numbers.
    pub nodes: Vec<i64>,
}

/// What they have said.
#[derive(Clone, Debug)]
pub(crate) struct KinSaid {
    /// The version that runs.
    pub version: Version,
    /// The oldest release that they accept.
    pub floor: ReleaseFloor,
    /// The owner's reason, where he holds them.
    pub held: Option<String>,
}

/// A pool's nodes. They come in a few long rows, since most of a fleet is alike.
pub(crate) async fn nodes(conn: &mut Conn, pool: &PoolId) -> Result<Vec<Kin>, sqlx::Error> {
    let rows = query(KIN).bind(pool.as_str()).fetch_all(conn).await?;
    rows.iter().map(kin).collect()
}

const KIN: &str = "
    SELECT i.arch, i.online, i.version, i.floor, i.held, string_agg(CAST(i.number AS TEXT), ' ') AS numbers
    FROM (SELECT n.number, json_extract(n.labels, '$.\"cpu.arch\"') AS arch, f.online, f.version, f.floor, f.held
          FROM nodes n LEFT JOIN node_facts f ON f.node_id = n.id
          WHERE n.pool_id = $1 AND n.removed_at IS NULL AND n.generation > 0) i
    GROUP BY i.arch, i.online, i.version, i.floor, i.held";

fn kin(row: &Row) -> Result<Kin, sqlx::Error> {
    let online: Option<bool> = row.try_get("online")?;
    let said = match online {
        None => None,
        Some(_) => Some(KinSaid {
            version: parsed(row, "version")?,
            floor: floor(row)?,
            held: row.try_get("held")?,
        }),
    };
    Ok(Kin {
        arch: row.try_get("arch")?,
        reach: match online {
            Some(true) => Reachable::Online,
            Some(false) | None => Reachable::Offline,
        },
        said,
        nodes: numbers(row)?,
    })
}

fn floor(row: &Row) -> Result<ReleaseFloor, sqlx::Error> {
    let sequence = number::<u64>(row, "floor")?.try_into();
    let sequence = sequence.map_err(|source| undecodable("floor", source))?;
    Ok(ReleaseFloor::starting_at(sequence))
}

fn numbers(row: &Row) -> Result<Vec<i64>, sqlx::Error> {
    let numbers: &str = row.try_get("numbers")?;
    let numbers = numbers.split(' ').map(str::parse);
    let numbers: Result<_, _> = numbers.collect();
    numbers.map_err(|source| undecodable("numbers", source))
}

/// How many nodes of these pools would be in scope, were they not in maintenance.
pub(crate) async fn in_maintenance(
    conn: &mut Conn,
    pools: &BTreeSet<PoolId>,
) -> Result<u32, sqlx::Error> {
    let mut nodes = 0_u32;
    for pool in pools {
        let row = query(
            "SELECT count(*) AS nodes FROM nodes
             WHERE pool_id = $1 AND removed_at IS NULL AND generation > 0 AND maintenance = 1",
        )
        .bind(pool.as_str())
        .fetch_one(&mut *conn)
        .await?;
        nodes = nodes.saturating_add(number(&row, "nodes")?);
    }
    Ok(nodes)
}

/// The tenant's newest rollout of a version, if it was aborted.
pub(crate) async fn aborted(
    conn: &mut Conn,
    tenant: &TenantId,
    version: &Version,
) -> Result<Option<Aborted>, sqlx::Error> {
    let row = query(
        "SELECT id, state, reason FROM rollouts WHERE tenant = $1 AND version = $2
         ORDER BY created_at DESC, id DESC LIMIT 1",
    )
    .bind(tenant.as_str())
    .bind(version.as_str())
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    if rollout_state(&row)? != RolloutState::Aborted {
        return Ok(None);
    }
    Ok(Some(Aborted {
        rollout: parsed(&row, "id")?,
        reason: row.try_get::<Option<String>>("reason")?.unwrap_or_default(),
    }))
}

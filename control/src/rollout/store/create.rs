//! Writes a new rollout: its head, its waves and a row for each node in scope.

use std::collections::BTreeSet;

use bc_protocol::{
    id::{NodeId, PoolId, RolloutId, TenantId},
    sequence::Sequence,
    share::Percent,
    version::Version,
};

use super::{StoreError, freeze, late};
use crate::{
    api::rollout::{RolloutState, RowState},
    clock::Moment,
    db::{
        Bind as _, Conn, Row, Tx,
        bulk::insert_many,
        column::{json, number, parsed, parsed_option},
        query, query_scalar,
    },
    rollout::{
        forecast::Reachable,
        plan::first_attempt,
        snapshot::{Scope, Tally, Terms},
        waves,
    },
};

/// A rollout that is about to be written.
#[derive(Clone, Debug)]
pub(crate) struct New<'a> {
    /// What never changes.
    pub terms: Terms,
    /// Whose.
    pub tenant: &'a TenantId,
    /// By whom.
    pub actor: &'a str,
    /// Cumulative percentages.
    pub waves: Vec<Percent>,
    /// Which nodes.
    pub reach: Reach,
    /// When.
    pub at: Moment,
}

/// Which nodes of the pools take part.
#[derive(Clone, Debug)]
pub(crate) enum Reach {
    /// All of them; late ones converge on it too.
    Everything,
    /// These.
    Nodes(BTreeSet<NodeId>),
    /// Those with all these labels.
    Selector(std::collections::BTreeMap<String, String>),
}

impl Reach {
    fn is_narrowed(&self) -> bool {
        match self {
            Self::Everything => false,
            Self::Nodes(_) | Self::Selector(_) => true,
        }
    }

    fn holds(&self, node: &NodeId, row: &Row) -> Result<bool, sqlx::Error> {
        match self {
            Self::Everything => Ok(true),
            Self::Nodes(nodes) => Ok(nodes.contains(node)),
            Self::Selector(wanted) => {
                let labels: std::collections::BTreeMap<String, String> = json(row, "labels")?;
                Ok(wanted
                    .iter()
                    .all(|(name, value)| labels.get(name) == Some(value)))
            }
        }
    }
}

/// A node of the snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// The node.
    pub node: NodeId,
    /// Its pool.
    pub pool: PoolId,
    /// Whether it runs the release already.
    pub start: RowState,
    /// Whether it can be reached now.
    pub reach: Reachable,
}

/// Locks the tenant's unarchived pools, or those of `listed` that are among them, so that no two rollouts over one pool
/// are created at once.
pub(crate) async fn lock_pools(
    tx: &mut Tx,
    tenant: &TenantId,
    listed: Option<&BTreeSet<PoolId>>,
) -> Result<(), sqlx::Error> {
    let Some(listed) = listed else {
        query("SELECT id FROM pools WHERE tenant = $1 AND archived_at IS NULL ORDER BY id")
            .bind(tenant.as_str())
            .for_update()
            .fetch_all(tx)
            .await?;
        return Ok(());
    };
    for pool in listed {
        query("SELECT id FROM pools WHERE id = $1 AND tenant = $2 AND archived_at IS NULL")
            .bind(pool.as_str())
            .bind(tenant.as_str())
            .for_update()
            .fetch_optional(&mut *tx)
            .await?;
    }
    Ok(())
}

/// The tenant's unarchived pools.
pub(crate) async fn pools(
    conn: &mut Conn,
    tenant: &TenantId,
) -> Result<BTreeSet<PoolId>, sqlx::Error> {
    let rows = query("SELECT id FROM pools WHERE tenant = $1 AND archived_at IS NULL")
        .bind(tenant.as_str())
        .fetch_all(conn)
        .await?;
    rows.iter().map(|row| parsed(row, "id")).collect()
}

/// The first of `nodes` that is none of the tenant's.
pub(crate) async fn stranger(
    conn: &mut Conn,
    tenant: &TenantId,
    nodes: &BTreeSet<NodeId>,
) -> Result<Option<NodeId>, sqlx::Error> {
    for node in nodes {
        let known: Option<i64> = query_scalar(
            "SELECT 1 FROM nodes WHERE id = $1 AND tenant = $2 AND removed_at IS NULL",
        )
        .bind(node.as_str())
        .bind(tenant.as_str())
        .fetch_optional(&mut *conn)
        .await?;
        if known.is_none() {
            return Ok(Some(node.clone()));
        }
    }
    Ok(None)
}

/// The nodes in scope, in the rollout's order.
pub(crate) async fn members(
    conn: &mut Conn,
    new: &New<'_>,
    pools: &BTreeSet<PoolId>,
) -> Result<Vec<Member>, sqlx::Error> {
    let mut members = Vec::new();
    for pool in pools {
        let rows = query(
            "SELECT n.id, n.labels, n.maintenance, f.version, f.sequence, f.trial_attempt, f.online
             FROM nodes n LEFT JOIN node_facts f ON f.node_id = n.id
             WHERE n.pool_id = $1 AND n.removed_at IS NULL AND n.generation > 0",
        )
        .bind(pool.as_str())
        .fetch_all(&mut *conn)
        .await?;
        for row in &rows {
            members.extend(member(new, pool, row)?);
        }
    }
    members.sort_by_cached_key(|member| waves::sort_key(&new.terms.id, &member.node));
    Ok(members)
}

fn member(new: &New<'_>, pool: &PoolId, row: &Row) -> Result<Option<Member>, sqlx::Error> {
    let node: NodeId = parsed(row, "id")?;
    let in_maintenance = match new.terms.scope {
        Scope::MaintenanceToo => false,
        Scope::NotInMaintenance => row.try_get("maintenance")?,
    };
    if in_maintenance || !new.reach.holds(&node, row)? {
        return Ok(None);
    }
    let start = if runs(row, &new.terms)? {
        RowState::Succeeded
    } else {
        RowState::Pending
    };
    let online: Option<bool> = row.try_get("online")?;
    Ok(Some(Member {
        node,
        pool: pool.clone(),
        start,
        reach: match online {
            Some(true) => Reachable::Online,
            Some(false) | None => Reachable::Offline,
        },
    }))
}

/// Whether a node already runs the release, confirmed. The sequence tells it from a package's own binary of that name.
fn runs(row: &Row, terms: &Terms) -> Result<bool, sqlx::Error> {
    let Some(version) = parsed_option::<Version>(row, "version")? else {
        return Ok(false);
    };
    let sequence = Sequence::new(number(row, "sequence")?);
    let on_trial: Option<&str> = row.try_get("trial_attempt")?;
    Ok(version == terms.version && sequence == Ok(terms.sequence) && on_trial.is_none())
}

/// Writes the rollout. Gives the nodes whose desired state it names at once.
pub(crate) async fn insert(
    tx: &mut Tx,
    new: &New<'_>,
    pools: &BTreeSet<PoolId>,
    members: &[Member],
) -> Result<Vec<NodeId>, StoreError> {
    freeze::begin(tx, new.tenant).await?;
    insert_head(tx, new).await?;
    for pool in pools {
        if new.terms.scope == Scope::NotInMaintenance && !new.reach.is_narrowed() {
            late::left_out(tx, pool).await?;
        }
        query("INSERT INTO rollout_pools (rollout_id, pool_id) VALUES ($1, $2)")
            .bind(new.terms.id.as_str())
            .bind(pool.as_str())
            .execute(&mut **tx)
            .await?;
    }
    let nodes = u32::try_from(members.len()).unwrap_or(u32::MAX);
    let ends = waves::ends(nodes, &new.waves);
    insert_waves(tx, new, &tallies(&ends, members)).await?;
    insert_rows(tx, new, &ends, members).await?;
    Ok(members
        .iter()
        .filter(|member| member.start.is_touched())
        .map(|member| member.node.clone())
        .collect())
}

async fn insert_head(tx: &mut Tx, new: &New<'_>) -> Result<(), sqlx::Error> {
    let maintenance = match new.terms.scope {
        Scope::MaintenanceToo => true,
        Scope::NotInMaintenance => false,
    };
    query(
        "INSERT INTO rollouts (id, tenant, version, state, wave, max_failure_ppm, soak_ms, timeout_ms, narrowed,
             maintenance, created_at, created_by, updated_at)
         VALUES ($1, $2, $3, $4, 0, $5, $6, $7, $8, $9, $10, $11, $10)",
    )
    .bind(new.terms.id.as_str())
    .bind(new.tenant.as_str())
    .bind(new.terms.version.as_str())
    .bind(RolloutState::Running.word())
    .bind(new.terms.max_failure_ratio.millionths())
    .bind(millis(new.terms.soak))
    .bind(millis(new.terms.timeout))
    .bind(new.reach.is_narrowed())
    .bind(maintenance)
    .bind(new.at.millis())
    .bind(new.actor)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

fn millis(span: std::time::Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

fn tallies(ends: &[u32], members: &[Member]) -> Vec<Tally> {
    let mut tallies = vec![Tally::default(); ends.len()];
    for (place, member) in (0..).zip(members) {
        let wave = usize::try_from(waves::wave_at(place, ends)).unwrap_or(usize::MAX);
        if let Some(tally) = tallies.get_mut(wave) {
            tally.rows.add(member.start, 1);
        }
    }
    tallies
}

async fn insert_waves(tx: &mut Tx, new: &New<'_>, tallies: &[Tally]) -> Result<(), sqlx::Error> {
    for (wave, (percent, tally)) in (0_u32..).zip(new.waves.iter().zip(tallies)) {
        query(
            "INSERT INTO rollout_waves (rollout_id, wave, percent_ppm, pending, succeeded) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(new.terms.id.as_str())
        .bind(wave)
        .bind(percent.millionths())
        .bind(tally.rows.pending)
        .bind(tally.rows.succeeded)
        .execute(&mut **tx)
        .await?;
    }
    Ok(())
}

async fn insert_rows(
    tx: &mut Tx,
    new: &New<'_>,
    ends: &[u32],
    members: &[Member],
) -> Result<(), sqlx::Error> {
    let rows = members.iter().enumerate().map(|(place, member)| {
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        // A row that has its node's say from the start needs an attempt for the node's section to name.
        let touched = member.start.is_touched();
        let attempt = touched.then(|| first_attempt(&new.terms.id, &member.node).to_string());
        [
            new.terms.id.as_str().value(),
            place.value(),
            member.node.as_str().value(),
            member.pool.as_str().value(),
            waves::wave_at(place, ends).value(),
            member.start.word().value(),
            attempt.value(),
            touched.then_some(new.at.millis()).value(),
        ]
    });
    insert_many(tx, ROWS, rows).await
}

const ROWS: &str =
    "rollout_nodes (rollout_id, place, node_id, pool_id, wave, state, attempt, finished_at)";

/// Another rollout, running or paused, that has a node of this one.
pub(crate) async fn rival(tx: &mut Tx, id: &RolloutId) -> Result<Option<RolloutId>, sqlx::Error> {
    let rival: Option<String> = query_scalar(
        "SELECT o.id FROM rollouts o
         CROSS JOIN rollout_nodes theirs CROSS JOIN rollout_nodes ours
         WHERE theirs.rollout_id = o.id AND ours.node_id = theirs.node_id AND ours.rollout_id = $1
           AND o.state IN ('running', 'paused') AND o.id <> $1 LIMIT 1",
    )
    .bind(id.as_str())
    .fetch_optional(&mut **tx)
    .await?;
    rival
        .map(|id| {
            id.parse()
                .map_err(|source| crate::db::column::undecodable("id", source))
        })
        .transpose()
}

/// The version of a rollout, whoever's it is.
pub(crate) async fn version_of(
    conn: &mut Conn,
    id: &RolloutId,
) -> Result<Option<Version>, sqlx::Error> {
    let row = query("SELECT version FROM rollouts WHERE id = $1")
        .bind(id.as_str())
        .fetch_optional(conn)
        .await?;
    row.map(|row| parsed(&row, "version")).transpose()
}

//! Writes a new rollout: its head, its waves and a row for each node in scope.

mod members;
mod packs;

use std::collections::{BTreeMap, BTreeSet};

use bc_protocol::{
    id::{NodeId, PoolId, RolloutId, TenantId},
    share::Percent,
    version::Version,
};

pub(crate) use members::members;
use packs::Packer;

use super::{StoreError, freeze, late};
use crate::{
    api::rollout::{RolloutState, RowState},
    clock::Moment,
    db::{
        Bind as _, Conn, Tx, Value,
        bulk::{insert_many, with_rows},
        column::parsed,
        query, query_scalar,
    },
    rollout::{
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
    Selector(BTreeMap<String, String>),
}

impl Reach {
    fn is_narrowed(&self) -> bool {
        match self {
            Self::Everything => false,
            Self::Nodes(_) | Self::Selector(_) => true,
        }
    }
}

/// A node of the snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Member<'a> {
    /// The node.
    pub node: NodeId,
    /// Its number in rows.
    pub number: i64,
    /// Its pool.
    pub pool: &'a PoolId,
    /// The pool's number in rows.
    pub pool_number: i64,
    /// Whether it runs the release already.
    pub start: RowState,
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

/// Writes the rollout. Gives the nodes whose desired state it names at once.
pub(crate) async fn insert(
    tx: &mut Tx,
    new: &New<'_>,
    pools: &BTreeSet<PoolId>,
    members: &[Member<'_>],
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

fn tallies(ends: &[u32], members: &[Member<'_>]) -> Vec<Tally> {
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

/// In the order of the table, so that it grows at one end. Whoever waits stands in a pack.
async fn insert_rows(
    tx: &mut Tx,
    new: &New<'_>,
    ends: &[u32],
    members: &[Member<'_>],
) -> Result<(), sqlx::Error> {
    let rollout: i64 = query_scalar("SELECT number FROM rollouts WHERE id = $1")
        .bind(new.terms.id.as_str())
        .fetch_one(&mut **tx)
        .await?;
    let mut packer = Packer::default();
    let (mut waiting, mut touched) = (Vec::with_capacity(members.len()), Vec::new());
    for (place, member) in (0..).zip(members) {
        let wave = waves::wave_at(place, ends);
        let pool = member.pool_number;
        let row = (member.number, place, pool, wave);
        match member.start {
            RowState::Pending => {
                packer.add((wave, pool), place, member.number);
                waiting.push(row);
            }
            RowState::Upgrading
            | RowState::Succeeded
            | RowState::Failed
            | RowState::Skipped
            | RowState::RollingBack
            | RowState::RolledBack => touched.push((row, member)),
        }
    }
    waiting.sort_unstable();
    let rows = waiting
        .iter()
        .map(|(node, place, pool, wave)| values(rollout, (*node, *place, *pool, *wave)));
    with_rows(tx, WAITING, rows).await?;
    insert_packs(tx, rollout, packer).await?;
    let rows = touched.iter().map(|(row, member)| {
        let [rollout, node, place, pool, wave] = values(rollout, *row);
        [
            rollout,
            node,
            place,
            pool,
            wave,
            member.start.word().value(),
        ]
    });
    insert_many(tx, TOUCHED, rows).await?;
    let touched = touched.iter().map(|(_, member)| *member);
    insert_notes(tx, (new, rollout), touched).await
}

fn values(rollout: i64, (node, place, pool, wave): (i64, u32, i64, u32)) -> [Value; 5] {
    [
        rollout.value(),
        node.value(),
        place.value(),
        pool.value(),
        wave.value(),
    ]
}

async fn insert_packs(tx: &mut Tx, rollout: i64, packer: Packer) -> Result<(), sqlx::Error> {
    let packs = packer.finish().into_iter().map(|pack| {
        let (wave, pool) = pack.of;
        [
            rollout.value(),
            wave.value(),
            pool.value(),
            pack.place.value(),
            pack.nodes.value(),
        ]
    });
    insert_many(tx, PACKS, packs).await
}

/// A row that has its node's say from the start needs an attempt for the node's section to name.
async fn insert_notes<'m>(
    tx: &mut Tx,
    (new, rollout): (&New<'_>, i64),
    touched: impl Iterator<Item = &'m Member<'m>>,
) -> Result<(), sqlx::Error> {
    let notes: Vec<_> = touched
        .map(|member| {
            let attempt = first_attempt(&new.terms.id, &member.node);
            [
                rollout.value(),
                member.number.value(),
                attempt.as_str().value(),
                new.at.millis().value(),
            ]
        })
        .collect();
    insert_many(tx, NOTES, notes.into_iter()).await
}

const WAITING: &str = "
    INSERT INTO rollout_rows (rollout, node, place, pool, wave, state, packed)
    SELECT v.column1, v.column2, v.column3, v.column4, v.column5, 'pending', 1 FROM {rows}";

const TOUCHED: &str = "rollout_rows (rollout, node, place, pool, wave, state)";

const PACKS: &str = "rollout_packs (rollout, wave, pool, place, nodes)";

const NOTES: &str = "rollout_notes (rollout, node, attempt, finished_at)";

/// Another rollout, running or paused, that has a node of this one. Only those over one of its pools are looked at.
pub(crate) async fn rival(tx: &mut Tx, id: &RolloutId) -> Result<Option<RolloutId>, sqlx::Error> {
    let rival: Option<String> = query_scalar(
        "SELECT o.id FROM rollouts o
         CROSS JOIN rollout_rows theirs CROSS JOIN rollouts m CROSS JOIN rollout_rows ours
         WHERE o.state IN ('running', 'paused') AND o.id <> $1
           AND EXISTS (SELECT 1 FROM rollout_pools a JOIN rollout_pools b ON b.pool_id = a.pool_id
                       WHERE a.rollout_id = o.id AND b.rollout_id = $1)
           AND theirs.rollout = o.number AND m.id = $1 AND ours.rollout = m.number AND ours.node = theirs.node
         LIMIT 1",
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

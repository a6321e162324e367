//! Reads one rollout as a pass needs it, in the transaction of that pass.

mod opened;

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bc_protocol::{
    id::{NodeId, PoolId, RolloutId},
    release::Trust,
    share::Share,
};

use opened::opened;
use serde::Serialize;

use super::{
    StoreError,
    flights::{landing, seen},
    node::{self, UnknownWord},
    pending::{self, Turn},
    queries,
};
use crate::{
    api::rollout::{RolloutState, RowCounts},
    clock::Moment,
    db::{
        Conn, Row,
        column::{moment_option, number, parsed, parsed_option, undecodable},
        query, query_scalar,
    },
    release::verified::installed,
    rollout::{
        budget::Budget,
        snapshot::{Lingering, Lost, Offer, Place, Pool, Scope, Snapshot, Terms, Unseen},
        target::Target,
    },
};

/// What a process brings to its passes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings<'a> {
    /// Whom to believe.
    pub trust: &'a Trust,
    /// When the process started.
    pub started_at: Moment,
    /// How long a node may be offline before its wave goes on without it.
    pub offline_grace: Duration,
}

/// What a pass reads of the rows in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Look<'a> {
    /// All of them.
    Everything,
    /// Those of these nodes, and whatever is overdue by now.
    News {
        /// Of which something is new.
        nodes: &'a BTreeSet<NodeId>,
        /// When the pass is made.
        now: Moment,
    },
    /// As the news, where a look at everything has found something new of these nodes; and whoever has left the rollout's
    /// scope.
    Found {
        /// Of which something is new.
        nodes: &'a BTreeSet<NodeId>,
        /// When the pass is made.
        now: Moment,
    },
}

/// Reads a rollout; none if there is none of that id. What nobody can need, by the counters, is not asked for.
pub(crate) async fn snapshot(
    conn: &mut Conn,
    id: &RolloutId,
    (look, around): (Look<'_>, Surroundings<'_>),
) -> Result<Option<Snapshot>, StoreError> {
    let Some(opened) = opened(conn, id, (look, around)).await? else {
        return Ok(None);
    };
    let (open, open_rows) = (opened.open, opened.tally().rows);
    let in_flight: u32 = opened.waves.iter().map(|wave| wave.rows.in_flight()).sum();
    let (flights, unseen) = if in_flight == 0 {
        (Vec::new(), Unseen::default())
    } else {
        seen(conn, open, look, (in_flight, opened.others)).await?
    };
    let turn = Turn {
        open,
        scope: opened.terms.scope,
        waiting: open_rows.pending,
        in_question: match look {
            Look::Everything | Look::Found { .. } => {
                opened.waves.iter().map(|wave| wave.rows.pending).sum()
            }
            // Who is removed or put into maintenance is no news of a node: everything is looked at then.
            Look::News { .. } => 0,
        },
        pools: &opened.pools,
        flights: &flights,
        landing: &landing(&flights, &opened.terms),
        reachable: unseen.reachable,
    };
    let (pending, extent) = pending::pending(conn, turn).await?;
    let mut snapshot = Snapshot {
        revision: opened.revision,
        unseen,
        pending,
        extent,
        lingering: Vec::new(),
        troubles: BTreeMap::new(),
        lost: Vec::new(),
        unsteady: BTreeSet::new(),
        offer: opened.offer,
        freeze: opened.freeze,
        context: opened.context,
        waves: opened.waves,
        terms: opened.terms,
        head: opened.head,
        pools: opened.pools,
        flights,
    };
    if opened.lingers {
        let found_by = (queries::LINGERING, open.number);
        snapshot.lingering = lingering(conn, found_by, id).await?;
    }
    if open_rows.failed > 0 {
        snapshot.troubles = troubles(conn, open).await?;
    }
    if open_rows.succeeded > 0 {
        (snapshot.lost, snapshot.unsteady) = regressed(conn, open).await?;
    }
    Ok(Some(snapshot))
}

/// The wave that is open.
#[derive(Clone, Copy)]
pub(super) struct Open<'a> {
    pub(super) id: &'a RolloutId,
    /// The rollout's, in its rows.
    pub(super) number: i64,
    pub(super) wave: u32,
    created_at: Moment,
}

/// What was agreed.
pub(super) fn terms(row: &Row) -> Result<Terms, sqlx::Error> {
    let scope = if row.try_get("maintenance")? {
        Scope::MaintenanceToo
    } else {
        Scope::NotInMaintenance
    };
    Ok(Terms {
        id: parsed(row, "id")?,
        version: parsed(row, "version")?,
        sequence: number::<u64>(row, "sequence")?
            .try_into()
            .map_err(|source| undecodable("sequence", source))?,
        max_failure_ratio: share(row, "max_failure_ppm")?,
        soak: Duration::from_millis(number(row, "soak_ms")?),
        timeout: Duration::from_millis(number(row, "timeout_ms")?),
        scope,
    })
}

/// A share in parts per million.
pub(super) fn share(row: &Row, column: &'static str) -> Result<Share, sqlx::Error> {
    Share::from_millionths(number(row, column)?).map_err(|source| undecodable(column, source))
}

/// A rollout's state.
pub(super) fn rollout_state(row: &Row) -> Result<RolloutState, sqlx::Error> {
    let word: &str = row.try_get("state")?;
    RolloutState::from_word(word).ok_or_else(|| undecodable("state", UnknownWord(word.to_owned())))
}

/// Counters by state.
pub(super) fn counts(row: &Row) -> Result<RowCounts, sqlx::Error> {
    Ok(RowCounts {
        pending: number(row, "pending")?,
        upgrading: number(row, "upgrading")?,
        succeeded: number(row, "succeeded")?,
        failed: number(row, "failed")?,
        skipped: number(row, "skipped")?,
        rolling_back: number(row, "rolling_back")?,
        rolled_back: number(row, "rolled_back")?,
    })
}

/// The pools that it moves through.
pub(super) async fn pools(
    conn: &mut Conn,
    id: &RolloutId,
) -> Result<BTreeMap<PoolId, Pool>, sqlx::Error> {
    let rows = query(
        "SELECT p.id, p.nodes, p.budget_ppm, p.disrupted, p.archived_at
         FROM rollout_pools r JOIN pools p ON p.id = r.pool_id WHERE r.rollout_id = $1 ORDER BY p.id",
    )
    .bind(id.as_str())
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| {
            let budget = Budget::new(
                number(row, "nodes")?,
                share(row, "budget_ppm")?,
                number(row, "disrupted")?,
            );
            let archived = moment_option(row, "archived_at")?.is_some();
            Ok((parsed(row, "id")?, Pool { budget, archived }))
        })
        .collect()
}

/// Nodes as a statement takes them.
pub(super) fn list<N: Borrow<NodeId> + Ord + Serialize>(
    nodes: &BTreeSet<N>,
) -> Result<String, sqlx::Error> {
    serde_json::to_string(nodes).map_err(|error| sqlx::Error::Encode(error.into()))
}

/// Whose place it is.
pub(super) fn place(row: &Row) -> Result<Place, sqlx::Error> {
    Ok(if row.try_get("shared")? {
        Place::Shared
    } else {
        Place::Alone
    })
}

/// Rows of a rollout, as this query finds them by the rollout's number and id, whose node still holds a place.
pub(super) async fn lingering(
    conn: &mut Conn,
    (found_by, number): (&'static str, i64),
    id: &RolloutId,
) -> Result<Vec<Lingering>, sqlx::Error> {
    let rows = query(found_by)
        .bind(number)
        .bind(id.as_str())
        .fetch_all(conn)
        .await?;
    rows.iter()
        .map(|row| {
            Ok(Lingering {
                pool: parsed(row, "pool_id")?,
                attempt: parsed_option(row, "attempt")?,
                place: place(row)?,
                node: node::node(row)?,
            })
        })
        .collect()
}

async fn troubles(conn: &mut Conn, open: Open<'_>) -> Result<BTreeMap<String, u32>, sqlx::Error> {
    let rows = query(queries::TROUBLES)
        .bind(open.number)
        .bind(open.wave)
        .fetch_all(conn)
        .await?;
    rows.iter()
        .map(|row| Ok((row.try_get("code")?, number(row, "nodes")?)))
        .collect()
}

/// Succeeded nodes of the open wave that have gone away since, and those that have restarted twice by themselves.
async fn regressed(
    conn: &mut Conn,
    open: Open<'_>,
) -> Result<(Vec<Lost>, BTreeSet<NodeId>), sqlx::Error> {
    let rows = query(queries::REGRESSED)
        .bind(open.number)
        .bind(open.wave)
        .bind(open.created_at.millis())
        .fetch_all(conn)
        .await?;
    let (mut lost, mut unsteady) = (Vec::new(), BTreeSet::new());
    for row in &rows {
        let node = parsed(row, "node_id")?;
        match moment_option(row, "since")? {
            Some(since) => lost.push(Lost { node, since }),
            None => drop(unsteady.insert(node)),
        }
    }
    Ok((lost, unsteady))
}

/// What its release offers now, by the bytes that were registered.
pub(super) fn offer_of(row: &Row, trust: &Trust) -> Result<Offer, sqlx::Error> {
    let Some(published) = row.try_get::<Option<&[u8]>>("published")? else {
        return Ok(Offer::NotRegistered);
    };
    Ok(match installed(published, trust) {
        Ok(manifest) => Offer::Good(Target::of(&manifest)),
        Err(refusal) => Offer::Distrusted(refusal.to_string()),
    })
}

/// Since when this process has had a gateway. Links of an older process say nothing about this one.
pub(super) async fn links_since(
    conn: &mut Conn,
    started_at: Moment,
) -> Result<Option<Moment>, sqlx::Error> {
    let since: Option<i64> =
        query_scalar("SELECT min(linked_since) FROM gateways WHERE linked = 1")
            .fetch_one(conn)
            .await?;
    Ok(since.map(|since| Moment::from_millis(since).max(started_at)))
}

//! Reads one rollout as a pass needs it, in the transaction of that pass.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bc_protocol::{
    id::{NodeId, PoolId, RolloutId},
    release::Trust,
    sequence::Sequence,
    share::Share,
};

use super::{
    StoreError, freeze,
    node::{self, UnknownWord},
    pending::{self, Turn},
    queries,
};
use crate::{
    api::rollout::{RolloutState, RowCounts},
    clock::Moment,
    db::{
        Conn, Row,
        column::{
            moment, moment_option, number, number_option, parsed, parsed_option, undecodable,
        },
        query, query_scalar,
    },
    release::store::{ReleaseError, by_version},
    rollout::{
        budget::Budget,
        snapshot::{
            Context, Flight, Head, Lingering, Lost, Offer, Origin, Place, Pool, Scope, Snapshot,
            Tally, Terms, Unseen,
        },
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

/// Reads a rollout; none if there is none of that id.
pub(crate) async fn snapshot(
    conn: &mut Conn,
    id: &RolloutId,
    around: Surroundings<'_>,
) -> Result<Option<Snapshot>, StoreError> {
    let row = query(
        "SELECT r.*, d.sequence FROM rollouts r JOIN daemon_releases d ON d.version = r.version WHERE r.id = $1",
    )
    .bind(id.as_str())
    .fetch_optional(&mut *conn)
    .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let (terms, head) = (terms(&row)?, head(&row)?);
    let tenant = parsed(&row, "tenant")?;
    let open = Open {
        id,
        wave: head.wave,
        created_at: moment(&row, "created_at")?,
    };
    let (waves, pools) = (waves(conn, id).await?, pools(conn, id).await?);
    let flights = flights(conn, id).await?;
    let turn = Turn {
        id,
        wave: head.wave,
        scope: terms.scope,
        waiting: open_tally(&waves, &head).rows.pending,
        pools: &pools,
        flights: &flights,
    };
    let (pending, extent) = pending::pending(conn, turn).await?;
    Ok(Some(Snapshot {
        revision: number(&row, "revision")?,
        waves,
        pools,
        flights,
        unseen: Unseen::default(),
        pending,
        extent,
        lingering: lingering(conn, queries::LINGERING, id).await?,
        troubles: troubles(conn, open).await?,
        lost: lost(conn, open).await?,
        unsteady: unsteady(conn, open).await?,
        offer: offer(conn, &terms, around.trust).await?,
        freeze: freeze::read(conn, &tenant).await?,
        context: Context {
            started_at: around.started_at,
            links_since: links_since(conn, around.started_at).await?,
            offline_grace: around.offline_grace,
        },
        terms,
        head,
    }))
}

fn open_tally(waves: &[Tally], head: &Head) -> Tally {
    let open = usize::try_from(head.wave).ok();
    open.and_then(|open| waves.get(open))
        .copied()
        .unwrap_or_default()
}

/// The wave that is open.
#[derive(Clone, Copy)]
struct Open<'a> {
    id: &'a RolloutId,
    wave: u32,
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

fn head(row: &Row) -> Result<Head, sqlx::Error> {
    Ok(Head {
        state: rollout_state(row)?,
        reason: row.try_get("reason")?,
        wave: number(row, "wave")?,
        wave_settled_at: moment_option(row, "wave_settled_at")?,
        accepted_failures: number(row, "accepted_failures")?,
        accepted_untried: row.try_get("accepted_untried")?,
        finished_at: moment_option(row, "finished_at")?,
    })
}

/// A rollout's state.
pub(super) fn rollout_state(row: &Row) -> Result<RolloutState, sqlx::Error> {
    let word: &str = row.try_get("state")?;
    RolloutState::from_word(word).ok_or_else(|| undecodable("state", UnknownWord(word.to_owned())))
}

async fn waves(conn: &mut Conn, id: &RolloutId) -> Result<Vec<Tally>, sqlx::Error> {
    let rows = query("SELECT * FROM rollout_waves WHERE rollout_id = $1 ORDER BY wave")
        .bind(id.as_str())
        .fetch_all(conn)
        .await?;
    rows.iter()
        .map(|row| {
            Ok(Tally {
                started: number(row, "started")?,
                rows: counts(row)?,
            })
        })
        .collect()
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

async fn flights(conn: &mut Conn, id: &RolloutId) -> Result<Vec<Flight>, sqlx::Error> {
    let rows = query(queries::FLIGHTS)
        .bind(id.as_str())
        .fetch_all(conn)
        .await?;
    rows.iter().map(flight).collect()
}

fn flight(row: &Row) -> Result<Flight, sqlx::Error> {
    let sequence = number_option::<u64>(row, "from_sequence")?
        .map(Sequence::new)
        .transpose()
        .map_err(|source| undecodable("from_sequence", source))?;
    Ok(Flight {
        row: node::row(row)?,
        attempt: parsed(row, "attempt")?,
        from: parsed_option(row, "from_version")?.map(|version| Origin { version, sequence }),
        deadline: moment(row, "deadline_at")?,
        shown: node::trouble(row)?,
        place: place(row)?,
        node: node::node(row)?,
    })
}

/// Whose place it is.
pub(super) fn place(row: &Row) -> Result<Place, sqlx::Error> {
    Ok(if row.try_get("shared")? {
        Place::Shared
    } else {
        Place::Alone
    })
}

/// Rows of a rollout, as this query finds them, whose node still holds a place.
pub(super) async fn lingering(
    conn: &mut Conn,
    found_by: &'static str,
    id: &RolloutId,
) -> Result<Vec<Lingering>, sqlx::Error> {
    let rows = query(found_by).bind(id.as_str()).fetch_all(conn).await?;
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
        .bind(open.id.as_str())
        .bind(open.wave)
        .fetch_all(conn)
        .await?;
    rows.iter()
        .map(|row| Ok((row.try_get("code")?, number(row, "nodes")?)))
        .collect()
}

async fn lost(conn: &mut Conn, open: Open<'_>) -> Result<Vec<Lost>, sqlx::Error> {
    let rows = query(queries::LOST)
        .bind(open.id.as_str())
        .bind(open.wave)
        .bind(open.created_at.millis())
        .fetch_all(conn)
        .await?;
    rows.iter()
        .map(|row| {
            Ok(Lost {
                node: parsed(row, "node_id")?,
                since: moment(row, "since")?,
            })
        })
        .collect()
}

async fn unsteady(conn: &mut Conn, open: Open<'_>) -> Result<BTreeSet<NodeId>, sqlx::Error> {
    let rows = query(queries::UNSTEADY)
        .bind(open.id.as_str())
        .bind(open.wave)
        .bind(open.created_at.millis())
        .fetch_all(conn)
        .await?;
    rows.iter().map(|row| parsed(row, "node_id")).collect()
}

/// What its release offers now.
pub(super) async fn offer(
    conn: &mut Conn,
    terms: &Terms,
    trust: &Trust,
) -> Result<Offer, ReleaseError> {
    match by_version(conn, &terms.version, trust).await {
        Ok(Some(release)) => Ok(Offer::Good(Target::of(&release.manifest))),
        Ok(None) => Ok(Offer::NotRegistered),
        Err(ReleaseError::Distrusted { refusal, .. }) => Ok(Offer::Distrusted(refusal.to_string())),
        Err(error) => Err(error),
    }
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

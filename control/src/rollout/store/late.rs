//! Late nodes' rows: what a pass over them reads, and what follows when a rollout completes.
//!
//! Every query begins at an index of what has changed: rows in flight, places that are held, nodes whose turn it is.
//! None reads a pool's nodes.

mod apply;
mod queries;

use bc_protocol::{
    id::{PoolId, RolloutId},
    sequence::Sequence,
    version::Version,
};

pub(crate) use apply::apply;

use super::{
    StoreError, freeze,
    load::{self, Surroundings},
    node,
};
use crate::{
    api::rollout::{LateNode, RowState},
    clock::Moment,
    db::{
        Conn, Db, Row, Tx,
        column::{moment, moment_option, number, parsed, parsed_option},
        query, query_scalar,
    },
    rollout::{
        late::{Candidate, LateRow, LateSnapshot, Lateness, Runs},
        limits,
        snapshot::{Context, Flight, Origin, Pool, Terms},
        waker::{Extent, News},
    },
};

/// Completed rollouts whose late nodes a pass can change. Pools that nothing has completed over leave the queue.
pub(crate) async fn due(db: &Db, news: &News) -> Result<Vec<RolloutId>, sqlx::Error> {
    let asked = match news.extent {
        Extent::Unknown => query(queries::DUE),
        Extent::Named => query(queries::DUE_AROUND).bind(load::list(&news.nodes)?),
    };
    let rows = asked.fetch_all(db.reader()).await?;
    let mut ids = Vec::new();
    let mut idle: Vec<String> = Vec::new();
    for row in &rows {
        match parsed_option::<RolloutId>(row, "rollout_id")? {
            Some(id) => ids.push(id),
            None => idle.push(row.try_get("pool_id")?),
        }
    }
    if !idle.is_empty() {
        let mut tx = db.begin().await?;
        for pool in idle {
            // Again under the lock: a rollout that has completed since has made its nodes ready.
            query(queries::PARK_POOL)
                .bind(pool)
                .execute(&mut tx)
                .await?;
        }
        tx.commit().await?;
    }
    ids.sort();
    ids.dedup();
    Ok(ids)
}

/// Reads what a pass over a rollout's late nodes may know; none unless it has completed and was not narrowed.
pub(crate) async fn snapshot(
    conn: &mut Conn,
    id: &RolloutId,
    around: Surroundings<'_>,
) -> Result<Option<LateSnapshot>, StoreError> {
    let row = query(queries::HEAD)
        .bind(id.as_str())
        .fetch_optional(&mut *conn)
        .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let (terms, tenant) = (load::terms(&row)?, parsed(&row, "tenant")?);
    let created_at = moment(&row, "created_at")?;
    let pools = load::pools(conn, id).await?;
    let freeze = freeze::read(conn, &tenant).await?;
    let mut candidates = Vec::new();
    // Nobody is looked at in vain.
    if freeze.is_none() {
        for (pool, unended) in its_pools(conn, id, created_at).await? {
            let room = pools.get(&pool).map_or(0, room);
            let asked = Asked {
                terms: &terms,
                created_at,
                pool: &pool,
                unended,
            };
            candidates.extend(asked.ready(conn, room).await?);
        }
    }
    Ok(Some(LateSnapshot {
        revision: number(&row, "revision")?,
        flights: flights(conn, id).await?,
        lingering: load::lingering(conn, (queries::LINGERING, 0), id).await?,
        offer: load::offer_of(&row, around.trust)?,
        context: Context {
            started_at: around.started_at,
            links_since: load::links_since(conn, around.started_at).await?,
            offline_grace: around.offline_grace,
        },
        terms,
        pools,
        candidates,
        freeze,
    }))
}

/// A node that may be late, whether it is ready or not.
pub(crate) async fn candidate(
    conn: &mut Conn,
    late: &LateSnapshot,
    (node, pool): (&bc_protocol::id::NodeId, &PoolId),
) -> Result<Option<Candidate>, sqlx::Error> {
    let id = &late.terms.id;
    let created_at: i64 = query_scalar("SELECT created_at FROM rollouts WHERE id = $1")
        .bind(id.as_str())
        .fetch_one(&mut *conn)
        .await?;
    let created_at = Moment::from_millis(created_at);
    let newest: Option<i64> = query_scalar(queries::IS_NEWEST)
        .bind(id.as_str())
        .bind(created_at.millis())
        .bind(pool.as_str())
        .fetch_optional(&mut *conn)
        .await?;
    if newest.is_none() {
        return Ok(None);
    }
    let asked = Asked {
        terms: &late.terms,
        created_at,
        pool,
        unended: false,
    };
    let row = query(queries::CANDIDATE)
        .bind(id.as_str())
        .bind(pool.as_str())
        .bind(created_at.millis())
        .bind(node.as_str())
        .fetch_optional(conn)
        .await?;
    row.map(|row| asked.candidate(&row)).transpose()
}

fn room(pool: &Pool) -> u32 {
    pool.budget.max().saturating_sub(pool.budget.disrupted())
}

/// The pools whose ready nodes converge on this rollout, and whether a newer one over them is under way.
async fn its_pools(
    conn: &mut Conn,
    id: &RolloutId,
    created_at: Moment,
) -> Result<Vec<(PoolId, bool)>, sqlx::Error> {
    let rows = query(queries::POOLS)
        .bind(id.as_str())
        .bind(created_at.millis())
        .fetch_all(conn)
        .await?;
    rows.iter()
        .map(|row| Ok((parsed(row, "pool_id")?, row.try_get("unended")?)))
        .collect()
}

/// What candidates are asked for.
struct Asked<'a> {
    terms: &'a Terms,
    created_at: Moment,
    pool: &'a PoolId,
    unended: bool,
}

impl Asked<'_> {
    /// The pool's nodes whose turn it is: as many as there is room for, and some in case they cannot go.
    async fn ready(&self, conn: &mut Conn, room: u32) -> Result<Vec<Candidate>, sqlx::Error> {
        let rows = query(queries::READY)
            .bind(self.terms.id.as_str())
            .bind(self.pool.as_str())
            .bind(self.created_at.millis())
            .bind(room.saturating_add(limits::LATE_SPARE))
            .fetch_all(conn)
            .await?;
        rows.iter().map(|row| self.candidate(row)).collect()
    }

    fn candidate(&self, row: &Row) -> Result<Candidate, sqlx::Error> {
        Ok(Candidate {
            pool: parsed(row, "pool_id")?,
            lateness: self.lateness(row)?,
            tries: number(row, "tries")?,
            disrupted_by: row.try_get("disrupted_by")?,
            runs: self.runs(row)?,
            node: node::node(row)?,
        })
    }

    /// A row of the same rollout has its say, unless an operator wants the node tried again.
    fn lateness(&self, row: &Row) -> Result<Lateness, sqlx::Error> {
        let late_state: Option<&str> = row.try_get("late_state")?;
        let asked_again = late_state == Some(RowState::Pending.word());
        let newer: bool = row.try_get("touched_since")?;
        let same: bool = row.try_get("touched_by_it")?;
        Ok(if !newer && (asked_again || !same) {
            Lateness::Late
        } else if self.unended {
            Lateness::Settled
        } else {
            Lateness::Done
        })
    }

    /// The sequence tells the release from a package's own binary of that name.
    fn runs(&self, row: &Row) -> Result<Runs, sqlx::Error> {
        let Some(version) = parsed_option::<Version>(row, "version")? else {
            return Ok(Runs::Other);
        };
        let sequence = Sequence::new(number(row, "sequence")?);
        let on_trial: Option<&str> = row.try_get("trial_attempt")?;
        let is_it = version == self.terms.version
            && sequence == Ok(self.terms.sequence)
            && on_trial.is_none();
        Ok(if is_it { Runs::Release } else { Runs::Other })
    }
}

async fn flights(conn: &mut Conn, id: &RolloutId) -> Result<Vec<Flight<LateRow>>, sqlx::Error> {
    let rows = query(queries::FLIGHTS)
        .bind(id.as_str())
        .fetch_all(conn)
        .await?;
    rows.iter().map(flight).collect()
}

fn flight(row: &Row) -> Result<Flight<LateRow>, sqlx::Error> {
    Ok(Flight {
        row: LateRow {
            node: parsed(row, "node_id")?,
            pool: parsed(row, "pool_id")?,
            state: node::state(row)?,
        },
        attempt: parsed(row, "attempt")?,
        from: parsed_option(row, "from_version")?.map(|version| Origin {
            version,
            // Nobody rolls late nodes back.
            sequence: None,
        }),
        deadline: moment(row, "deadline_at")?,
        shown: node::trouble(row)?,
        place: load::place(row)?,
        node: node::node(row)?,
    })
}

/// A rollout's late rows, as the API gives them.
pub(crate) async fn listed(conn: &mut Conn, id: &RolloutId) -> Result<Vec<LateNode>, sqlx::Error> {
    let rows = query(queries::LISTED)
        .bind(id.as_str())
        .fetch_all(conn)
        .await?;
    rows.iter()
        .map(|row| {
            Ok(LateNode {
                node_id: parsed(row, "node_id")?,
                pool_id: parsed(row, "pool_id")?,
                state: node::state(row)?,
                from_version: parsed_option(row, "from_version")?,
                started_at: moment_option(row, "started_at")?,
                finished_at: moment_option(row, "finished_at")?,
                error: node::trouble(row)?.map(|trouble| trouble.to_string()),
            })
        })
        .collect()
}

/// What a rollout that completes leaves: those that it brought the release to are not late, those that it passed over
/// are, and all others of its pools that may be are looked at again.
pub(crate) async fn completed(tx: &mut Tx, id: &RolloutId) -> Result<(), sqlx::Error> {
    let narrowed: bool = query_scalar("SELECT narrowed FROM rollouts WHERE id = $1")
        .bind(id.as_str())
        .fetch_one(&mut *tx)
        .await?;
    if narrowed {
        return Ok(());
    }
    for statement in [
        queries::FORGET_TOUCHED,
        queries::ADD_SKIPPED,
        queries::LOOK_AGAIN,
    ] {
        query(statement).bind(id.as_str()).execute(&mut *tx).await?;
    }
    Ok(())
}

/// Nodes that a new rollout leaves out because they are in maintenance: they are late once it has completed.
pub(crate) async fn left_out(tx: &mut Tx, pool: &PoolId) -> Result<(), sqlx::Error> {
    query(queries::ADD_LEFT_OUT)
        .bind(pool.as_str())
        .execute(tx)
        .await?;
    Ok(())
}

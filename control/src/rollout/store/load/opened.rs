//! What a rollout's own row says, and all that stands in one row of whatever is around it: one statement, since every pass
//! begins with it.

use std::collections::{BTreeMap, BTreeSet};

use bc_protocol::{
    id::{NodeId, PoolId, RolloutId},
    share::Share,
};

use super::{Look, Open, StoreError, Surroundings, counts, list, offer_of, rollout_state, terms};
use crate::{
    db::{
        Conn, Row,
        column::{moment, moment_option, number, undecodable},
        query,
    },
    rollout::{
        budget::Budget,
        limits,
        snapshot::{Context, Freeze, Head, Offer, Pool, Tally, Terms, Unseen},
        store::{freeze, queries},
    },
};

/// What one reading gives.
pub(super) struct Opened<'a> {
    pub(super) revision: u64,
    pub(super) open: Open<'a>,
    pub(super) terms: Terms,
    pub(super) head: Head,
    pub(super) waves: Vec<Tally>,
    pub(super) pools: BTreeMap<PoolId, Pool>,
    /// Rows in flight of nodes that the look does not name; where it names many, of all.
    pub(super) others: Unseen,
    /// Whether the node of any settled row holds a place.
    pub(super) lingers: bool,
    pub(super) offer: Offer,
    pub(super) freeze: Option<Freeze>,
    pub(super) context: Context,
}

impl Opened<'_> {
    /// The open wave's counters.
    pub(super) fn tally(&self) -> Tally {
        let open = usize::try_from(self.head.wave).ok();
        open.and_then(|open| self.waves.get(open))
            .copied()
            .unwrap_or_default()
    }
}

/// None if there is no rollout of that id.
pub(super) async fn opened<'a>(
    conn: &mut Conn,
    id: &'a RolloutId,
    (look, around): (Look<'_>, Surroundings<'_>),
) -> Result<Option<Opened<'a>>, StoreError> {
    let nobody = BTreeSet::new();
    let rows = query(queries::OPENED)
        .bind(id.as_str())
        .bind(list(named(look, &nobody))?)
        .fetch_all(conn)
        .await?;
    // All but the counters stands in the first wave's.
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let head = head(row)?;
    Ok(Some(Opened {
        revision: number(row, "revision")?,
        open: Open {
            id,
            number: row.try_get("number")?,
            wave: head.wave,
            created_at: moment(row, "created_at")?,
        },
        terms: terms(row)?,
        head,
        waves: rows.iter().map(tally).collect::<Result<_, _>>()?,
        pools: pools(row.try_get::<Option<&str>>("pools")?.unwrap_or_default())?,
        others: Unseen {
            reachable: row.try_get("reachable")?,
            deadline: moment_option(row, "deadline_at")?,
        },
        lingers: row.try_get("lingers")?,
        offer: offer_of(row, around.trust)?,
        freeze: freeze::of_row(row)?,
        context: Context {
            started_at: around.started_at,
            links_since: moment_option(row, "linked_since")?
                .map(|since| since.max(around.started_at)),
            offline_grace: around.offline_grace,
        },
    }))
}

/// Nodes that are told apart from the others in flight at once.
fn named<'a>(look: Look<'a>, nobody: &'a BTreeSet<NodeId>) -> &'a BTreeSet<NodeId> {
    match look {
        Look::News { nodes, .. } | Look::Found { nodes, .. }
            if nodes.len() <= limits::TOLD_APART_MAX =>
        {
            nodes
        }
        Look::Everything | Look::News { .. } | Look::Found { .. } => nobody,
    }
}

fn head(row: &Row) -> Result<Head, sqlx::Error> {
    Ok(Head {
        state: rollout_state(row)?,
        reason: row.try_get("reason")?,
        paused_reason: row.try_get("paused_reason")?,
        wave: number(row, "wave")?,
        wave_settled_at: moment_option(row, "wave_settled_at")?,
        accepted_failures: number(row, "accepted_failures")?,
        accepted_untried: row.try_get("accepted_untried")?,
        finished_at: moment_option(row, "finished_at")?,
    })
}

fn tally(row: &Row) -> Result<Tally, sqlx::Error> {
    Ok(Tally {
        started: number(row, "started")?,
        rows: counts(row)?,
    })
}

/// Pools as the statement gives them: in one text, since they are many and the rest is not.
fn pools(text: &str) -> Result<BTreeMap<PoolId, Pool>, sqlx::Error> {
    let entries = text.split(',').filter(|entry| !entry.is_empty());
    entries.map(pool).collect()
}

fn pool(entry: &str) -> Result<(PoolId, Pool), sqlx::Error> {
    let unreadable = || undecodable("pools", UnreadablePool(entry.to_owned()));
    let mut words = entry.split(' ');
    let mut word = || words.next().ok_or_else(unreadable);
    let id = word()?.parse().map_err(|_| unreadable())?;
    let mut count = || word()?.parse::<u32>().map_err(|_| unreadable());
    let (nodes, budget_ppm, disrupted, archived) = (count()?, count()?, count()?, count()?);
    let share = Share::from_millionths(budget_ppm).map_err(|_| unreadable())?;
    let pool = Pool {
        budget: Budget::new(nodes, share, disrupted),
        archived: archived != 0,
    };
    Ok((id, pool))
}

/// A pool that is not written as the statement writes them.
#[derive(Debug, thiserror::Error)]
#[error("expected a pool with four counts, found \"{0}\"")]
struct UnreadablePool(String);

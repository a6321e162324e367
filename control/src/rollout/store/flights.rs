//! The rows in flight that a pass looks at: those of which something is new and those that are overdue, or all.

use std::collections::{BTreeMap, BTreeSet};

use bc_protocol::{
    id::{NodeId, PoolId},
    sequence::Sequence,
};

use super::{
    StoreError,
    load::{Look, Open, list, place},
    node, queries,
};
use crate::{
    db::{
        Conn, Row,
        column::{moment, moment_option, number_option, parsed, parsed_option, undecodable},
        query,
    },
    rollout::{
        limits, settle,
        snapshot::{Flight, Origin, Terms, Unseen},
    },
};

/// The rows in flight that a pass looks at, and what is known of the others.
pub(super) async fn seen(
    conn: &mut Conn,
    open: Open<'_>,
    look: Look<'_>,
    (in_flight, others): (u32, Unseen),
) -> Result<(Vec<Flight>, Unseen), StoreError> {
    let (nodes, now) = match look {
        Look::Everything => {
            let rows = query(queries::FLIGHTS)
                .bind(open.number)
                .bind(open.id.as_str())
                .fetch_all(conn)
                .await?;
            let flights = rows.iter().map(flight).collect::<Result<_, _>>()?;
            return Ok((flights, Unseen::default()));
        }
        Look::News { nodes, now } | Look::Found { nodes, now } => (nodes, now),
    };
    let overdue = others.deadline.is_some_and(|at| at <= now);
    let asked = if overdue {
        query(queries::FLIGHTS_OF_AND_OVERDUE)
    } else {
        query(queries::FLIGHTS_OF)
    };
    let mut asked = asked
        .bind(open.number)
        .bind(open.id.as_str())
        .bind(list(nodes)?);
    if overdue {
        asked = asked.bind(now.millis()).bind(limits::OVERDUE_AT_ONCE);
    }
    let rows = asked.fetch_all(&mut *conn).await?;
    let flights: Vec<Flight> = rows.iter().map(flight).collect::<Result<_, _>>()?;
    if u32::try_from(flights.len()).is_ok_and(|seen| seen >= in_flight) {
        return Ok((flights, Unseen::default()));
    }
    if !overdue && nodes.len() <= limits::TOLD_APART_MAX {
        return Ok((flights, others));
    }
    // Those that are overdue are seen too; and of many nodes nothing was told apart.
    let seen = flights.iter().map(|flight| flight.row.node.clone());
    let unseen = others_than(conn, open, &seen.collect()).await?;
    Ok((flights, unseen))
}

/// What is known of rows in flight of other nodes than these.
async fn others_than(
    conn: &mut Conn,
    open: Open<'_>,
    nodes: &BTreeSet<NodeId>,
) -> Result<Unseen, sqlx::Error> {
    let others = query(queries::OTHERS)
        .bind(open.number)
        .bind(list(nodes)?)
        .fetch_one(conn)
        .await?;
    Ok(Unseen {
        reachable: others.try_get("reachable")?,
        deadline: moment_option(&others, "deadline_at")?,
    })
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

/// How many flights of each pool end by what their nodes say.
pub(super) fn landing(flights: &[Flight], terms: &Terms) -> BTreeMap<PoolId, u32> {
    let mut landing: BTreeMap<PoolId, u32> = BTreeMap::new();
    for flight in flights {
        match settle::judge(flight.row.state, flight, terms, settle::Time::Left) {
            settle::Verdict::GoesOn | settle::Verdict::Shows(_) => {}
            settle::Verdict::Succeeded
            | settle::Verdict::RolledBack
            | settle::Verdict::Failed(_)
            | settle::Verdict::Skipped(_) => {
                let nodes = landing.entry(flight.row.pool.clone()).or_default();
                *nodes = nodes.saturating_add(1);
            }
        }
    }
    landing
}

//! The one door through which facts enter control.
//!
//! Takes what a gateway reports, in any order and any number of times, and gives rows that hold the newest of it. A
//! fact counts only if its pair of connection and report number is greater than the stored one, in the UPDATE's own
//! condition. It decides nothing about rollouts: their passes read these rows. Facts of many nodes are written together,
//! each node's in their order.

mod before;
mod groups;
mod notice;
mod restart;
mod row;

use std::collections::{BTreeMap, BTreeSet};

use bc_protocol::{
    id::{GatewayId, NodeId},
    link::{Event, NodeReport, SessionClosed, SessionOpened},
};
use thiserror::Error;

use crate::{
    clock::Moment,
    db::{Tx, column::signed, contention::lock_nodes, query, query_scalar},
    fleet::late,
};
use before::{Before, Known};
use groups::Group;
use notice::End;
use row::{Presence, Reported};

/// What a batch of facts did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Applied {
    /// Nodes of which something is known now that was not before.
    pub changed: BTreeSet<NodeId>,
    /// Sessions that a newer connection of the same node has replaced. Whoever holds one closes it and names the
    /// winning number, so that a node whose counter was lost continues above it.
    pub superseded: Vec<Superseded>,
    /// Nodes that came over from another gateway, which does not know, with the counters of their sessions.
    pub moved: BTreeMap<NodeId, u64>,
    /// Nodes that are removed, or that this control has never known: their sessions are to be closed.
    pub strangers: BTreeSet<NodeId>,
}

/// A session that lost to a newer one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superseded {
    /// Whose session.
    pub node: NodeId,
    /// Its connection counter.
    pub connect_seq: u64,
    /// The counter of the session that counts.
    pub winning: u64,
}

/// Why facts were not applied. The batch is not acknowledged, so that it comes again.
#[derive(Debug, Error)]
pub(crate) enum FactsError {
    /// The database failed.
    #[error("the database failed")]
    Sql(#[from] sqlx::Error),
    /// The gateway has dialled again.
    #[error("expected facts of the gateway's newest link {newest}, found some of link {link}")]
    Replaced {
        /// Where they came from.
        link: u64,
        /// Its newest.
        newest: i64,
    },
    /// The facts cannot be written as JSON.
    #[error("facts of {node} cannot be written")]
    Encoding {
        /// Whose facts.
        node: NodeId,
        /// Why.
        source: serde_json::Error,
    },
}

/// A gateway's newest link. Nobody begins a newer one until the transaction ends that found it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newest<'a> {
    gateway: &'a GatewayId,
    link: i64,
}

/// Refuses the facts of a link that a newer one of the same gateway has replaced, perhaps to another process.
pub(crate) async fn require_newest<'a>(
    tx: &mut Tx,
    gateway: &'a GatewayId,
    link: u64,
) -> Result<Newest<'a>, FactsError> {
    let newest = newest(tx, gateway).await?;
    if newest.link == signed(link) {
        return Ok(newest);
    }
    Err(FactsError::Replaced {
        link,
        newest: newest.link,
    })
}

/// Applies facts of a gateway's newest link, whichever that is.
pub(crate) async fn apply(
    tx: &mut Tx,
    gateway: &GatewayId,
    events: &[Event],
    now: Moment,
) -> Result<Applied, FactsError> {
    let newest = newest(tx, gateway).await?;
    apply_from(tx, newest, events, now).await
}

/// Applies a link's facts, each node's in order, in the caller's transaction.
pub(crate) async fn apply_from(
    tx: &mut Tx,
    Newest { gateway, link }: Newest<'_>,
    events: &[Event],
    now: Moment,
) -> Result<Applied, FactsError> {
    let from = Source { gateway, link, now };
    let mut applied = Applied::default();
    lock_nodes(tx, &named_by(events)).await?;
    for group in groups::of(events) {
        match group {
            Group::Opened(opened) => open_all(tx, from, &opened, &mut applied).await?,
            Group::Reports(reports) => report_all(tx, from, &reports, &mut applied).await?,
            Group::Closed(closed) => close_all(tx, from, &closed, &mut applied).await?,
            Group::Listed => listed(tx, from, &mut applied).await?,
        }
    }
    Ok(applied)
}

fn named_by(events: &[Event]) -> BTreeSet<NodeId> {
    let nodes = events.iter().filter_map(|event| match event {
        Event::Opened(opened) => Some(&opened.node),
        Event::Closed(closed) => Some(&closed.node),
        Event::Report(report) => Some(&report.node),
        Event::Listed | Event::Ended(_) => None,
    });
    nodes.cloned().collect()
}

/// Begins a gateway's link: sessions that it does not name on this one before `Listed` have ended. To be called at
/// every LinkHello, before the link's first batch and after the end of the gateway's older link. Gives the number to
/// end it by.
pub(crate) async fn link_opened(
    tx: &mut Tx,
    gateway: &GatewayId,
    now: Moment,
) -> Result<Option<u64>, sqlx::Error> {
    let link: Option<i64> = query_scalar(
        "UPDATE gateways SET link = link + 1, linked = 1, linked_since = $2 WHERE id = $1
         RETURNING link",
    )
    .bind(gateway.as_str())
    .bind(now.millis())
    .fetch_optional(&mut **tx)
    .await?;
    Ok(link.and_then(|link| u64::try_from(link).ok()))
}

/// Whether a gateway is linked, and no link of it begins or ends until the transaction does.
pub(crate) async fn is_linked(tx: &mut Tx, gateway: &GatewayId) -> Result<bool, sqlx::Error> {
    let linked: Option<bool> = query_scalar("SELECT linked FROM gateways WHERE id = $1")
        .bind(gateway.as_str())
        .for_update()
        .fetch_optional(&mut **tx)
        .await?;
    Ok(linked.unwrap_or(false))
}

/// Ends a gateway's link, unless it has a newer one already. Its sessions stay as they are: whether they live on is
/// only known when it is linked again.
pub(crate) async fn link_closed(
    tx: &mut Tx,
    gateway: &GatewayId,
    link: u64,
    now: Moment,
) -> Result<(), sqlx::Error> {
    query(
        "UPDATE gateways SET linked = 0, linked_since = $3 WHERE id = $1 AND link = $2 AND linked = 1",
    )
    .bind(gateway.as_str())
    .bind(signed(link))
    .bind(now.millis())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Where facts come from.
#[derive(Clone, Copy, Debug)]
struct Source<'a> {
    gateway: &'a GatewayId,
    link: i64,
    now: Moment,
}

/// One session, as facts name it.
#[derive(Clone, Copy, Debug)]
struct Session<'a> {
    node: &'a NodeId,
    id: &'a str,
    connect_seq: u64,
}

async fn newest<'a>(tx: &mut Tx, gateway: &'a GatewayId) -> Result<Newest<'a>, sqlx::Error> {
    let link: Option<i64> = query_scalar("SELECT link FROM gateways WHERE id = $1")
        .bind(gateway.as_str())
        .for_share()
        .fetch_optional(&mut **tx)
        .await?;
    let link = link.unwrap_or(0);
    Ok(Newest { gateway, link })
}

/// Sessions of different nodes that have opened.
async fn open_all(
    tx: &mut Tx,
    from: Source<'_>,
    opened: &[&SessionOpened],
    applied: &mut Applied,
) -> Result<(), FactsError> {
    let known = Known::of(tx, opened.iter().map(|opened| &opened.node)).await?;
    let mut counting = Vec::new();
    for opened in opened {
        let session = Session {
            node: &opened.node,
            id: opened.session.as_str(),
            connect_seq: opened.connect_seq,
        };
        if let Some(before) = known.admitted(session, applied) {
            counting.push((*opened, session, before));
        }
    }
    let reports = counting
        .iter()
        .map(|(opened, session, _)| Reported::new(*session, opened.report, &opened.facts))
        .collect::<Result<_, _>>()?;
    let newer = row::store_newer(tx, from, reports).await?;
    let named = counting
        .iter()
        .map(|(opened, session, _)| (*session, opened.upgrade_only));
    let presences = row::name_sessions(tx, from, named.collect()).await?;
    let labels = counting
        .iter()
        .map(|(opened, session, before)| (*session, &opened.labels, *before));
    row::refresh_labels(tx, labels.collect()).await?;
    let mut ends: BTreeMap<&NodeId, End<'_>> = counting
        .iter()
        .filter(|(opened, ..)| newer.contains_key(&opened.node))
        .filter_map(|(opened, _, before)| Some((&opened.node, End::of(before, &opened.facts)?)))
        .collect();
    keep_untold(tx, &mut ends).await?;
    for (opened, _, before) in &counting {
        let node = &opened.node;
        // Whoever was named on a link is pushed its spec there, also where nothing about it is new.
        applied.changed.insert(node.clone());
        if before.was_with_another(from.gateway) {
            applied.moved.insert(node.clone(), opened.connect_seq);
        }
        if let Some(end) = ends.remove(node) {
            notice::ended(tx, end, from.now);
        }
        restart::note(tx, before, opened, from.now).await?;
        if let Some(now) = presences.get(node) {
            notice::presence(tx, before, *now, from.now);
        }
    }
    let nodes = counting.iter().map(|(opened, ..)| &opened.node);
    Ok(late::look_again_all(tx, nodes).await?)
}

/// What different nodes report.
async fn report_all(
    tx: &mut Tx,
    from: Source<'_>,
    reports: &[&NodeReport],
    applied: &mut Applied,
) -> Result<(), FactsError> {
    let known = Known::of(tx, reports.iter().map(|report| &report.node)).await?;
    let (mut counting, mut reported) = (Vec::new(), Vec::new());
    for report in reports {
        let session = Session {
            node: &report.node,
            id: report.session.as_str(),
            connect_seq: report.connect_seq,
        };
        if let Some(before) = known.admitted(session, applied) {
            counting.push((*report, before));
            reported.push(Reported::new(session, report.report, &report.facts)?);
        }
    }
    let newer = row::store_newer(tx, from, reported).await?;
    let mut ends: BTreeMap<&NodeId, End<'_>> = counting
        .iter()
        .filter(|(report, _)| newer.contains_key(&report.node))
        .filter_map(|(report, before)| Some((&report.node, End::of(before, &report.facts)?)))
        .collect();
    keep_untold(tx, &mut ends).await?;
    let mut let_go = Vec::new();
    for (report, before) in counting {
        let Some(now) = newer.get(&report.node) else {
            continue;
        };
        applied.changed.insert(report.node.clone());
        if before.held && report.facts.held.is_none() {
            let_go.push(&report.node);
        }
        if let Some(end) = ends.remove(&report.node) {
            notice::ended(tx, end, from.now);
        }
        notice::presence(tx, before, *now, from.now);
    }
    Ok(late::look_again_all(tx, let_go.into_iter()).await?)
}

/// Leaves the ends of attempts that nobody was told of.
async fn keep_untold(
    tx: &mut Tx,
    ends: &mut BTreeMap<&NodeId, End<'_>>,
) -> Result<(), sqlx::Error> {
    let all: Vec<End<'_>> = ends.values().copied().collect();
    let untold = notice::untold(tx, &all).await?;
    ends.retain(|node, _| untold.contains(*node));
    Ok(())
}

/// Sessions of different nodes that have closed.
async fn close_all(
    tx: &mut Tx,
    from: Source<'_>,
    closed: &[&SessionClosed],
    applied: &mut Applied,
) -> Result<(), FactsError> {
    let known = Known::of(tx, closed.iter().map(|closed| &closed.node)).await?;
    let ended: Vec<Session<'_>> = closed
        .iter()
        .filter(|closed| known.before(&closed.node).is_some())
        .map(|closed| Session {
            node: &closed.node,
            id: closed.session.as_str(),
            connect_seq: closed.connect_seq,
        })
        .collect();
    row::end_sessions(tx, &ended).await?;
    for node in row::go_offline(tx, &ended, from.now).await? {
        if let Some(before) = known.before(&node) {
            notice::presence(tx, before, Presence::Offline, from.now);
        }
        applied.changed.insert(node);
    }
    Ok(())
}

/// Everybody has been named: whom this gateway held and has not named is gone.
async fn listed(tx: &mut Tx, from: Source<'_>, applied: &mut Applied) -> Result<(), FactsError> {
    let gone = row::unnamed_go_offline(tx, from).await?;
    let known = Known::of(tx, gone.iter()).await?;
    for node in gone {
        if let Some(after) = known.before(&node) {
            notice::offline(tx, after, from.now);
        }
        applied.changed.insert(node);
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! The one door through which facts enter control.
//!
//! Takes what a gateway reports, in any order and any number of times, and gives rows that hold the newest of it. A
//! fact counts only if its pair of connection and report number is greater than the stored one, in the UPDATE's own
//! condition. It decides nothing about rollouts: their passes read these rows.

mod notice;
mod restart;
mod row;

use std::collections::{BTreeMap, BTreeSet};

use bc_protocol::{
    id::{GatewayId, NodeId, TenantId},
    link::{Event, NodeReport, SessionClosed, SessionOpened},
    session::Facts,
};
use thiserror::Error;

use crate::{
    clock::Moment,
    db::{
        Tx,
        column::{number, parsed, signed},
        contention::lock_nodes,
        query, query_scalar,
    },
    fleet::late,
};

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

/// Applies a gateway's facts in order, in the caller's transaction.
pub(crate) async fn apply(
    tx: &mut Tx,
    gateway: &GatewayId,
    events: &[Event],
    now: Moment,
) -> Result<Applied, FactsError> {
    let from = Source {
        gateway,
        link: current_link(tx, gateway).await?,
        now,
    };
    let mut applied = Applied::default();
    lock_nodes(tx, &named_by(events)).await?;
    for event in events {
        match event {
            Event::Opened(opened) => open(tx, from, opened, &mut applied).await?,
            Event::Closed(closed) => close(tx, from, closed, &mut applied).await?,
            Event::Report(report) => self::report(tx, from, report, &mut applied).await?,
            Event::Listed => listed(tx, from, &mut applied).await?,
            // How a command ended is no fact of the node's state.
            Event::Ended(_) => {}
        }
    }
    Ok(applied)
}

/// Refuses facts of a link that a newer one of the same gateway has replaced, perhaps to another process; and no newer one
/// begins until the transaction ends.
pub(crate) async fn require_newest(
    tx: &mut Tx,
    gateway: &GatewayId,
    link: u64,
) -> Result<(), FactsError> {
    let newest = current_link(tx, gateway).await?;
    if newest == signed(link) {
        return Ok(());
    }
    Err(FactsError::Replaced { link, newest })
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

async fn current_link(tx: &mut Tx, gateway: &GatewayId) -> Result<i64, sqlx::Error> {
    let link: Option<i64> = query_scalar("SELECT link FROM gateways WHERE id = $1")
        .bind(gateway.as_str())
        .for_share()
        .fetch_optional(&mut **tx)
        .await?;
    Ok(link.unwrap_or(0))
}

async fn open(
    tx: &mut Tx,
    from: Source<'_>,
    opened: &SessionOpened,
    applied: &mut Applied,
) -> Result<(), FactsError> {
    let session = Session {
        node: &opened.node,
        id: opened.session.as_str(),
        connect_seq: opened.connect_seq,
    };
    let Some(before) = Before::admitted(tx, session, applied).await? else {
        return Ok(());
    };
    let newer = newest(tx, from, session, (opened.report, &opened.facts)).await?;
    row::name_session(tx, from, session, opened.upgrade_only).await?;
    row::refresh_labels(tx, session, &opened.labels).await?;
    // Whoever was named on a link is pushed its spec there, also where nothing about it is new.
    applied.changed.insert(opened.node.clone());
    if before.was_with_another(from.gateway) {
        let node = opened.node.clone();
        applied.moved.insert(node, opened.connect_seq);
    }
    if newer {
        notice::attempts(tx, &before, &opened.facts, from.now);
    }
    restart::note(tx, &before, opened, from.now).await?;
    notice::presence(tx, &before, from.now).await?;
    late::look_again(tx, &opened.node).await?;
    Ok(())
}

async fn report(
    tx: &mut Tx,
    from: Source<'_>,
    report: &NodeReport,
    applied: &mut Applied,
) -> Result<(), FactsError> {
    let session = Session {
        node: &report.node,
        id: report.session.as_str(),
        connect_seq: report.connect_seq,
    };
    let Some(before) = Before::admitted(tx, session, applied).await? else {
        return Ok(());
    };
    if newest(tx, from, session, (report.report, &report.facts)).await? {
        applied.changed.insert(report.node.clone());
        if before.held && report.facts.held.is_none() {
            late::look_again(tx, &report.node).await?;
        }
        notice::attempts(tx, &before, &report.facts, from.now);
        notice::presence(tx, &before, from.now).await?;
    }
    Ok(())
}

async fn close(
    tx: &mut Tx,
    from: Source<'_>,
    closed: &SessionClosed,
    applied: &mut Applied,
) -> Result<(), FactsError> {
    let session = Session {
        node: &closed.node,
        id: closed.session.as_str(),
        connect_seq: closed.connect_seq,
    };
    let Some(before) = Before::read(tx, &closed.node).await? else {
        return Ok(());
    };
    row::end_session(tx, session).await?;
    if row::go_offline(tx, session, from.now).await? {
        applied.changed.insert(closed.node.clone());
        notice::presence(tx, &before, from.now).await?;
    }
    Ok(())
}

async fn listed(tx: &mut Tx, from: Source<'_>, applied: &mut Applied) -> Result<(), FactsError> {
    for node in row::unnamed_go_offline(tx, from).await? {
        let Some(after) = Before::read(tx, &node).await? else {
            continue;
        };
        notice::offline(tx, &after, from.now);
        applied.changed.insert(node);
    }
    Ok(())
}

async fn newest(
    tx: &mut Tx,
    from: Source<'_>,
    session: Session<'_>,
    (report, facts): (u64, &Facts),
) -> Result<bool, FactsError> {
    let json = serde_json::to_string(facts).map_err(|source| FactsError::Encoding {
        node: session.node.clone(),
        source,
    })?;
    let reported = row::Reported {
        report,
        facts,
        json,
    };
    Ok(row::store_if_newer(tx, from, session, reported).await?)
}

/// What was known of a node before a fact arrived.
#[derive(Clone, Debug)]
struct Before {
    node: NodeId,
    tenant: TenantId,
    removed: bool,
    online: bool,
    held: bool,
    /// The start of the daemon that was known last, the one before it, and the digest of the binary that it ran.
    started: Option<String>,
    started_before: Option<String>,
    digest: Option<String>,
    stored: Option<StoredSession>,
    attempt: Option<(String, bool)>,
    version: Option<String>,
}

#[derive(Clone, Debug)]
struct StoredSession {
    connect_seq: u64,
    gateway: String,
    id: String,
}

impl Before {
    async fn read(tx: &mut Tx, node: &NodeId) -> Result<Option<Self>, sqlx::Error> {
        let row = query(
            "SELECT n.tenant, n.removed_at, f.connect_seq, f.session_id, f.gateway_id, f.online, f.version, f.held,
                    f.started, f.started_before, f.digest,
                    f.attempt_id, f.attempt_final = 1 OR f.attempt_outcome = 'confirmed' AS attempt_ended
             FROM nodes n LEFT JOIN node_facts f ON f.node_id = n.id WHERE n.id = $1",
        )
        .bind(node.as_str())
        .fetch_optional(&mut **tx)
        .await?;
        let Some(row) = row else {
            return Ok(None);
        };
        let session_id: Option<String> = row.try_get("session_id")?;
        let stored = match session_id {
            None => None,
            Some(id) => Some(StoredSession {
                connect_seq: number(&row, "connect_seq")?,
                gateway: row.try_get("gateway_id")?,
                id,
            }),
        };
        let attempt: Option<String> = row.try_get("attempt_id")?;
        let ended: Option<bool> = row.try_get("attempt_ended")?;
        Ok(Some(Self {
            node: node.clone(),
            tenant: parsed(&row, "tenant")?,
            removed: row.try_get::<Option<i64>>("removed_at")?.is_some(),
            online: row.try_get::<Option<bool>>("online")?.unwrap_or(false),
            held: row.try_get::<Option<&str>>("held")?.is_some(),
            started: row.try_get("started")?,
            started_before: row.try_get("started_before")?,
            digest: row.try_get("digest")?,
            stored,
            attempt: attempt.zip(ended),
            version: row.try_get("version")?,
        }))
    }

    /// As [`read`](Self::read), for a fact of a session: none where that session has no say, which is noted.
    async fn admitted(
        tx: &mut Tx,
        session: Session<'_>,
        applied: &mut Applied,
    ) -> Result<Option<Self>, sqlx::Error> {
        let Some(before) = Self::read(tx, session.node)
            .await?
            .filter(|before| !before.removed)
        else {
            applied.strangers.insert(session.node.clone());
            return Ok(None);
        };
        if let Some(winning) = before.winner_over(session) {
            applied.superseded.push(Superseded {
                node: session.node.clone(),
                connect_seq: session.connect_seq,
                winning,
            });
            return Ok(None);
        }
        Ok(Some(before))
    }

    fn was_with_another(&self, gateway: &GatewayId) -> bool {
        let stored = self.stored.as_ref().filter(|_| self.online);
        stored.is_some_and(|stored| stored.gateway != gateway.as_str())
    }

    /// The counter of the stored session, where that beats `session`. Of two with one counter the first stays: the
    /// second is a node whose counter went back, and has to count on from there.
    fn winner_over(&self, session: Session<'_>) -> Option<u64> {
        let stored = self.stored.as_ref()?;
        let loses = stored.connect_seq > session.connect_seq
            || (stored.connect_seq == session.connect_seq && stored.id != session.id);
        loses.then_some(stored.connect_seq)
    }
}

#[cfg(test)]
mod tests;

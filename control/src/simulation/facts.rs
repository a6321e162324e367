//! The door of facts, on rows: what counts, and what follows.

use std::collections::{BTreeMap, BTreeSet};

use bc_protocol::{
    id::{GatewayId, NodeId, SessionId},
    link::{CloseSession, Event, NodeReport, SessionClosed, SessionOpened},
    session::{Facts, Goodbye, GoodbyeReason},
};

use super::{Control, Planted};
use crate::{
    clock::Moment,
    rollout::simulation::rows::{FactsRow, GatewayRow},
};

/// What follows from a batch.
#[derive(Debug, Default)]
pub struct Followed {
    /// Nodes of which something is known now that was not before.
    pub changed: BTreeSet<NodeId>,
    /// Sessions that are to be closed at this gateway.
    pub closings: Vec<CloseSession>,
    /// Nodes that came over from another gateway, with their counters: it is told.
    pub moved: BTreeMap<NodeId, u64>,
}

/// One session, as facts name it.
#[derive(Clone, Copy)]
struct Session<'a> {
    node: &'a NodeId,
    id: &'a SessionId,
    connect_seq: u64,
}

/// Where facts come from.
#[derive(Clone, Copy)]
struct Source<'a> {
    gateway: &'a GatewayId,
    link: u64,
    now: Moment,
}

impl Control {
    /// A gateway's link begins. Gives its number.
    pub fn link_opened(&mut self, gateway: &GatewayId, at_ms: i64) -> u64 {
        let row = self
            .rows
            .gateways
            .entry(gateway.clone())
            .or_insert(GatewayRow {
                link: 0,
                linked: false,
                linked_since: Moment::from_millis(at_ms),
            });
        row.link = row.link.saturating_add(1);
        row.linked = true;
        self.changes += 1;
        row.linked_since = Moment::from_millis(at_ms);
        row.link
    }

    /// A gateway's link ends, unless it has a newer one already.
    pub fn link_closed(&mut self, gateway: &GatewayId, link: u64, at_ms: i64) {
        if let Some(row) = self
            .rows
            .gateways
            .get_mut(gateway)
            .filter(|row| row.link == link && row.linked)
        {
            row.linked = false;
            row.linked_since = Moment::from_millis(at_ms);
        }
    }

    /// Takes a batch of a gateway's link; none where a newer link has replaced it.
    pub fn facts(
        &mut self,
        (gateway, link): (&GatewayId, u64),
        events: &[Event],
        at_ms: i64,
    ) -> Option<Followed> {
        let newest = self.rows.gateways.get(gateway).map_or(0, |row| row.link);
        if link != newest && self.planted != Some(Planted::OlderLinkCounts) {
            return None;
        }
        if link != newest {
            self.note(Some((
                "I29",
                format!("a batch of link {link} counts where {newest} is the newest"),
            )));
        }
        let from = Source {
            gateway,
            link: newest,
            now: Moment::from_millis(at_ms),
        };
        self.changes += 1;
        let mut followed = Followed::default();
        for event in events {
            match event {
                Event::Opened(opened) => self.open(from, opened, &mut followed),
                Event::Closed(closed) => self.close(from, closed, &mut followed),
                Event::Report(report) => self.report(from, report, &mut followed),
                Event::Listed => self.listed(from, &mut followed),
                Event::Ended(_) => {}
            }
        }
        self.settle_commands(events, &followed.changed, from.now);
        Some(followed)
    }

    fn open(&mut self, from: Source<'_>, opened: &SessionOpened, followed: &mut Followed) {
        let session = Session {
            node: &opened.node,
            id: &opened.session,
            connect_seq: opened.connect_seq,
        };
        if !self.admits(session, followed) {
            return;
        }
        let before = self.rows.facts.get(session.node).cloned();
        self.store_if_newer(from, session, (opened.report, &opened.facts));
        let ended = self
            .rows
            .nodes
            .get(session.node)
            .map_or(0, |row| row.ended_seq);
        let online = ended < opened.connect_seq;
        if let Some(row) = self.rows.facts.get_mut(session.node)
            && row.connect_seq == opened.connect_seq
            && row.session == opened.session
        {
            row.gateway = from.gateway.clone();
            row.link = from.link;
            row.upgrade_only = opened.upgrade_only;
            if !row.online && online {
                row.since = from.now;
            }
            row.online = online;
        }
        if let Some(row) = self.rows.nodes.get_mut(session.node) {
            row.arch = opened.labels.get("cpu.arch").cloned().or(row.arch.take());
        }
        followed.changed.insert(opened.node.clone());
        let moved = before
            .as_ref()
            .is_some_and(|before| before.online && before.gateway != *from.gateway);
        if moved {
            followed
                .moved
                .insert(opened.node.clone(), opened.connect_seq);
        }
        self.note_start(before.as_ref(), opened, from.now);
        self.rows.look_again(session.node);
    }

    fn report(&mut self, from: Source<'_>, report: &NodeReport, followed: &mut Followed) {
        let session = Session {
            node: &report.node,
            id: &report.session,
            connect_seq: report.connect_seq,
        };
        if !self.admits(session, followed) {
            return;
        }
        let held = self
            .rows
            .facts
            .get(session.node)
            .is_some_and(|row| row.facts.held.is_some());
        if self.store_if_newer(from, session, (report.report, &report.facts)) {
            followed.changed.insert(report.node.clone());
            if held && report.facts.held.is_none() {
                self.rows.look_again(session.node);
            }
        }
    }

    fn close(&mut self, from: Source<'_>, closed: &SessionClosed, followed: &mut Followed) {
        let facts = self.rows.facts.get_mut(&closed.node);
        let other = facts.as_ref().is_some_and(|row| {
            row.connect_seq == closed.connect_seq && row.session != closed.session
        });
        if let Some(node) = self.rows.nodes.get_mut(&closed.node).filter(|_| !other) {
            node.ended_seq = node.ended_seq.max(closed.connect_seq);
        }
        let ends = |row: &FactsRow| {
            row.online
                && (row.connect_seq < closed.connect_seq
                    || (row.connect_seq == closed.connect_seq && row.session == closed.session))
        };
        if let Some(row) = facts.filter(|row| ends(row)) {
            (row.online, row.since) = (false, from.now);
            followed.changed.insert(closed.node.clone());
        }
    }

    fn listed(&mut self, from: Source<'_>, followed: &mut Followed) {
        for (node, row) in &mut self.rows.facts {
            if row.gateway == *from.gateway && row.online && row.link < from.link {
                (row.online, row.since) = (false, from.now);
                followed.changed.insert(node.clone());
            }
        }
    }

    /// Whether a session has a say. One that has not is closed.
    fn admits(&self, session: Session<'_>, followed: &mut Followed) -> bool {
        let removed = self
            .rows
            .nodes
            .get(session.node)
            .is_none_or(|row| row.removed);
        if removed && self.planted != Some(Planted::RemovedStillServed) {
            followed
                .closings
                .push(close(session.node, u64::MAX, GoodbyeReason::Removed));
            return false;
        }
        let stored = self.rows.facts.get(session.node);
        let loses = |row: &&FactsRow| {
            row.connect_seq > session.connect_seq
                || (row.connect_seq == session.connect_seq && row.session != *session.id)
        };
        let Some(winner) = stored.filter(loses).map(|row| row.connect_seq) else {
            return true;
        };
        if self.planted == Some(Planted::SupersededCounts) {
            return true;
        }
        let reason = GoodbyeReason::Superseded {
            connect_seq: winner,
        };
        followed
            .closings
            .push(close(session.node, session.connect_seq, reason));
        false
    }

    /// Stores a report whose pair is greater than the stored one. Tells whether it was. I35
    fn store_if_newer(
        &mut self,
        from: Source<'_>,
        session: Session<'_>,
        (report, facts): (u64, &Facts),
    ) -> bool {
        let ended = self
            .rows
            .nodes
            .get(session.node)
            .map_or(0, |row| row.ended_seq);
        let online = ended < session.connect_seq;
        if self
            .rows
            .nodes
            .get(session.node)
            .is_none_or(|row| row.removed)
        {
            self.note(Some((
                "4",
                format!("facts of {} count, and it is removed", session.node),
            )));
        }
        let fresh = FactsRow {
            online,
            ..fresh(from, session, (report, facts))
        };
        let Some(row) = self.rows.facts.get_mut(session.node) else {
            self.rows.facts.insert(session.node.clone(), fresh);
            return true;
        };
        let newer_session = session.connect_seq > row.connect_seq;
        let newer_report = session.connect_seq == row.connect_seq
            && row.session == *session.id
            && report > row.report;
        let counts = newer_session
            || newer_report
            || match self.planted {
                Some(Planted::SupersededCounts) => session.connect_seq < row.connect_seq,
                Some(Planted::OlderReportCounts) => {
                    row.session == *session.id && report < row.report
                }
                Some(_) | None => false,
            };
        if !counts {
            return false;
        }
        let back = (session.connect_seq, report) < (row.connect_seq, row.report);
        let was = (row.connect_seq, row.report);
        let turned = newer_session && row.online != online;
        *row = FactsRow {
            upgrade_only: row.upgrade_only && !newer_session,
            since: if turned { from.now } else { row.since },
            online: if newer_session { online } else { row.online },
            started: row.started,
            restarted_at: row.restarted_at,
            restarted_before_at: row.restarted_before_at,
            ..fresh
        };
        if back {
            let what = format!(
                "{} of {} counts after {was:?}",
                session.connect_seq, session.node
            );
            self.note(Some(("I35", what)));
        }
        true
    }

    /// A daemon that starts again with the same binary and unasked has crashed.
    fn note_start(&mut self, before: Option<&FactsRow>, opened: &SessionOpened, now: Moment) {
        let Some(started) = opened.facts.started else {
            return;
        };
        let known = before.and_then(|before| before.started);
        if known == Some(started) {
            return;
        }
        let same = before.is_some_and(|before| before.facts.digest == opened.facts.digest);
        let by_itself = known.is_some() && same && !self.commands.restarts(&opened.node);
        if let Some(row) = self
            .rows
            .facts
            .get_mut(&opened.node)
            .filter(|row| row.connect_seq == opened.connect_seq)
        {
            row.started = Some(started);
            if by_itself {
                row.restarted_before_at = row.restarted_at;
                row.restarted_at = Some(now);
            }
        }
    }
}

/// A row of a node that is heard of for the first time.
fn fresh(from: Source<'_>, session: Session<'_>, (report, facts): (u64, &Facts)) -> FactsRow {
    FactsRow {
        connect_seq: session.connect_seq,
        report,
        session: session.id.clone(),
        gateway: from.gateway.clone(),
        link: from.link,
        upgrade_only: false,
        online: true,
        since: from.now,
        facts: facts.clone(),
        started: None,
        restarted_at: None,
        restarted_before_at: None,
    }
}

fn close(node: &NodeId, connect_seq: u64, reason: GoodbyeReason) -> CloseSession {
    CloseSession {
        node: node.clone(),
        connect_seq,
        goodbye: Goodbye {
            reason,
            reconnect_after_ms: 0,
            message: String::new(),
        },
    }
}

//! Facts in groups that can be written together.
//!
//! Takes a batch, gives groups of one kind. Each node is in a group at most once, and its facts stay in their order;
//! facts of different nodes have none. What is said of all of a gateway's sessions keeps its place between the others.

use std::collections::BTreeMap;

use bc_protocol::{
    id::NodeId,
    link::{Event, NodeReport, SessionClosed, SessionOpened},
};

/// Facts of one kind, of different nodes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Group<'a> {
    /// Sessions that have opened.
    Opened(Vec<&'a SessionOpened>),
    /// Reports.
    Reports(Vec<&'a NodeReport>),
    /// Sessions that have closed.
    Closed(Vec<&'a SessionClosed>),
    /// The gateway has named all its sessions.
    Listed,
}

/// A batch in groups.
pub(super) fn of(events: &[Event]) -> Vec<Group<'_>> {
    let mut groups = Vec::new();
    let mut section = Section::default();
    for event in events {
        match event {
            Event::Opened(opened) => section.layer(&opened.node).opened.push(opened),
            Event::Report(report) => section.layer(&report.node).reports.push(report),
            Event::Closed(closed) => section.layer(&closed.node).closed.push(closed),
            Event::Listed => {
                section.end(&mut groups);
                groups.push(Group::Listed);
            }
            // How a command ended is no fact of the node's state.
            Event::Ended(_) => {}
        }
    }
    section.end(&mut groups);
    groups
}

/// What lies between two listings: the first fact of every node, the second of those that have one, and so on.
#[derive(Debug, Default)]
struct Section<'a> {
    layers: BTreeMap<usize, Layer<'a>>,
    facts: BTreeMap<&'a NodeId, usize>,
}

#[derive(Debug, Default)]
struct Layer<'a> {
    opened: Vec<&'a SessionOpened>,
    reports: Vec<&'a NodeReport>,
    closed: Vec<&'a SessionClosed>,
}

impl<'a> Section<'a> {
    /// Where the node's next fact belongs.
    fn layer(&mut self, node: &'a NodeId) -> &mut Layer<'a> {
        let facts = self.facts.entry(node).or_default();
        *facts = facts.saturating_add(1);
        self.layers.entry(*facts).or_default()
    }

    fn end(&mut self, groups: &mut Vec<Group<'a>>) {
        self.facts.clear();
        for layer in std::mem::take(&mut self.layers).into_values() {
            let Layer {
                opened,
                reports,
                closed,
            } = layer;
            if !opened.is_empty() {
                groups.push(Group::Opened(opened));
            }
            if !reports.is_empty() {
                groups.push(Group::Reports(reports));
            }
            if !closed.is_empty() {
                groups.push(Group::Closed(closed));
            }
        }
    }
}

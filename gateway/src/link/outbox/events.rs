//! Events made of what the outbox keeps, how large they are, and how many wait.

use bc_protocol::link::{Event, NodeReport, SessionOpened};
use thiserror::Error;

/// How much control has yet to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waits {
    /// Nodes with something that has not left.
    pub(crate) nodes: usize,
    /// Batches that left or are about to, and are not acknowledged.
    pub(crate) batches: usize,
}

/// Control acknowledged what it was never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("expected an acknowledgement of batch {last} at most, found {found}")]
pub(crate) struct AckError {
    pub(super) last: u64,
    pub(super) found: u64,
}

/// What of a live session control has not been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// It knows everything.
    Nothing,
    /// That there is the session.
    Open,
    /// The newest report.
    Report,
}

/// What a live session has to tell.
pub(super) fn event(opened: &SessionOpened, due: Due) -> Option<Event> {
    match due {
        Due::Nothing => None,
        Due::Open => Some(Event::Opened(opened.clone())),
        Due::Report => Some(Event::Report(NodeReport {
            node: opened.node.clone(),
            session: opened.session.clone(),
            connect_seq: opened.connect_seq,
            report: opened.report,
            facts: opened.facts.clone(),
        })),
    }
}

/// An event's size: what can be large is counted, what is bounded to little is assumed at its largest.
pub(super) fn bytes_about(event: &Event) -> usize {
    const SMALL_FIELDS_BYTES_MAX: usize = 6 << 10;
    let (facts, labels, report) = match event {
        Event::Opened(opened) => (Some(&opened.facts), Some(&opened.labels), 0),
        Event::Report(report) => (Some(&report.facts), None, 0),
        Event::Ended(ended) => (None, None, ended.result.report.len()),
        Event::Closed(_) | Event::Listed => (None, None, 0),
    };
    let log = facts
        .and_then(|facts| facts.last_attempt.as_ref())
        .map_or(0, |attempt| attempt.log.len());
    let labels: usize = labels
        .into_iter()
        .flatten()
        .map(|(name, value)| name.len() + value.len() + 8)
        .sum();
    SMALL_FIELDS_BYTES_MAX + log + labels + report
}

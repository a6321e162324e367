//! The one connection to control.
//!
//! [`outbox`] decides what control has yet to hear and is pure; `client` holds the connection and redials it. Facts go
//! up, specs and closings come down; a gateway without a link keeps welcoming nodes.

pub(crate) mod client;
pub(crate) mod outbox;

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bc_protocol::{
    certificate::company,
    id::{NodeId, SessionId},
    link::{CommandEnded, NodeReport, SessionClosed, SessionOpened},
    session::Certificate,
};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::Notify;

use crate::session::dispatch::Tier;
use outbox::{AckError, Kept, Outbox, Overtaken, Waits};

/// Where sessions leave what control is to hear. Leaving something never waits.
#[derive(Debug, Default)]
pub(crate) struct Upward {
    outbox: Mutex<Outbox>,
    /// What nodes ask and control has not been asked: one request a node.
    requests: Mutex<BTreeMap<NodeId, Vec<u8>>>,
    filled: Notify,
    emptied: Notify,
    dropped: Dropped,
}

/// Counts what there was no room for.
#[derive(Debug, Default)]
pub(crate) struct Dropped {
    /// Results, or their reports.
    pub(crate) reports: Counter,
    /// Ended sessions.
    pub(crate) sessions: Counter,
}

impl Upward {
    /// One that counts there what it has no room for.
    pub(crate) fn counting(dropped: Dropped) -> Self {
        Self {
            dropped,
            ..Self::default()
        }
    }

    /// A node was welcomed, unless a session of it with a higher number is known.
    pub(crate) fn opened(&self, opened: SessionOpened) -> Result<(), Overtaken> {
        self.outbox().opened(opened)?;
        self.filled.notify_one();
        Ok(())
    }

    /// A node reported.
    pub(crate) fn reported(&self, report: NodeReport) {
        self.outbox().reported(report);
        self.filled.notify_one();
    }

    /// A node said how a command ended.
    pub(crate) fn ended(&self, ended: CommandEnded) {
        match self.outbox().ended(ended) {
            Some(Kept::WithoutReport | Kept::Dropped) => {
                self.dropped.reports.inc();
            }
            Some(Kept::Whole) | None => {}
        }
        self.filled.notify_one();
    }

    /// A session is good for something else now.
    pub(crate) fn turned(&self, node: &NodeId, session: &SessionId, tier: Tier) {
        self.outbox().turned(node, session, tier);
        self.filled.notify_one();
    }

    /// A node wants its certificate renewed.
    pub(crate) fn certificate_wanted(&self, node: NodeId, request: Vec<u8>) {
        self.requests().insert(node, request);
        self.filled.notify_one();
    }

    /// A live session's node is given a new certificate.
    pub(crate) fn certified(&self, node: &NodeId, certificate: &Certificate) {
        // One that cannot be read says nothing, and no node takes it.
        let own = certificate.chain.first();
        let company = own.and_then(|own| company::of(own).ok()).flatten();
        self.outbox().certified(node, company);
    }

    /// A session ended.
    pub(crate) fn closed(&self, closed: SessionClosed) {
        // Nobody is there any more to take the answer.
        self.requests().remove(&closed.node);
        let forgotten = self.outbox().closed(closed);
        if forgotten > 0 {
            tracing::warn!(
                sessions = forgotten,
                "ended sessions are forgotten: too many wait for control"
            );
            self.dropped.sessions.inc_by(forgotten as u64);
        }
        self.filled.notify_one();
    }

    /// How much control has yet to hear.
    pub(crate) fn waits(&self) -> Waits {
        self.outbox().waits()
    }

    /// Waits until control has acknowledged everything. For one reader.
    pub(crate) async fn told(&self) {
        while !self.outbox().is_idle() {
            self.emptied.notified().await;
        }
    }

    fn acknowledged(&self, number: u64) -> Result<(), AckError> {
        self.outbox().acknowledged(number)?;
        self.emptied.notify_one();
        Ok(())
    }

    /// Waits until somebody may have left something. For one reader.
    async fn filled(&self) {
        self.filled.notified().await;
    }

    fn take_requests(&self) -> BTreeMap<NodeId, Vec<u8>> {
        std::mem::take(&mut self.requests())
    }

    fn requests(&self) -> MutexGuard<'_, BTreeMap<NodeId, Vec<u8>>> {
        // No code panics in between.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        // No code panics in between.
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

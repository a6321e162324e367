//! What the tasks of one gateway share.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use tokio::sync::watch;

use crate::{
    admission::Admission,
    clock,
    door::Door,
    handshakes::Handshakes,
    keying::{Keying, Where},
    limits::{LINGERING_USUAL, Limits},
    link::{Dropped, Upward},
    metrics::{Limit, Metrics},
    registry::Registry,
    session::hello::Terms,
};

/// How far the process has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It has no certificate yet.
    Enrolling,
    /// Nodes are welcome.
    Serving,
    /// Nodes are sent away.
    Draining,
}

/// What the tasks of one gateway share. Nothing in it outlives the process.
#[derive(Debug)]
pub(crate) struct Gateway {
    /// Which session is a node's.
    pub(crate) registry: Registry,
    /// What control is to hear.
    pub(crate) upward: Upward,
    /// What nodes are offered now.
    pub(crate) terms: watch::Sender<Terms>,
    /// How far the process has come.
    pub(crate) phase: watch::Sender<Phase>,
    /// Who is inside.
    pub(crate) door: Arc<Door>,
    /// Who is at a handshake.
    pub(crate) handshakes: Handshakes,
    /// Who does their arithmetic.
    pub(crate) keying: Keying,
    /// What is counted.
    pub(crate) metrics: Metrics,
    admission: Mutex<Admission>,
    limits: RwLock<Limits>,
}

impl Gateway {
    /// One that offers these terms until control says otherwise.
    pub(crate) fn new(limits: Limits, protocol_min: u32) -> Self {
        let terms = Terms::new(protocol_min, limits.heartbeat_interval);
        let metrics = Metrics::new();
        let dropped = Dropped {
            reports: metrics.limit(Limit::Reports),
            sessions: metrics.limit(Limit::EndedSessions),
        };
        Self {
            registry: Registry::default(),
            upward: Upward::counting(dropped),
            terms: watch::Sender::new(terms),
            phase: watch::Sender::new(Phase::Enrolling),
            door: Arc::default(),
            handshakes: Handshakes::shown(metrics.keying.clone()),
            keying: Keying::default(),
            metrics,
            admission: Mutex::default(),
            limits: RwLock::new(limits),
        }
    }

    /// Whose turn it is.
    pub(crate) fn admission(&self) -> MutexGuard<'_, Admission> {
        // No code panics in between.
        self.admission
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// How far the process has come.
    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Where the arithmetic of one more handshake is done.
    pub(crate) fn keys_where(&self) -> Where {
        if self.door.lingering(clock::now()) > LINGERING_USUAL {
            Where::Aside
        } else {
            Where::Here
        }
    }

    /// Shows when the gateway's own certificate ends, in seconds since 1970.
    pub(crate) fn certified_until(&self, ends: i64) {
        #[expect(clippy::cast_precision_loss, reason = "seconds are exact in a float")]
        self.metrics.certificate_ends.set(ends as f64);
    }

    /// Whether the gateway's own certificate has ended, so that no node believes it.
    pub(crate) fn certificate_has_ended(&self) -> bool {
        let ends = self.metrics.certificate_ends.get();
        ends > 0.0 && Duration::from_millis(clock::unix_ms()).as_secs_f64() > ends
    }

    /// Looks up what nobody counts as it happens.
    pub(crate) fn look(&self) {
        let metrics = &self.metrics;
        metrics.connections.set(self.door.connections().into());
        metrics.sessions.set(whole(self.registry.len()));
        let waits = self.upward.waits();
        metrics.untold.set(whole(waits.nodes));
        metrics.unacknowledged.set(whole(waits.batches));
    }

    /// The bounds as they are now.
    pub(crate) fn limits(&self) -> Limits {
        // No code panics in between.
        *self.limits.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets other bounds, for whatever begins from now on.
    pub(crate) fn set_limits(&self, limits: Limits) {
        // No code panics in between.
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

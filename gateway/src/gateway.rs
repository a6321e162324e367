//! What the tasks of one gateway share.

use tokio::sync::watch;

use crate::{limits::Limits, link::Upward, registry::Registry, session::hello::Terms};

/// What the tasks of one gateway share. Nothing in it outlives the process.
#[derive(Debug)]
pub(crate) struct Gateway {
    /// Which session is a node's.
    pub(crate) registry: Registry,
    /// What control is to hear.
    pub(crate) upward: Upward,
    /// What nodes are offered now.
    pub(crate) terms: watch::Sender<Terms>,
    /// The bounds.
    pub(crate) limits: Limits,
}

impl Gateway {
    /// One that offers these terms until control says otherwise.
    pub(crate) fn new(limits: Limits, protocol_min: u32) -> Self {
        let terms = Terms::new(protocol_min, limits.heartbeat_interval);
        Self {
            registry: Registry::default(),
            upward: Upward::default(),
            terms: watch::Sender::new(terms),
            limits,
        }
    }
}

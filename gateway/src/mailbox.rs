//! What waits for one session.
//!
//! At most one spec, one certificate and one order to end, whoever sends how many: a spec is the node's whole desired
//! state, so a newer one replaces an older, and the first reason to end is the one that counts. So it never fills, nobody waits to put
//! something in, and a slow node holds up nobody else.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bc_protocol::{session::Certificate, spec::NodeSpec};
use tokio::sync::Notify;

use crate::session::{Ending, machine::Order};

/// What waits for one session.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    slots: Mutex<Slots>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Slots {
    spec: Option<Box<NodeSpec>>,
    certificate: Option<Box<Certificate>>,
    ending: Option<Ending>,
}

impl Mailbox {
    /// Leaves a spec, in place of one that has not been taken yet.
    pub(crate) fn spec(&self, spec: NodeSpec) {
        self.slots().spec = Some(Box::new(spec));
        self.filled.notify_one();
    }

    /// Leaves a renewed certificate, in place of one that has not been taken yet.
    pub(crate) fn certificate(&self, certificate: Certificate) {
        self.slots().certificate = Some(Box::new(certificate));
        self.filled.notify_one();
    }

    /// Leaves the order to end, unless there is one.
    pub(crate) fn end(&self, ending: Ending) {
        self.slots().ending.get_or_insert(ending);
        self.filled.notify_one();
    }

    /// Waits for an order. Nothing is lost if the wait is given up. For one reader.
    pub(crate) async fn next(&self) -> Order {
        loop {
            if let Some(order) = self.slots().take() {
                return order;
            }
            self.filled.notified().await;
        }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        // No code panics in between, and each slot is whole by itself.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    fn take(&mut self) -> Option<Order> {
        if let Some(ending) = self.ending.take() {
            return Some(Order::End(ending));
        }
        match self.spec.take() {
            Some(spec) => Some(Order::Spec(*spec)),
            None => self.certificate.take().map(Order::Certificate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(generation: u64) -> NodeSpec {
        NodeSpec {
            generation,
            daemon: None,
        }
    }

    #[tokio::test]
    async fn the_newest_spec_and_the_first_ending() {
        let mailbox = Mailbox::default();
        mailbox.spec(spec(1));
        mailbox.spec(spec(2));
        assert_eq!(mailbox.next().await, Order::Spec(spec(2)));
        let certificate = Certificate {
            chain: vec![vec![1]],
            authorities: vec![vec![2]],
            gateways: Vec::new(),
        };
        mailbox.certificate(certificate.clone());
        assert_eq!(
            mailbox.next().await,
            Order::Certificate(Box::new(certificate))
        );
        mailbox.spec(spec(3));
        mailbox.end(Ending::Removed);
        mailbox.end(Ending::Stopping);
        assert_eq!(mailbox.next().await, Order::End(Ending::Removed));
    }

    #[tokio::test]
    async fn a_waiting_reader_is_woken() {
        let mailbox = Mailbox::default();
        let (order, ()) = tokio::join!(mailbox.next(), async { mailbox.spec(spec(1)) });
        assert_eq!(order, Order::Spec(spec(1)));
    }
}

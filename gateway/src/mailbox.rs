//! What waits for one session.
//!
//! At most one spec, one certificate, one command a lane, one set of terms and one order to end, whoever sends how many:
//! a spec is the node's whole desired state, so a newer one replaces an older, control orders a lane's next command only
//! when it has done with the one before, and the first reason to end is the one that counts. So it never fills, nobody
//! waits to put something in, and a slow node holds up nobody else.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bc_protocol::{
    command::{Command, Lane, Unreadable},
    session::Certificate,
    spec::NodeSpec,
};
use tokio::sync::Notify;

use crate::session::{Ending, hello::Terms, machine::Order};

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
    /// By lane; one that cannot be read has none.
    commands: BTreeMap<Option<Lane>, Box<Result<Command, Unreadable>>>,
    terms: Option<Terms>,
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

    /// Leaves a command, in place of one of its lane that has not been taken yet.
    pub(crate) fn command(&self, command: Result<Command, Unreadable>) {
        let lane = command
            .as_ref()
            .ok()
            .map(|command| command.order.kind().lane());
        self.slots().commands.insert(lane, Box::new(command));
        self.filled.notify_one();
    }

    /// Leaves what nodes are offered from now on.
    pub(crate) fn terms(&self, terms: Terms) {
        self.slots().terms = Some(terms);
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
        if let Some(terms) = self.terms.take() {
            return Some(Order::Terms(terms));
        }
        if let Some(spec) = self.spec.take() {
            return Some(Order::Spec(*spec));
        }
        match self.certificate.take() {
            Some(certificate) => Some(Order::Certificate(certificate)),
            None => self
                .commands
                .pop_first()
                .map(|(_, command)| Order::Command(command)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{restart, upgrade};

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
        // One command a lane: a newer one says that the older is of no interest any more.
        mailbox.command(Ok(restart(1)));
        mailbox.command(Ok(upgrade(2)));
        assert_eq!(
            mailbox.next().await,
            Order::Command(Box::new(Ok(upgrade(2))))
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

//! Which session is a node's one session.
//!
//! Takes claims with the nodes' connection counters, gives each node to the highest; and brings orders to the session
//! that has it. It never waits: an order is left in the session's mailbox.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bc_protocol::{
    id::{NodeId, SessionId},
    link::CommandPush,
    session::{Certificate, Goodbye},
    spec::NodeSpec,
};

use crate::{
    mailbox::Mailbox,
    session::{Ending, hello::Terms, machine::Claim},
};

/// The live sessions, and who may not have one.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Sessions without a Hello so far.
    newcomers: BTreeMap<SessionId, Arc<Mailbox>>,
    live: BTreeMap<NodeId, Live>,
    /// The newest list from control. It outlives the link that brought it.
    removed: BTreeSet<NodeId>,
    doors: Doors,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Doors {
    #[default]
    Open,
    Closed,
}

#[derive(Debug)]
struct Live {
    session: SessionId,
    connect_seq: u64,
    mailbox: Arc<Mailbox>,
}

impl Registry {
    /// A session begins, and waits for its Hello.
    pub(crate) fn comes(&self, session: &SessionId, mailbox: &Arc<Mailbox>) {
        let mut inner = self.inner();
        match inner.doors {
            Doors::Open => {
                let mailbox = Arc::clone(mailbox);
                inner.newcomers.insert(session.clone(), mailbox);
            }
            Doors::Closed => mailbox.end(Ending::Stopping),
        }
    }

    /// A session has ended that no node was given to.
    pub(crate) fn left(&self, session: &SessionId) {
        self.inner().newcomers.remove(session);
    }

    /// Gives the node to this session, unless it was removed or has a newer one. An older one is told.
    pub(crate) fn claim(
        &self,
        node: &NodeId,
        session: &SessionId,
        connect_seq: u64,
        mailbox: &Arc<Mailbox>,
    ) -> Claim {
        let mut inner = self.inner();
        inner.newcomers.remove(session);
        if inner.doors == Doors::Closed {
            return Claim::Refused(Ending::Stopping);
        }
        if inner.removed.contains(node) {
            return Claim::Refused(Ending::Removed);
        }
        if let Some(live) = inner.live.get(node) {
            if connect_seq <= live.connect_seq {
                return Claim::Refused(Ending::Superseded {
                    winning: live.connect_seq,
                });
            }
            live.mailbox.end(Ending::Superseded {
                winning: connect_seq,
            });
        }
        let live = Live {
            session: session.clone(),
            connect_seq,
            mailbox: Arc::clone(mailbox),
        };
        inner.live.insert(node.clone(), live);
        Claim::Granted
    }

    /// Forgets a session that has ended, unless a newer one has taken its place.
    pub(crate) fn release(&self, node: &NodeId, session: &SessionId) {
        let mut inner = self.inner();
        if inner
            .live
            .get(node)
            .is_some_and(|live| live.session == *session)
        {
            inner.live.remove(node);
        }
    }

    /// Leaves a spec for the node's session. Without one there is nothing to do: control pushes again when the node
    /// returns.
    pub(crate) fn deliver(&self, node: &NodeId, spec: NodeSpec) {
        if let Some(live) = self.inner().live.get(node) {
            live.mailbox.spec(spec);
        }
    }

    /// Leaves a renewed certificate for the node's session. One that has gone asks again, or is given it again, when it is
    /// back.
    pub(crate) fn certify(&self, node: &NodeId, certificate: Certificate) {
        if let Some(live) = self.inner().live.get(node) {
            live.mailbox.certificate(certificate);
        }
    }

    /// Leaves a command for the one session that it is for. A newer one gets its commands when control hears of it.
    pub(crate) fn command(&self, push: CommandPush) {
        if let Some(live) = self.inner().live.get(&push.node)
            && live.connect_seq == push.connect_seq
        {
            live.mailbox.command(push.command);
        }
    }

    /// Tells every session what nodes are offered from now on.
    pub(crate) fn offer(&self, terms: Terms) {
        for live in self.inner().live.values() {
            live.mailbox.terms(terms);
        }
    }

    /// Ends the node's session if its counter is not above `connect_seq_max`.
    pub(crate) fn end(&self, node: &NodeId, connect_seq_max: u64, goodbye: Goodbye) {
        if let Some(live) = self.inner().live.get(node)
            && live.connect_seq <= connect_seq_max
        {
            live.mailbox.end(Ending::Told(goodbye));
        }
    }

    /// Keeps these nodes out, besides those already kept out.
    pub(crate) fn remove(&self, nodes: Vec<NodeId>) {
        let mut inner = self.inner();
        inner.removed.extend(nodes);
        inner.end_removed();
    }

    /// Keeps exactly these nodes out.
    pub(crate) fn replace_removed(&self, nodes: Vec<NodeId>) {
        let mut inner = self.inner();
        inner.removed = nodes.into_iter().collect();
        inner.end_removed();
    }

    /// Lets nobody in any more, and gives the mailboxes of all who are. Who has not even said Hello is sent away at once.
    pub(crate) fn close_doors(&self) -> Vec<Arc<Mailbox>> {
        let mut inner = self.inner();
        inner.doors = Doors::Closed;
        for mailbox in std::mem::take(&mut inner.newcomers).values() {
            mailbox.end(Ending::Stopping);
        }
        let mailboxes = inner.live.values().map(|live| Arc::clone(&live.mailbox));
        mailboxes.collect()
    }

    /// How many sessions are live.
    pub(crate) fn len(&self) -> usize {
        self.inner().live.len()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // No code panics in between.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn end_removed(&self) {
        for node in &self.removed {
            if let Some(live) = self.live.get(node) {
                live.mailbox.end(Ending::Removed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bc_protocol::session::GoodbyeReason;
    use proptest::prelude::*;

    use super::*;
    use crate::session::machine::Order;

    fn node(name: u8) -> NodeId {
        NodeId::derived(&[&[name]])
    }

    struct Newcomer {
        session: SessionId,
        mailbox: Arc<Mailbox>,
        claim: Claim,
    }

    fn come(registry: &Registry, name: u8, connect_seq: u64) -> Newcomer {
        let session = SessionId::random(0, rand::random());
        let mailbox = Arc::default();
        let claim = registry.claim(&node(name), &session, connect_seq, &mailbox);
        Newcomer {
            session,
            mailbox,
            claim,
        }
    }

    fn superseded(winning: u64) -> Claim {
        Claim::Refused(Ending::Superseded { winning })
    }

    #[tokio::test]
    async fn the_newest_connection_wins_and_the_older_is_told() {
        let registry = Registry::default();
        let old = come(&registry, 0, 5);
        assert_eq!(old.claim, Claim::Granted);
        assert_eq!(come(&registry, 0, 5).claim, superseded(5));
        assert_eq!(come(&registry, 0, 4).claim, superseded(5));
        assert_eq!(come(&registry, 0, 6).claim, Claim::Granted);
        assert_eq!(
            old.mailbox.next().await,
            Order::End(Ending::Superseded { winning: 6 })
        );
        // The older one's end does not take the newer one's place.
        registry.release(&node(0), &old.session);
        assert_eq!(registry.len(), 1);
        assert_eq!(come(&registry, 1, 1).claim, Claim::Granted);
    }

    #[tokio::test]
    async fn a_removed_node_is_kept_out_and_put_out() {
        let registry = Registry::default();
        let inside = come(&registry, 0, 1);
        registry.remove(vec![node(0), node(1)]);
        assert_eq!(inside.mailbox.next().await, Order::End(Ending::Removed));
        assert_eq!(come(&registry, 1, 1).claim, Claim::Refused(Ending::Removed));
        registry.replace_removed(vec![node(0)]);
        assert_eq!(come(&registry, 1, 1).claim, Claim::Granted);
        assert_eq!(come(&registry, 0, 2).claim, Claim::Refused(Ending::Removed));
    }

    #[tokio::test]
    async fn a_session_newer_than_the_order_stays() {
        let registry = Registry::default();
        let inside = come(&registry, 0, 7);
        let goodbye = |message: &str| Goodbye {
            reason: GoodbyeReason::Overloaded,
            reconnect_after_ms: 0,
            message: message.to_owned(),
        };
        registry.end(&node(0), 6, goodbye("old"));
        registry.end(&node(0), 7, goodbye("new"));
        assert_eq!(
            inside.mailbox.next().await,
            Order::End(Ending::Told(goodbye("new")))
        );
    }

    #[tokio::test]
    async fn who_has_not_said_hello_is_sent_away_when_the_doors_close() {
        let registry = Registry::default();
        let [mute, gone, late] = [(); 3].map(|()| Arc::<Mailbox>::default());
        let session = || SessionId::random(0, rand::random());
        let left = session();
        registry.comes(&session(), &mute);
        registry.comes(&left, &gone);
        registry.left(&left);
        let inside = come(&registry, 0, 1);
        assert_eq!(registry.close_doors().len(), 1);
        registry.comes(&session(), &late);
        for mailbox in [mute, late] {
            assert_eq!(mailbox.next().await, Order::End(Ending::Stopping));
        }
        // The others have their turn, or none.
        for mailbox in [gone, inside.mailbox] {
            assert!(futures_util::FutureExt::now_or_never(mailbox.next()).is_none());
        }
        assert!(registry.inner().newcomers.is_empty());
    }

    #[test]
    fn closed_doors_stay_closed() {
        let registry = Registry::default();
        let _inside = come(&registry, 0, 1);
        assert_eq!(registry.close_doors().len(), 1);
        assert_eq!(
            come(&registry, 1, 1).claim,
            Claim::Refused(Ending::Stopping)
        );
    }

    proptest! {
        /// At any time at most one session of a node has not been told to end, and it is the one with the highest
        /// counter that was granted since the node was last gone.
        #[test]
        fn one_session_a_node(steps in prop::collection::vec((0_u8..3, 0_u64..8, any::<bool>()), 0..60)) {
            let registry = Registry::default();
            let mut granted: Vec<(u8, u64, Newcomer)> = Vec::new();
            for (name, connect_seq, leaves) in steps {
                let highest = granted.iter().filter(|(of, ..)| *of == name).map(|(_, seq, _)| *seq).max();
                if leaves {
                    for (_, _, gone) in granted.extract_if(.., |(of, ..)| *of == name) {
                        registry.release(&node(name), &gone.session);
                    }
                } else {
                    let newcomer = come(&registry, name, connect_seq);
                    match highest {
                        Some(winning) if connect_seq <= winning => {
                            prop_assert_eq!(&newcomer.claim, &superseded(winning));
                        }
                        Some(_) | None => {
                            prop_assert_eq!(&newcomer.claim, &Claim::Granted);
                            granted.push((name, connect_seq, newcomer));
                        }
                    }
                }
                let names: BTreeSet<u8> = granted.iter().map(|(of, ..)| *of).collect();
                prop_assert_eq!(registry.len(), names.len());
            }
        }
    }
}

//! Which link reaches which node.
//!
//! Takes what links say of sessions, in whatever order their tasks come here, and keeps for each node the session with
//! the highest counter. It holds no truth: an empty one fills itself from the links' listings.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bc_protocol::{
    digest::Sha256,
    id::{NodeId, SessionId},
    link::SessionOpened,
};
use bytes::Bytes;
use tokio::sync::mpsc;

/// One link of this process, past or present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinkKey(u64);

/// Which link reaches which node.
#[derive(Debug, Default)]
pub(super) struct Routes(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    last_key: u64,
    links: BTreeMap<LinkKey, mpsc::Sender<Bytes>>,
    nodes: BTreeMap<NodeId, Route>,
}

#[derive(Debug)]
struct Route {
    link: LinkKey,
    session: SessionId,
    connect_seq: u64,
    use_for: Use,
    /// The digest of the authorities and gateways that the node knows, as far as anybody knows.
    company: Option<Sha256>,
}

/// What a session may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Everything,
    /// Its daemon may not understand today's specs.
    Upgrades,
}

/// A session that a newer one of the same node has replaced, on another link.
#[derive(Debug)]
pub(super) struct Displaced {
    /// Where it is to be closed.
    pub(super) link: mpsc::Sender<Bytes>,
    /// Its counter.
    pub(super) connect_seq: u64,
    /// The newer one's.
    pub(super) winning: u64,
}

impl Routes {
    /// A new link, over which nobody is reached yet.
    pub(super) fn begin(&self, link: mpsc::Sender<Bytes>) -> LinkKey {
        let mut inner = self.inner();
        inner.last_key += 1;
        let key = LinkKey(inner.last_key);
        inner.links.insert(key, link);
        key
    }

    /// The link is over, and with it every way that led over it.
    pub(super) fn end(&self, link: LinkKey) {
        let mut inner = self.inner();
        inner.links.remove(&link);
        inner.nodes.retain(|_, route| route.link != link);
    }

    /// A link names a session. Gives the one of two that has lost, if they are on different links.
    pub(super) fn opened(&self, link: LinkKey, opened: &SessionOpened) -> Option<Displaced> {
        let mut inner = self.inner();
        let newcomer = Route {
            link,
            session: opened.session.clone(),
            connect_seq: opened.connect_seq,
            use_for: if opened.upgrade_only {
                Use::Upgrades
            } else {
                Use::Everything
            },
            company: opened.company,
        };
        let winning = newcomer.connect_seq;
        match inner.nodes.get(&opened.node) {
            Some(known) if known.connect_seq > winning => {
                let (connect_seq, winning) = (winning, known.connect_seq);
                inner.displaced(link, known.link, connect_seq, winning)
            }
            Some(known) => {
                let displaced = inner.displaced(known.link, link, known.connect_seq, winning);
                inner.nodes.insert(opened.node.clone(), newcomer);
                displaced.filter(|displaced| displaced.connect_seq < winning)
            }
            None => {
                inner.nodes.insert(opened.node.clone(), newcomer);
                None
            }
        }
    }

    /// Another process names a session. Gives the one here that has lost to it.
    pub(super) fn overtaken(&self, node: &NodeId, winning: u64) -> Option<Displaced> {
        let mut inner = self.inner();
        let loses = |route: &Route| route.connect_seq < winning;
        if !inner.nodes.get(node).is_some_and(loses) {
            return None;
        }
        let lost = inner.nodes.remove(node)?;
        Some(Displaced {
            link: inner.links.get(&lost.link)?.clone(),
            connect_seq: lost.connect_seq,
            winning,
        })
    }

    /// A link says that a session has ended.
    pub(super) fn closed(&self, link: LinkKey, node: &NodeId, session: &SessionId) {
        let mut inner = self.inner();
        let is_it = |route: &Route| route.link == link && route.session == *session;
        if inner.nodes.get(node).is_some_and(is_it) {
            inner.nodes.remove(node);
        }
    }

    /// Whether the node gets its specs over this link.
    pub(super) fn takes_specs(&self, link: LinkKey, node: &NodeId) -> bool {
        let inner = self.inner();
        let route = inner.nodes.get(node);
        route.is_some_and(|route| route.link == link && route.use_for == Use::Everything)
    }

    /// Whether the node's session is on this link.
    pub(super) fn leads_to(&self, link: LinkKey, node: &NodeId) -> bool {
        let inner = self.inner();
        inner
            .nodes
            .get(node)
            .is_some_and(|route| route.link == link)
    }

    /// Whether the node gets upgrades as commands over this link.
    pub(super) fn takes_upgrades(&self, link: LinkKey, node: &NodeId) -> bool {
        let inner = self.inner();
        let route = inner.nodes.get(node);
        route.is_some_and(|route| route.link == link && route.use_for == Use::Upgrades)
    }

    /// Everybody whose session is on this link.
    pub(super) fn everybody_on(&self, link: LinkKey) -> Vec<NodeId> {
        let inner = self.inner();
        let nodes = inner.nodes.iter();
        nodes
            .filter(|(_, route)| route.link == link)
            .map(|(node, _)| node.clone())
            .collect()
    }

    /// Everybody who gets specs over this link.
    pub(super) fn all_on(&self, link: LinkKey) -> Vec<NodeId> {
        let inner = self.inner();
        let nodes = inner.nodes.iter();
        nodes
            .filter(|(_, route)| route.link == link && route.use_for == Use::Everything)
            .map(|(node, _)| node.clone())
            .collect()
    }

    /// Who is on this link and is known to know other authorities and gateways.
    pub(super) fn in_other_company(&self, link: LinkKey, today: &Sha256) -> Vec<NodeId> {
        let inner = self.inner();
        let nodes = inner.nodes.iter().filter(|(_, route)| {
            route.link == link && route.company.is_some_and(|known| known != *today)
        });
        nodes.map(|(node, _)| node.clone()).collect()
    }

    /// The node is about to be given a certificate over this link that names these.
    pub(super) fn informed(&self, link: LinkKey, node: &NodeId, company: Sha256) {
        if let Some(route) = self.inner().nodes.get_mut(node)
            && route.link == link
        {
            route.company = Some(company);
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // No code panics in between.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Where `loser` is to be told, unless it is where the winner is: there they have seen to it themselves.
    fn displaced(
        &self,
        loser: LinkKey,
        winner: LinkKey,
        connect_seq: u64,
        winning: u64,
    ) -> Option<Displaced> {
        if loser == winner {
            return None;
        }
        Some(Displaced {
            link: self.links.get(&loser)?.clone(),
            connect_seq,
            winning,
        })
    }
}

//! The nodes of one link that are to be pushed their spec.
//!
//! A set: however often a node is wanted before its turn, it is pushed once, with what holds then. So it is bounded by
//! the link's nodes. News goes before the nodes of a listing, of which there may be very many at once.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bc_protocol::id::NodeId;
use tokio::sync::Notify;

/// The nodes that are to be pushed their spec.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    nodes: Mutex<Nodes>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Nodes {
    news: BTreeSet<NodeId>,
    listed: BTreeSet<NodeId>,
}

impl Wanted {
    /// Something about these may have changed.
    pub(super) fn news(&self, nodes: impl IntoIterator<Item = NodeId>) {
        self.nodes().news.extend(nodes);
        self.filled.notify_one();
    }

    /// These have come, or were named.
    pub(super) fn listed(&self, nodes: impl IntoIterator<Item = NodeId>) {
        self.nodes().listed.extend(nodes);
        self.filled.notify_one();
    }

    /// Takes at most `max`, the most urgent first.
    pub(super) fn take(&self, max: usize) -> Vec<NodeId> {
        let mut nodes = self.nodes();
        let mut taken = Vec::new();
        while taken.len() < max {
            let Some(node) = nodes.news.pop_first().or_else(|| nodes.listed.pop_first()) else {
                break;
            };
            nodes.listed.remove(&node);
            taken.push(node);
        }
        taken
    }

    /// Takes at most `max` of those of which there is news.
    pub(super) fn take_news(&self, max: usize) -> Vec<NodeId> {
        let mut nodes = self.nodes();
        let mut taken = Vec::new();
        while taken.len() < max {
            let Some(node) = nodes.news.pop_first() else {
                break;
            };
            nodes.listed.remove(&node);
            taken.push(node);
        }
        taken
    }

    /// Waits until there may be some. For one reader.
    pub(super) async fn filled(&self) {
        self.filled.notified().await;
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        // No code panics in between.
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_goes_first_and_nobody_twice() {
        let [a, b, c] = [b"a", b"b", b"c"].map(|name| NodeId::derived(&[name]));
        let wanted = Wanted::default();
        wanted.listed([a.clone(), b.clone(), c.clone()]);
        wanted.news([c.clone()]);
        wanted.news([c.clone()]);
        assert_eq!(wanted.take_news(9), std::slice::from_ref(&c));
        assert!(wanted.take_news(9).is_empty());
        wanted.listed([c.clone()]);
        wanted.news([c.clone()]);
        assert_eq!(wanted.take(1), [c]);
        let mut rest = wanted.take(9);
        rest.sort();
        let mut expected = [a, b];
        expected.sort();
        assert_eq!(rest, expected);
    }
}

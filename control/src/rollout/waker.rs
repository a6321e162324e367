//! How anything that happens reaches the controller.
//!
//! Takes what has changed, by name: a node that said something, a rollout that somebody called for. What comes while the
//! controller passes is one further round. Whoever cannot name what has changed has everything looked at.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bc_protocol::id::{NodeId, RolloutId};
use tokio::sync::Notify;

use super::limits;
use crate::db::hint::Hints;

/// Wakes the controller. Wakes that come while it passes become one further round.
#[derive(Clone, Debug)]
pub(crate) struct Waker {
    here: Arc<Here>,
    elsewhere: Hints,
}

#[derive(Debug, Default)]
struct Here {
    news: Mutex<News>,
    called: Notify,
}

/// What has changed since the last round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// How much of it is known by name.
    pub extent: Extent,
    /// Nodes of which something is new.
    pub nodes: BTreeSet<NodeId>,
    /// Rollouts that somebody called for.
    pub rollouts: BTreeSet<RolloutId>,
}

/// How much of what has changed is known by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it.
    #[default]
    Named,
    /// Something else has changed too.
    Unknown,
}

impl News {
    /// More than can be named.
    #[cfg(any(test, feature = "bench"))]
    pub(super) fn everything() -> Self {
        Self {
            extent: Extent::Unknown,
            ..Self::default()
        }
    }

    /// Adds nodes; so many that a pass had better look at everything are not named.
    pub(super) fn add_nodes(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        self.nodes.extend(nodes);
        if self.nodes.len() > limits::NAMED_MAX {
            self.nodes.clear();
            self.extent = Extent::Unknown;
        }
    }
}

impl Waker {
    /// Of this process's controller, and through hints of the others'.
    pub(super) fn new(elsewhere: Hints) -> Self {
        Self {
            here: Arc::default(),
            elsewhere,
        }
    }

    /// Something happened that can change the outcome of any rollout.
    pub(crate) fn wake(&self) {
        self.wake_here();
        self.elsewhere.tell(|hint| hint.wake = true);
    }

    /// These nodes said something, came or went. No other process needs to hear of it: this one passes, and where another
    /// has the rollout just then, this one asks again.
    pub(crate) fn wake_for_nodes(&self, nodes: impl IntoIterator<Item = NodeId>) {
        self.news().add_nodes(nodes);
        self.here.called.notify_one();
    }

    /// Somebody called for a rollout.
    pub(crate) fn wake_for(&self, rollout: &RolloutId) {
        self.news().rollouts.insert(rollout.clone());
        self.here.called.notify_one();
    }

    /// Something happened of which every other process knows already.
    pub(crate) fn wake_here(&self) {
        self.news().extent = Extent::Unknown;
        self.here.called.notify_one();
    }

    /// Waits for a wake since the last time.
    pub(crate) async fn woken(&self) {
        self.here.called.notified().await;
    }

    /// Takes what has come since the last time.
    pub(super) fn take(&self) -> News {
        std::mem::take(&mut *self.news())
    }

    fn news(&self) -> MutexGuard<'_, News> {
        // No code panics in between.
        self.here
            .news
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use bc_protocol::id::NodeId;

    use super::{Extent, News};
    use crate::rollout::limits::NAMED_MAX;

    #[test]
    fn too_many_to_name_are_everything() {
        let node = |number: usize| NodeId::derived(&[&number.to_be_bytes()]);
        let mut news = News::default();
        news.add_nodes((0..NAMED_MAX).map(node));
        assert_eq!((news.extent, news.nodes.len()), (Extent::Named, NAMED_MAX));
        news.add_nodes([node(NAMED_MAX)]);
        assert_eq!(news, News::everything());
    }
}

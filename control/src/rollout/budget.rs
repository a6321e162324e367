//! A pool's budget of disrupted nodes.
//!
//! Takes the pool's counters, gives room. The counters change in the transaction that reads them, so what is computed
//! here is exact. A place belongs to a node, however many reasons it has to hold it.

use bc_protocol::share::Share;

/// The counters of one pool as a pass sees them, its own moves included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    nodes: u32,
    share: Share,
    disrupted: u32,
}

impl Budget {
    /// Of a pool with that many nodes, of which so many are disrupted.
    pub(crate) fn new(nodes: u32, share: Share, disrupted: u32) -> Self {
        Self {
            nodes,
            share,
            disrupted,
        }
    }

    /// How many may be disrupted at once: a pool of any size can be upgraded, so at least one.
    pub(crate) fn max(self) -> u32 {
        self.share.of(self.nodes).max(1)
    }

    /// How many are.
    pub(crate) fn disrupted(self) -> u32 {
        self.disrupted
    }

    /// Takes a place for one more node, if there is one.
    #[must_use]
    pub(crate) fn take(&mut self) -> Taken {
        if self.disrupted >= self.max() {
            return Taken::Full;
        }
        self.disrupted = self.disrupted.saturating_add(1);
        Taken::Place
    }

    /// Gives back the place of a node that has no reason left to hold it.
    pub(crate) fn give_back(&mut self) {
        self.disrupted = self.disrupted.saturating_sub(1);
    }
}

/// What asking for a place led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The node may be disrupted.
    Place,
    /// It may not, for now.
    Full,
}

#[cfg(test)]
mod tests {
    use super::{Budget, Taken};
    use proptest::prelude::*;

    fn max(nodes: u32, share: &str) -> u32 {
        Budget::new(nodes, share.parse().unwrap(), 0).max()
    }

    #[test]
    fn under_the_default_pools_below_forty_upgrade_one_at_a_time() {
        assert_eq!(
            [1, 2, 20, 39, 40, 60].map(|nodes| max(nodes, "0.05")),
            [1, 1, 1, 1, 2, 3]
        );
    }

    #[test]
    fn ten_nodes_with_a_fifth_upgrade_two() {
        assert_eq!(max(10, "0.2"), 2);
    }

    #[test]
    fn a_share_that_binary_floats_get_wrong() {
        assert_eq!(max(100, "0.29"), 29);
    }

    #[test]
    fn no_share_at_all_still_moves() {
        assert_eq!([max(1_000, "0"), max(0, "1")], [1, 1]);
    }

    proptest! {
        /// I21
        #[test]
        fn nobody_takes_a_place_over_the_bound(nodes: u32, ppm in 0_u32..=1_000_000, disrupted: u32) {
            let share = bc_protocol::share::Share::from_millionths(ppm).unwrap();
            let mut budget = Budget::new(nodes, share, disrupted);
            let before = budget.disrupted();
            let allowed = u64::from(before) < (u64::from(nodes) * u64::from(ppm) / 1_000_000).max(1);
            let taken = budget.take();
            prop_assert_eq!(taken == Taken::Place, allowed);
            prop_assert_eq!(budget.disrupted(), before + u32::from(allowed));
        }
    }
}

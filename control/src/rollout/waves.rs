//! How a snapshot of nodes is cut into waves, and in which order its nodes stand.
//!
//! Takes counts, percentages and ids, gives positions. Knows no pools: the order alone spreads canaries over them.

use bc_protocol::{
    digest::Sha256,
    id::{NodeId, RolloutId},
    share::Percent,
};

/// Where each wave ends among `nodes`, cumulatively. Every wave takes at least one node while any remain.
pub(crate) fn ends(nodes: u32, percents: &[Percent]) -> Vec<u32> {
    percents
        .iter()
        .scan(0_u32, |end, percent| {
            *end = end.saturating_add(1).max(percent.ceil_of(nodes)).min(nodes);
            Some(*end)
        })
        .collect()
}

/// The wave of the node at `place`, given where waves end. Places past the last end belong to the last wave.
pub(crate) fn wave_at(place: u32, ends: &[u32]) -> u32 {
    let passed = ends.iter().filter(|end| **end <= place).count();
    let last = ends.len().saturating_sub(1);
    u32::try_from(passed.min(last)).unwrap_or(u32::MAX)
}

/// How many waves take a node. Later ones are empty where there are fewer nodes than waves.
pub(crate) fn taken(nodes: u32, percents: &[Percent]) -> usize {
    let ends = ends(nodes, percents);
    ends.iter()
        .position(|end| *end == nodes)
        .map_or(ends.len(), |last| last.saturating_add(1))
}

/// What nodes are sorted by. It depends on the two ids alone, so every rollout has an order of its own and nobody can
/// choose his place in it.
pub(crate) fn sort_key(rollout: &RolloutId, node: &NodeId) -> [u8; 32] {
    let mut hasher = Sha256::hasher();
    hasher.update(rollout.as_str().as_bytes());
    hasher.update(node.as_str().as_bytes());
    *hasher.finish().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::{ends, sort_key, taken, wave_at};
    use bc_protocol::{
        id::{NodeId, RolloutId},
        share::Percent,
    };
    use proptest::prelude::*;

    fn sizes(nodes: u32, percents: &[Percent]) -> Vec<u32> {
        let ends = ends(nodes, percents);
        let starts = std::iter::once(0).chain(ends.iter().copied());
        ends.iter()
            .zip(starts)
            .map(|(end, start)| end - start)
            .collect()
    }

    fn check(nodes: u32, percents: &[&str], expected: &[u32]) {
        let percents: Vec<Percent> = percents.iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(sizes(nodes, &percents), expected);
        let full = expected.iter().filter(|nodes| **nodes > 0).count();
        assert_eq!(taken(nodes, &percents), full);
    }

    #[test]
    fn twenty_nodes_in_three_waves() {
        check(20, &["10", "50", "100"], &[2, 8, 10]);
    }

    #[test]
    fn a_pool_smaller_than_its_waves() {
        check(2, &["1", "10", "50", "100"], &[1, 1, 0, 0]);
    }

    #[test]
    fn one_node() {
        check(1, &["1", "10", "50", "100"], &[1, 0, 0, 0]);
    }

    #[test]
    fn everything_at_once() {
        check(7, &["100"], &[7]);
    }

    #[test]
    fn a_percentage_that_binary_floats_get_wrong() {
        check(100, &["29", "57", "100"], &[29, 28, 43]);
    }

    #[test]
    fn the_smallest_percentage_of_a_large_fleet() {
        check(1_000_000, &["0.0001", "0.0002", "100"], &[1, 1, 999_998]);
    }

    #[test]
    fn close_percentages_of_a_small_fleet() {
        check(10, &["1", "2", "3", "100"], &[1, 1, 1, 7]);
    }

    #[test]
    fn the_order_is_that_of_the_digest_over_both_ids() {
        let rollout = RolloutId::derived(&[b"r"]);
        let node = NodeId::derived(&[b"n"]);
        let joined = format!("{rollout}{node}");
        let expected = bc_protocol::digest::Sha256::of(joined.as_bytes());
        assert_eq!(sort_key(&rollout, &node), *expected.as_bytes());
    }

    proptest! {
        /// I20
        #[test]
        fn waves_partition_the_snapshot(
            nodes in 1_u32..2_000_000,
            mut ppm in prop::collection::btree_set(1_u32..1_000_000, 0..9),
        ) {
            ppm.insert(1_000_000);
            let percents: Vec<Percent> = ppm
                .iter()
                .map(|ppm| format!("{}.{:04}", ppm / 10_000, ppm % 10_000).parse().unwrap())
                .collect();
            let ends = ends(nodes, &percents);
            prop_assert_eq!(ends.last(), Some(&nodes));
            let mut start = 0;
            for (wave, end) in ends.iter().enumerate() {
                prop_assert!(*end >= start);
                prop_assert!(*end > start || start == nodes, "wave {} is empty while nodes remain", wave);
                if *end > start {
                    prop_assert_eq!(wave_at(start, &ends) as usize, wave);
                    prop_assert_eq!(wave_at(end - 1, &ends) as usize, wave);
                }
                start = *end;
            }
        }
    }
}

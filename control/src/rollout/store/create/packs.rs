//! Packs the nodes that wait.
//!
//! Takes nodes in the rollout's order, gives lists of those of one wave and pool, each with the place of its first.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::rollout::limits;

/// A list of nodes that wait, in their order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pack {
    /// Their wave, and the number of their pool.
    pub(super) of: (u32, i64),
    /// The first one's.
    pub(super) place: u32,
    /// Their numbers, as a JSON list.
    pub(super) nodes: String,
}

/// Packs in the making.
#[derive(Debug, Default)]
pub(super) struct Packer {
    full: Vec<Pack>,
    open: BTreeMap<(u32, i64), Open>,
}

#[derive(Debug)]
struct Open {
    place: u32,
    count: usize,
    nodes: String,
}

impl Packer {
    /// Adds a node, behind all others.
    pub(super) fn add(&mut self, of: (u32, i64), place: u32, node: i64) {
        let open = self.open.entry(of).or_insert_with(|| Open {
            place,
            count: 0,
            nodes: String::from("["),
        });
        let comma = if open.count == 0 { "" } else { "," };
        // Nothing that is written to a text fails.
        write!(open.nodes, "{comma}{node}").ok();
        open.count = open.count.saturating_add(1);
        if open.count == limits::PACK_NODES
            && let Some(open) = self.open.remove(&of)
        {
            self.full.push(open.close(of));
        }
    }

    /// Every pack, in the order of their table.
    pub(super) fn finish(mut self) -> Vec<Pack> {
        let open = self.open.into_iter().map(|(of, open)| open.close(of));
        self.full.extend(open);
        self.full.sort_unstable_by_key(|pack| (pack.of, pack.place));
        self.full
    }
}

impl Open {
    fn close(mut self, of: (u32, i64)) -> Pack {
        self.nodes.push(']');
        Pack {
            of,
            place: self.place,
            nodes: self.nodes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Pack, Packer};
    use crate::rollout::limits::PACK_NODES;

    #[test]
    fn packs_are_of_one_wave_and_pool_and_in_order() {
        let mut packer = Packer::default();
        for (place, node) in [(0, 7), (1, 3), (2, 9), (3, 1)] {
            packer.add((0, i64::from(place % 2)), place, node);
        }
        packer.add((1, 0), 4, 2);
        let pack = |of, place, nodes: &str| Pack {
            of,
            place,
            nodes: nodes.to_owned(),
        };
        let expected = [
            pack((0, 0), 0, "[7,9]"),
            pack((0, 1), 1, "[3,1]"),
            pack((1, 0), 4, "[2]"),
        ];
        assert_eq!(packer.finish(), expected);
    }

    #[test]
    fn a_full_pack_is_followed_by_another() {
        let mut packer = Packer::default();
        let nodes = u32::try_from(2 * PACK_NODES + 1).unwrap();
        for place in 0..nodes {
            packer.add((0, 1), place, i64::from(place));
        }
        let packs = packer.finish();
        let count = |pack: &Pack| serde_json::from_str::<Vec<i64>>(&pack.nodes).unwrap().len();
        let counts: Vec<_> = packs.iter().map(|pack| (pack.place, count(pack))).collect();
        let full = u32::try_from(PACK_NODES).unwrap();
        assert_eq!(counts, [(0, PACK_NODES), (full, PACK_NODES), (2 * full, 1)]);
    }
}

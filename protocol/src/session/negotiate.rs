//! Which protocol a session speaks.
//!
//! Takes both ranges, gives the agreement or the reason against one.

use serde::{Deserialize, Serialize};

/// The protocols that one side can speak, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtocolRange {
    /// The oldest.
    pub min: u32,
    /// The newest.
    pub max: u32,
}

impl ProtocolRange {
    /// What this build speaks. With 2 a node names its start, and gives a word for why it did not do what was asked.
    pub const CURRENT: Self = Self { min: 1, max: 2 };
}

/// What a gateway answers to a node's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Negotiation {
    /// They can talk.
    Agreed(Agreement),
    /// Even the node's oldest protocol is newer than the server's newest.
    NodeTooNew {
        /// The node's oldest.
        node_min: u32,
        /// The server's newest.
        server_max: u32,
    },
}

/// What a session may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// Everything.
    Full {
        /// The protocol of the session.
        protocol: u32,
    },
    /// Nothing but bringing the node to a newer release.
    UpgradeOnly {
        /// The protocol of the session: the node's newest.
        protocol: u32,
    },
}

/// Finds the highest protocol both sides know. A node below the server's minimum gets an upgrade-only session
/// instead of a closed door: it could not be repaired from behind one.
pub fn negotiate(node: ProtocolRange, server: ProtocolRange) -> Negotiation {
    if node.min > server.max {
        return Negotiation::NodeTooNew {
            node_min: node.min,
            server_max: server.max,
        };
    }
    let protocol = node.max.min(server.max);
    if node.max < server.min {
        Negotiation::Agreed(Agreement::UpgradeOnly { protocol })
    } else {
        Negotiation::Agreed(Agreement::Full { protocol })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(node: (u32, u32), server: (u32, u32)) -> Negotiation {
        let range = |(min, max)| ProtocolRange { min, max };
        negotiate(range(node), range(server))
    }

    #[test]
    fn the_highest_common_protocol_wins() {
        assert_eq!(
            between((1, 3), (2, 5)),
            Negotiation::Agreed(Agreement::Full { protocol: 3 })
        );
        assert_eq!(
            between((4, 9), (2, 5)),
            Negotiation::Agreed(Agreement::Full { protocol: 5 })
        );
    }

    #[test]
    fn a_node_below_the_minimum_may_only_upgrade() {
        assert_eq!(
            between((1, 1), (2, 5)),
            Negotiation::Agreed(Agreement::UpgradeOnly { protocol: 1 })
        );
    }

    #[test]
    fn a_node_above_the_maximum_is_told_so() {
        assert_eq!(
            between((6, 7), (2, 5)),
            Negotiation::NodeTooNew {
                node_min: 6,
                server_max: 5
            }
        );
    }
}

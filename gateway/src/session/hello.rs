//! On what terms a session opens.
//!
//! Takes a node's Hello and what the gateway offers, gives the Welcome and what the session may be used for. It needs
//! neither control nor a database: a node on trial depends on its Welcome.

use std::time::Duration;

use bc_protocol::{
    id::SessionId,
    session::{Agreement, Hello, Negotiation, ProtocolRange, Welcome, negotiate},
};

use super::{Ending, dispatch::Tier};

/// What the gateway offers now; control changes it over the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// The protocols for full sessions.
    pub(crate) protocols: ProtocolRange,
    /// Between pings.
    pub(crate) heartbeat: Duration,
}

impl Terms {
    /// As control or the configuration sets them. A minimum above what this build speaks would shut every node out of
    /// full sessions, which is the operator's to decide; below it there is nothing to offer.
    pub(crate) fn new(protocol_min: u32, heartbeat: Duration) -> Self {
        let known = ProtocolRange::CURRENT;
        Self {
            protocols: ProtocolRange {
                min: protocol_min.max(known.min),
                max: known.max,
            },
            heartbeat,
        }
    }
}

/// What a session of this protocol, which is the node's newest or the server's, is good for on these terms.
pub(crate) fn tier(protocol: u32, terms: &Terms) -> Tier {
    if protocol < terms.protocols.min {
        Tier::UpgradeOnly
    } else {
        Tier::Full
    }
}

/// What the two sides can do together, or why nothing.
pub(crate) fn agree(hello: &Hello, terms: &Terms) -> Result<Agreement, Ending> {
    match negotiate(hello.protocols, terms.protocols) {
        Negotiation::Agreed(agreement) => Ok(agreement),
        Negotiation::NodeTooNew {
            node_min,
            server_max,
        } => Err(Ending::ProtocolTooNew {
            node_min,
            server_max,
        }),
    }
}

/// The answer to a Hello.
pub(crate) fn welcome(
    hello: &Hello,
    agreement: Agreement,
    terms: &Terms,
    session: SessionId,
    unix_ms: u64,
) -> Welcome {
    let (protocol, upgrade_required) = match agreement {
        Agreement::Full { protocol } => (protocol, false),
        Agreement::UpgradeOnly { protocol } => (protocol, true),
    };
    Welcome {
        nonce: hello.nonce,
        session,
        protocol,
        server_proto_min: terms.protocols.min,
        upgrade_required,
        heartbeat_interval_ms: u32::try_from(terms.heartbeat.as_millis()).unwrap_or(u32::MAX),
        server_time_ms: i64::try_from(unix_ms).unwrap_or(i64::MAX),
    }
}

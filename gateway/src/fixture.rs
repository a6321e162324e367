//! What tests of this crate begin with.

use bc_protocol::{
    digest::Sha256,
    id::{NodeId, SessionId},
    link::SessionOpened,
    platform::Platform,
    sequence::{ReleaseFloor, Sequence},
    session::{Facts, Hello, ProtocolRange},
};

/// A node by a number.
pub(crate) fn node(name: u8) -> NodeId {
    NodeId::derived(&[&[name]])
}

/// A session by a number.
pub(crate) fn session(name: u64) -> SessionId {
    SessionId::random(name, 0)
}

/// Facts that differ from others by their generation.
pub(crate) fn facts(observed_generation: u64) -> Facts {
    Facts {
        version: "1.0.0".parse().unwrap(),
        platform: Platform::host(),
        boot_id: "boot".to_owned(),
        slot: None,
        sequence: Sequence::PACKAGED,
        digest: Sha256::of(b""),
        floor: ReleaseFloor::NONE,
        trial: None,
        last_attempt: None,
        progress: None,
        observed_generation,
        held: None,
        notice: None,
        helper: None,
    }
}

/// A Hello of a node that speaks what this build speaks.
pub(crate) fn hello(connect_seq: u64) -> Hello {
    Hello {
        nonce: [7; 16],
        protocols: ProtocolRange::CURRENT,
        connect_seq,
        facts: facts(0),
        commands_in_flight: Vec::new(),
        labels: [("a".to_owned(), "b".to_owned())].into(),
    }
}

/// A session that was just welcomed. Its number is the node's counter too.
pub(crate) fn opened(name: u8, connect_seq: u64) -> SessionOpened {
    let hello = hello(connect_seq);
    SessionOpened {
        node: node(name),
        session: session(connect_seq),
        connect_seq,
        protocol: 1,
        upgrade_only: false,
        report: 0,
        facts: hello.facts,
        labels: hello.labels,
    }
}

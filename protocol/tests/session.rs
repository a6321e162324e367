//! Frames of protocol 1 as they were written when it was the newest. They are never made anew: whatever comes later has
//! to read those of a node, and to write what such a node can read.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::collections::BTreeMap;

use bc_protocol::{
    command::{Command, Order, UpgradeCommand},
    limits::COUNTER_MAX,
    session::{
        Agreement, FrameError, FromGateway, FromNode, Goodbye, GoodbyeReason, Negotiation, Outcome,
        ProtocolRange, negotiate,
    },
};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Frozen {
    from_node: BTreeMap<String, String>,
    from_gateway: BTreeMap<String, String>,
}

fn frozen() -> Frozen {
    serde_json::from_str(include_str!("vectors/session-1.json")).unwrap()
}

fn from_node(name: &str) -> FromNode {
    FromNode::decode(&hex::decode(&frozen().from_node[name]).unwrap()).unwrap()
}

fn from_gateway(name: &str) -> FromGateway {
    FromGateway::decode(&hex::decode(&frozen().from_gateway[name]).unwrap()).unwrap()
}

#[test]
fn every_frame_of_a_node_is_read_and_nothing_of_it_is_lost() {
    for (name, frame) in frozen().from_node {
        let read = FromNode::decode(&hex::decode(&frame).unwrap());
        let read = read.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(hex::encode(read.encode()), frame, "{name}");
    }
}

#[test]
fn every_frame_for_a_node_is_written_as_it_was() {
    for (name, frame) in frozen().from_gateway {
        let read = FromGateway::decode(&hex::decode(&frame).unwrap());
        let read = read.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(hex::encode(read.encode()), frame, "{name}");
    }
}

#[test]
fn the_oldest_daemon_says_what_it_needs_to_be_upgraded() {
    let FromNode::Hello(hello) = from_node("hello") else {
        panic!("no hello");
    };
    assert_eq!(hello.protocols, ProtocolRange { min: 1, max: 1 });
    assert_eq!(hello.facts.started, None);
    // Whatever is spoken today, such a node is let in.
    let server = ProtocolRange {
        min: 2,
        ..ProtocolRange::CURRENT
    };
    let agreed = negotiate(hello.protocols, server);
    let upgrade_only = Agreement::UpgradeOnly { protocol: 1 };
    assert_eq!(agreed, Negotiation::Agreed(upgrade_only));
    let FromNode::Report(report) = from_node("report-confirmed") else {
        panic!("no report");
    };
    let attempt = report.facts.last_attempt.unwrap();
    assert_eq!(attempt.outcome, Outcome::Confirmed);
    let FromGateway::Command(Ok(command)) = from_gateway("command-upgrade") else {
        panic!("no command");
    };
    assert_eq!(hello.commands_in_flight, std::slice::from_ref(&command.id));
    let UpgradeCommand { section, .. } = command.into_upgrade().unwrap();
    assert_eq!(section.attempt, attempt.id);
}

#[test]
fn nothing_but_an_upgrade_is_one() {
    for name in ["command-restart", "command-diagnostics"] {
        let FromGateway::Command(Ok(command)) = from_gateway(name) else {
            panic!("no command");
        };
        assert_eq!(command.clone().into_upgrade(), Err(Box::new(command)));
    }
}

/// A kind, or a payload, of a later build names the command all the same.
#[test]
fn what_cannot_be_read_can_be_answered() {
    let known = Command {
        id: "cmd_01aryz6s410000000000000000".parse().unwrap(),
        expires_at_ms: 7,
        order: Order::Restart,
    };
    let mut bytes = FromGateway::Command(Ok(known.clone())).encode().to_vec();
    // The kind's key: field 4, with a length. Field 15 is nobody's yet.
    let at = bytes.iter().rposition(|byte| *byte == 0x22).unwrap();
    bytes[at] = 0x7a;
    let FromGateway::Command(Err(unreadable)) = FromGateway::decode(&bytes).unwrap() else {
        panic!("it was read");
    };
    assert_eq!(unreadable.id, Some(known.id));
    assert_eq!(unreadable.code(), "unknown-kind");
}

#[test]
fn what_no_database_keeps_does_not_get_in_and_sends_nobody_away() {
    let FromNode::Hello(mut hello) = from_node("hello") else {
        panic!("no hello");
    };
    let FromNode::Report(report) = from_node("report-confirmed") else {
        panic!("no report");
    };
    let mut attempt = report.facts.last_attempt.unwrap();
    for text in [&mut attempt.message, &mut attempt.log, &mut attempt.code] {
        *text = "a\0b".to_owned();
    }
    hello.facts.last_attempt = Some(attempt);
    hello.facts.held = Some("a\0b".to_owned());
    hello.facts.boot_id = "a\0b".to_owned();
    hello.labels = [("a\0".to_owned(), "\u{1}b\n".to_owned())].into();
    let read = FromNode::decode(&FromNode::Hello(hello).encode()).unwrap();
    // Twice the same: gateways read it, and control does.
    assert_eq!(FromNode::decode(&read.clone().encode()), Ok(read.clone()));
    let FromNode::Hello(hello) = read else {
        panic!("no hello");
    };
    let (attempt, kept) = (hello.facts.last_attempt.unwrap(), "a\u{fffd}b");
    assert_eq!(
        [&*attempt.message, &*attempt.log, &*attempt.code],
        [kept; 3]
    );
    assert_eq!(
        (hello.facts.held.as_deref(), &*hello.facts.boot_id),
        (Some(kept), kept)
    );
    assert_eq!(hello.labels, [("a ".to_owned(), " b ".to_owned())].into());
}

#[test]
fn a_number_that_no_database_keeps_is_refused() {
    let FromNode::Hello(hello) = from_node("hello") else {
        panic!("no hello");
    };
    let FromNode::Report(report) = from_node("report-confirmed") else {
        panic!("no report");
    };
    for number in [COUNTER_MAX, COUNTER_MAX + 1, u64::MAX] {
        let (mut hello, mut report) = (hello.clone(), report.clone());
        (hello.connect_seq, report.number) = (number, number);
        for frame in [FromNode::Hello(hello), FromNode::Report(report)] {
            let read = FromNode::decode(&frame.encode());
            assert_eq!(read.is_ok(), number == COUNTER_MAX, "{read:?}");
        }
    }
}

/// What somebody sends goes to logs by what is said of it: no line of a log is his.
#[test]
fn a_strangers_words_stay_on_their_line() {
    let goodbye = Goodbye {
        reason: GoodbyeReason::Stopping,
        reconnect_after_ms: 0,
        message: "a\nb\u{1b}[31m".to_owned(),
    };
    let read = FromNode::decode(&FromNode::Goodbye(goodbye).encode()).unwrap();
    let FromNode::Goodbye(goodbye) = read else {
        panic!("no goodbye");
    };
    assert_eq!(goodbye.message, "a b [31m");
    let refused = FrameError::field("version", "MAJOR.MINOR.PATCH", "1.0.0\nINFO \"x\"");
    let said = r#"field version: expected MAJOR.MINOR.PATCH, found 1.0.0\nINFO "x""#;
    assert_eq!(refused.to_string(), said);
}

//! Nodes and their sessions.

use std::time::Duration;

use bc_protocol::{
    digest::Sha256,
    id::{AttemptId, NodeId},
    limits::SESSION_FRAME_BYTES_MAX,
    link::{Event, FromControl, Settings, SpecPush},
    session::{FromGateway, FromNode, Goodbye, GoodbyeReason, Hello, ProtocolRange},
    spec::{DaemonSection, NodeSpec},
};
use bytes::Bytes;
use futures_util::SinkExt;
use tokio_tungstenite::tungstenite::Message;

use crate::{
    control::{Control, Link},
    node::{Node, facts, hello},
    process::Home,
    soon,
};

fn empty(generation: u64) -> NodeSpec {
    NodeSpec {
        generation,
        daemon: None,
    }
}

/// One that fills a socket's buffers soon.
fn large(generation: u64) -> NodeSpec {
    let daemon = DaemonSection {
        version: "1.1.0".parse().unwrap(),
        url: "https://x.example".to_owned(),
        sha256: Sha256::of(b""),
        signature: vec![b'x'; 100 << 10],
        attempt: AttemptId::derived(&[]),
    };
    NodeSpec {
        generation,
        daemon: Some(daemon),
    }
}

async fn push(link: &mut Link, node: &NodeId, spec: NodeSpec) {
    let node = node.clone();
    link.send(FromControl::Spec(SpecPush { node, spec })).await;
}

async fn opened(link: &mut Link, node: &NodeId) -> u64 {
    link.until(|event| match event {
        Event::Opened(opened) if opened.node == *node => Some(opened.connect_seq),
        Event::Opened(_)
        | Event::Closed(_)
        | Event::Report(_)
        | Event::Listed
        | Event::Ended(_) => None,
    })
    .await
}

/// Whether a session that is named anew may only upgrade.
async fn turned(link: &mut Link, node: &NodeId) -> bool {
    link.until(|event| match event {
        Event::Opened(opened) if opened.node == *node => Some(opened.upgrade_only),
        Event::Opened(_)
        | Event::Closed(_)
        | Event::Report(_)
        | Event::Listed
        | Event::Ended(_) => None,
    })
    .await
}

async fn closed(link: &mut Link, node: &NodeId) -> String {
    link.until(|event| match event {
        Event::Closed(closed) if closed.node == *node => Some(closed.reason.clone()),
        Event::Opened(_)
        | Event::Closed(_)
        | Event::Report(_)
        | Event::Listed
        | Event::Ended(_) => None,
    })
    .await
}

#[tokio::test]
async fn a_node_is_welcomed_while_control_is_away() {
    let control = Control::start().await;
    let gateway = Home::new(&control, "").start().await;
    let node = Node::new(&control.authority, "a");
    let mut session = node.connect(gateway.address).await;
    session.hello(3).await;
    let welcome = session.welcome().await;
    assert_eq!(welcome.nonce, hello(3).nonce);
    assert_eq!((welcome.protocol, welcome.upgrade_required), (2, false));
    session.report(1).await;
    session.is_alive().await;
    // Control comes later and hears the newest.
    let mut link = control.link().await;
    match &*link.listed().await {
        [Event::Opened(opened), Event::Listed] => {
            assert_eq!(opened.node, node.id);
            assert_eq!(opened.session, welcome.session);
            assert_eq!((opened.connect_seq, opened.report), (3, 1));
            assert_eq!(opened.facts, facts(1));
            assert_eq!(opened.labels, hello(3).labels);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn facts_go_up_and_specs_come_down() {
    let control = Control::start().await;
    let gateway = Home::new(&control, "").start().await;
    let mut link = control.link().await;
    let (a, b) = (
        Node::new(&control.authority, "a"),
        Node::new(&control.authority, "b"),
    );
    let mut session = a.open(gateway.address, 1).await;
    let mut other = b.open(gateway.address, 1).await;
    assert_eq!(opened(&mut link, &a.id).await, 1);
    session.report(1).await;
    let reported = link
        .until(|event| match event {
            Event::Report(report) => Some(report.clone()),
            Event::Opened(_) | Event::Closed(_) | Event::Listed | Event::Ended(_) => None,
        })
        .await;
    assert_eq!((reported.node, reported.facts), (a.id.clone(), facts(1)));
    // To a node that is not here: nothing happens.
    push(&mut link, &NodeId::derived(&[b"nobody"]), empty(1)).await;
    push(&mut link, &a.id, large(2)).await;
    push(&mut link, &b.id, empty(3)).await;
    assert_eq!(session.next().await, Some(FromGateway::Spec(Ok(large(2)))));
    assert_eq!(other.next().await, Some(FromGateway::Spec(Ok(empty(3)))));
    session
        .say(FromNode::Goodbye(Goodbye {
            reason: GoodbyeReason::Updating,
            reconnect_after_ms: 0,
            message: String::new(),
        }))
        .await;
    assert_eq!(closed(&mut link, &a.id).await, "the node leaves: updating");
}

#[tokio::test]
async fn the_newest_connection_of_a_node_wins() {
    let control = Control::start().await;
    let gateway = Home::new(&control, "").start().await;
    let node = Node::new(&control.authority, "a");
    let mut old = node.open(gateway.address, 7).await;
    for late in [7, 6, 0] {
        let mut session = node.connect(gateway.address).await;
        session.hello(late).await;
        let reason = session.goodbye().await.reason;
        assert_eq!(reason, GoodbyeReason::Superseded { connect_seq: 7 });
    }
    old.is_alive().await;
    let mut new = node.open(gateway.address, 8).await;
    let reason = old.goodbye().await.reason;
    assert_eq!(reason, GoodbyeReason::Superseded { connect_seq: 8 });
    new.is_alive().await;
    let mut link = control.link().await;
    match &*link.listed().await {
        [Event::Opened(opened), Event::Listed] => assert_eq!(opened.connect_seq, 8),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_old_node_may_only_upgrade_and_a_new_one_is_told() {
    let control = Control::start().await;
    let gateway = Home::new(&control, "").start().await;
    let mut link = control.link_with(2, &[]).await;
    link.listed().await;
    let node = Node::new(&control.authority, "a");
    let mut session = node.connect(gateway.address).await;
    session
        .say(FromNode::Hello(Hello {
            protocols: ProtocolRange { min: 1, max: 1 },
            ..hello(1)
        }))
        .await;
    let welcome = session.welcome().await;
    assert_eq!(
        (welcome.upgrade_required, welcome.server_proto_min),
        (true, 2)
    );
    opened(&mut link, &node.id).await;
    // With the minimum back, the session turns, and gets what comes from then on.
    let settings = Settings {
        protocol_min: 1,
        heartbeat_interval_ms: 1000,
    };
    link.send(FromControl::Settings(settings)).await;
    assert!(!turned(&mut link, &node.id).await);
    push(&mut link, &node.id, empty(2)).await;
    assert_eq!(session.next().await, Some(FromGateway::Spec(Ok(empty(2)))));
    let mut session = node.connect(gateway.address).await;
    session.hello(2).await;
    let welcome = session.welcome().await;
    assert_eq!(
        (welcome.upgrade_required, welcome.heartbeat_interval_ms),
        (false, 1000)
    );
    opened(&mut link, &node.id).await;
    push(&mut link, &node.id, empty(3)).await;
    assert_eq!(session.next().await, Some(FromGateway::Spec(Ok(empty(3)))));

    let mut session = Node::new(&control.authority, "b")
        .connect(gateway.address)
        .await;
    session
        .say(FromNode::Hello(Hello {
            protocols: ProtocolRange { min: 90, max: 99 },
            ..hello(1)
        }))
        .await;
    let goodbye = session.goodbye().await;
    assert_eq!(goodbye.reason, GoodbyeReason::ProtocolTooNew);
    assert!(goodbye.message.contains("90"), "{}", goodbye.message);
}

#[tokio::test]
async fn who_says_nothing_is_sent_away() {
    let control = Control::start().await;
    let gateway = Home::new(&control, "[limits]\nhello_timeout = \"200ms\"")
        .start()
        .await;
    let node = Node::new(&control.authority, "a");
    let goodbye = node.connect(gateway.address).await.goodbye().await;
    assert_eq!(goodbye.reason, GoodbyeReason::ProtocolError);
    assert!(goodbye.message.contains("200ms"), "{}", goodbye.message);
}

#[tokio::test]
async fn a_node_that_falls_silent_is_given_up() {
    let control = Control::start().await;
    let gateway = Home::new(&control, "").start().await;
    let mut link = control.link().await;
    // Control's word counts, also for sessions that are there already.
    let settings = Settings {
        protocol_min: 1,
        heartbeat_interval_ms: 100,
    };
    let node = Node::new(&control.authority, "a");
    // Nobody reads it, so nobody answers the gateway's pings.
    let _silent = node.open(gateway.address, 1).await;
    link.send(FromControl::Settings(settings)).await;
    let reason = closed(&mut link, &node.id).await;
    assert!(reason.contains("sign of life"), "{reason}");
}

#[tokio::test]
async fn broken_messages_end_their_own_session_only() {
    let control = Control::start().await;
    let gateway = Home::new(&control, "").start().await;
    let mut neighbour = Node::new(&control.authority, "b")
        .open(gateway.address, 1)
        .await;
    let node = Node::new(&control.authority, "a");
    for message in [
        Message::Binary(vec![0; SESSION_FRAME_BYTES_MAX + 1].into()),
        Message::Binary(Bytes::from_static(b"\xff\xff\xff")),
        Message::Binary(Bytes::new()),
        Message::Text("{}".into()),
    ] {
        let mut session = node.connect(gateway.address).await;
        // The gateway may leave while this is still being sent.
        drop(soon(session.socket.send(message.clone())).await);
        let goodbye = session.goodbye().await;
        assert_eq!(goodbye.reason, GoodbyeReason::ProtocolError, "{message:?}");
    }
    neighbour.is_alive().await;
}

#[tokio::test]
async fn a_flood_of_messages_or_bytes_ends_the_session() {
    let control = Control::start().await;
    let limits = "[limits]\nmessages_burst = 20\nmessages_per_second = 1\nbytes_burst = 1114112\n\
                  bytes_per_second = 1024";
    let gateway = Home::new(&control, limits).start().await;
    let node = Node::new(&control.authority, "a");
    let mut session = node.open(gateway.address, 1).await;
    for number in 1..30 {
        session.report(number).await;
    }
    assert_eq!(session.goodbye().await.reason, GoodbyeReason::Overloaded);
    // Fragments of a message that never ends are none, but they are bytes.
    let mut link = control.link().await;
    link.listed().await;
    let mut session = node.open(gateway.address, 2).await;
    session.flood().await;
    let reason = closed(&mut link, &node.id).await;
    assert!(reason.contains("burst of 1114112"), "{reason}");
}

#[tokio::test]
async fn a_node_that_does_not_read_holds_up_nobody() {
    let control = Control::start().await;
    let gateway = Home::new(&control, "[limits]\nwrite_timeout = \"500ms\"")
        .start()
        .await;
    let mut link = control.link().await;
    let (slow, quick) = (
        Node::new(&control.authority, "slow"),
        Node::new(&control.authority, "quick"),
    );
    let _unread = slow.open(gateway.address, 1).await;
    let mut session = quick.open(gateway.address, 1).await;
    opened(&mut link, &slow.id).await;
    for generation in 1..400 {
        push(&mut link, &slow.id, large(generation)).await;
        push(&mut link, &quick.id, empty(generation)).await;
        // Newer ones replace those that wait, so a generation may be passed over, but not this last one for long.
        while let Some(message) = session.next().await {
            if message == FromGateway::Spec(Ok(empty(generation))) {
                break;
            }
        }
    }
    let reason = closed(&mut link, &slow.id).await;
    assert!(reason.contains("500ms"), "{reason}");
    session.is_alive().await;
}

#[tokio::test]
async fn an_idle_session_costs_little_memory() {
    const SESSIONS: usize = 400;
    let control = Control::start().await;
    let gateway = Home::new(&control, "").start().await;
    let mut sessions = Vec::new();
    let mut open = async |count: usize| {
        for number in 0..count {
            let node = Node::new(&control.authority, &format!("{} {number}", sessions.len()));
            sessions.push(node.open(gateway.address, 1).await);
        }
    };
    // What the process needs anyway is there after the first few.
    open(50).await;
    let before = gateway.resident();
    open(SESSIONS).await;
    let each = gateway.resident().saturating_sub(before) / SESSIONS;
    // With the library's own buffers it would be 150 KiB.
    assert!(each < 32 << 10, "{each} bytes a session");
}

#[tokio::test]
async fn a_gateway_that_stops_says_goodbye_and_tells_control() {
    let control = Control::start().await;
    let mut gateway = Home::new(&control, "drain = \"5s\"").start().await;
    let mut link = control.link().await;
    let nodes = ["a", "b", "c"].map(|name| Node::new(&control.authority, name));
    let mut sessions = Vec::new();
    for node in &nodes {
        sessions.push(node.open(gateway.address, 1).await);
    }
    link.listed().await;
    let started = tokio::time::Instant::now();
    gateway.terminate();
    for session in &mut sessions {
        let goodbye = session.goodbye().await;
        assert_eq!(goodbye.reason, GoodbyeReason::Stopping);
        assert!(goodbye.reconnect_after_ms > 0);
    }
    let mut left = 0;
    link.until(|event| {
        left += usize::from(matches!(event, Event::Closed(_)));
        (left == nodes.len()).then_some(())
    })
    .await;
    assert_eq!(gateway.ended().await.code(), Some(0));
    // Three sessions need no five seconds.
    assert!(started.elapsed() < Duration::from_secs(5));
}

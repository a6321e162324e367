//! Who comes too often, or with too many.

use std::time::Duration;

use tokio::{
    io::AsyncReadExt,
    net::TcpStream,
    time::{Instant, timeout},
};

use crate::{
    control::Control,
    node::{Node, secure},
    process::{Gateway, Home},
    soon,
    strangers::{GET, answer},
};

const SHOWN: &str = "metrics_listen = \"127.0.0.1:0\"\n[limits]\n";

async fn start(control: &Control, limits: &str) -> Gateway {
    Home::new(control, &format!("{SHOWN}{limits}"))
        .start()
        .await
}

async fn reached(gateway: &Gateway, limit: &str) -> u64 {
    let series = format!("bc_gateway_limits_reached_total{{limit=\"{limit}\"}}");
    gateway.series(&series).await
}

/// Whether a connection is ended without a word.
async fn is_turned_away(gateway: &Gateway) -> bool {
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    soon(stream.read(&mut [0])).await.unwrap_or(0) == 0
}

#[tokio::test]
async fn a_crowd_waits_for_its_turn_and_all_of_it_comes_in() {
    let control = Control::start().await;
    let limits = "handshakes_per_second = 20\nhandshakes_burst = 1";
    let gateway = start(&control, limits).await;
    let from = Instant::now();
    let nodes: Vec<_> = (0..8)
        .map(|name| Node::new(&control.authority, &format!("{name}")))
        .collect();
    let sessions = nodes.iter().map(|node| node.open(gateway.address, 1));
    let sessions = soon(futures_util::future::join_all(sessions)).await;
    // The eighth comes in seven twentieths of a second later than the first.
    assert!(
        from.elapsed() >= Duration::from_millis(350),
        "{:?}",
        from.elapsed()
    );
    for mut session in sessions {
        session.is_alive().await;
    }
    assert_eq!(reached(&gateway, "handshakes-per-second").await, 0);
}

#[tokio::test]
async fn who_would_wait_too_long_is_turned_away_before_tls() {
    let control = Control::start().await;
    let limits = "handshakes_per_second = 1\nhandshakes_burst = 1\nhandshakes_wait = \"100ms\"";
    let gateway = start(&control, limits).await;
    let node = Node::new(&control.authority, "a");
    let mut session = node.open(gateway.address, 1).await;
    assert!(is_turned_away(&gateway).await);
    session.is_alive().await;
    assert_eq!(reached(&gateway, "handshakes-per-second").await, 1);
}

#[tokio::test]
async fn an_address_that_comes_too_often_is_turned_away_and_others_are_not() {
    let control = Control::start().await;
    let limits = "handshakes_per_address_per_second = 1\nhandshakes_per_address_burst = 1";
    let gateway = start(&control, limits).await;
    let node = Node::new(&control.authority, "a");
    let mut session = node.open(gateway.address, 1).await;
    assert!(is_turned_away(&gateway).await);
    session.is_alive().await;
    assert_eq!(reached(&gateway, "handshakes-per-address").await, 1);
    let elsewhere = tokio::net::TcpSocket::new_v4().unwrap();
    elsewhere.bind("127.0.0.7:0".parse().unwrap()).unwrap();
    let mut stream = elsewhere.connect(gateway.address).await.unwrap();
    // It waits for a word of TLS.
    let silence = timeout(Duration::from_millis(200), stream.read(&mut [0])).await;
    assert!(silence.is_err(), "{silence:?}");
}

#[tokio::test]
async fn a_node_that_comes_too_often_is_told_when_to_come_again() {
    let control = Control::start().await;
    let limits = "sessions_per_node_per_minute = 1\nsessions_per_node_burst = 2";
    let gateway = start(&control, limits).await;
    let (often, once) = (
        Node::new(&control.authority, "often"),
        Node::new(&control.authority, "once"),
    );
    often.open(gateway.address, 1).await;
    let mut session = often.open(gateway.address, 2).await;
    let answer = answer(gateway.address, &often.tls, GET).await;
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    let head = answer.to_ascii_lowercase();
    let wait = head
        .lines()
        .find_map(|line| line.strip_prefix("retry-after: "));
    let wait: u64 = wait.unwrap().parse().unwrap();
    assert!((50..=61).contains(&wait), "{wait}");
    // The session that it has is none the worse.
    session.is_alive().await;
    once.open(gateway.address, 1).await.is_alive().await;
    assert_eq!(reached(&gateway, "sessions-per-node").await, 1);
}

#[tokio::test]
async fn a_gateway_that_is_full_says_so_and_takes_one_when_one_leaves() {
    let control = Control::start().await;
    let gateway = start(&control, "connections_max = 1").await;
    let node = Node::new(&control.authority, "a");
    let session = node.open(gateway.address, 1).await;
    assert!(is_turned_away(&gateway).await);
    let (status, body) = gateway.ask("/readyz").await;
    assert_eq!(status, 503);
    assert!(body.contains("\"full\""), "{body}");
    assert_eq!(reached(&gateway, "connections").await, 1);
    drop(session);
    gateway
        .until(async || gateway.ask("/readyz").await.0 == 200)
        .await;
    node.open(gateway.address, 2).await.is_alive().await;
}

#[tokio::test]
async fn what_ends_a_session_is_counted() {
    let control = Control::start().await;
    let limits = "hello_timeout = \"100ms\"\nhandshake_timeout = \"100ms\"\nmessages_burst = 10\n\
                  messages_per_second = 1\nbytes_burst = 1114112\nbytes_per_second = 1024";
    let gateway = start(&control, limits).await;
    let node = Node::new(&control.authority, "a");
    node.connect(gateway.address).await.goodbye().await;
    let mut fast = node.open(gateway.address, 1).await;
    for number in 1..20 {
        drop(fast.try_report(number).await);
    }
    let large = Node::new(&control.authority, "b");
    large.open(gateway.address, 1).await.flood().await;
    let mut drip = TcpStream::connect(gateway.address).await.unwrap();
    drop(soon(drip.read(&mut [0])).await);
    drop(secure(gateway.address, &control.authority.nobody()).await);
    for limit in [
        "hello-timeout",
        "messages-per-second",
        "bytes-per-second",
        "handshake-timeout",
        "strangers",
    ] {
        gateway
            .until(async || reached(&gateway, limit).await == 1)
            .await;
    }
}

//! Whoever is no node.

use rcgen::{CertificateParams, ExtendedKeyUsagePurpose};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    authority::Authority,
    control::Control,
    node::{Node, secure},
    process::Home,
    soon,
};

pub(crate) const GET: &str = "GET /session HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// What a server says to `request` before it closes; nothing if it breaks off.
pub(crate) async fn answer(
    gateway: std::net::SocketAddr,
    tls: &std::sync::Arc<rustls::ClientConfig>,
    request: &str,
) -> String {
    let mut answer = Vec::new();
    if let Ok(mut stream) = secure(gateway, tls).await
        && stream.write_all(request.as_bytes()).await.is_ok()
    {
        drop(soon(stream.read_to_end(&mut answer)).await);
    }
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn only_a_node_of_this_authority_is_answered() {
    let control = Control::start().await;
    let gateway = Home::new(&control, "").start().await;
    let authority = &control.authority;
    let mut old = CertificateParams::default();
    old.not_before = rcgen::date_time_ymd(2000, 1, 1);
    old.not_after = rcgen::date_time_ymd(2001, 1, 1);
    old.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    for (who, tls) in [
        ("no certificate", authority.nobody()),
        ("a gateway's certificate", authority.other()),
        ("an expired certificate", authority.client(&old)),
    ] {
        assert_eq!(answer(gateway.address, &tls, GET).await, "", "{who}");
    }
    // Of another authority, which this client pretends to trust the gateway by.
    let another = Authority::new();
    let node = Node::new(&another, "a");
    assert!(
        secure(gateway.address, &another.node(&node.id))
            .await
            .is_err()
    );
}

#[tokio::test]
async fn other_requests_get_a_plain_answer() {
    let control = Control::start().await;
    let gateway = Home::new(&control, "").start().await;
    let tls = control
        .authority
        .node(&bc_protocol::id::NodeId::derived(&[]));
    let long = format!(
        "GET /session HTTP/1.1\r\nHost: {}\r\n\r\n",
        "x".repeat(10_000)
    );
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "404"),
        ("GET /session/ HTTP/1.1\r\nHost: x\r\n\r\n", "404"),
        ("GET /session HTTP/1.1\r\nHost: x\r\n\r\n", "400"),
        (
            "POST /session HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
            "400",
        ),
        (&GET.replace("13", "8"), "400"),
        (&GET.replace("/session", "/sessions"), "404"),
        ("\r\n\r\nnonsense\r\n\r\n", "400"),
        (&long, "431"),
    ] {
        let answer = answer(gateway.address, &tls, request).await;
        let expected = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&expected), "{request}: {answer}");
    }
}

#[tokio::test]
async fn who_only_looks_whether_somebody_is_there_is_no_stranger() {
    let control = Control::start().await;
    let metrics = "metrics_listen = \"127.0.0.1:0\"";
    let gateway = Home::new(&control, metrics).start().await;
    for _ in 0..3 {
        drop(TcpStream::connect(gateway.address).await.unwrap());
        let hasty = TcpStream::connect(gateway.address).await.unwrap();
        // With a reset, as balancers like it.
        hasty.set_zero_linger().unwrap();
    }
    let mut real = TcpStream::connect(gateway.address).await.unwrap();
    real.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    drop(soon(real.read(&mut [0])).await);
    gateway
        .until(async || gateway.series("bc_gateway_connections").await == 0)
        .await;
    let strangers = "bc_gateway_limits_reached_total{limit=\"strangers\"}";
    assert_eq!(gateway.series(strangers).await, 1);
}

#[tokio::test]
async fn a_socket_that_drips_is_closed_and_takes_nobodys_place() {
    let control = Control::start().await;
    let limits = "[limits]\nhandshake_timeout = \"500ms\"\nunwelcomed_per_address = 2";
    let gateway = Home::new(&control, limits).start().await;
    let node = Node::new(&control.authority, "a");
    let mut session = node.open(gateway.address, 1).await;
    let mut dripping = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        stream.write_all(b"\x16").await.unwrap();
        dripping.push(stream);
    }
    // Two are all that an address may have before their welcome; the one that was welcomed does not count.
    let mut third = TcpStream::connect(gateway.address).await.unwrap();
    assert_eq!(soon(third.read(&mut [0])).await.unwrap_or(0), 0);
    for mut stream in dripping {
        drop(soon(stream.read(&mut [0])).await);
    }
    session.is_alive().await;
    node.open(gateway.address, 2).await.is_alive().await;
}

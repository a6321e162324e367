//! How it goes, and how it ends.

use std::time::Duration;

use bc_protocol::session::GoodbyeReason;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream, UnixDatagram},
    time::Instant,
};

use crate::{
    control::{Answer, Control},
    node::{Node, Session},
    process::{Gateway, Home, asked},
    soon,
    strangers::{GET, answer},
};

const SHOWN: &str = "metrics_listen = \"127.0.0.1:0\"";

#[tokio::test]
async fn it_shows_how_it_goes_from_the_first_moment() {
    let control = Control::start().await;
    control.answers.lock().unwrap().extend([Answer::Lost; 60]);
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let shown = free.local_addr().unwrap();
    drop(free);
    let home = Home::new(&control, &format!("metrics_listen = \"{shown}\""));
    let mut child = home.command().spawn().unwrap();
    let (status, body) = soon(async {
        loop {
            if let Ok(answer) = asked(shown, "/readyz").await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(status, 503);
    assert!(body.contains("\"enrolling\""), "{body}");
    assert_eq!(asked(shown, "/healthz").await.unwrap().0, 200);
    soon(child.kill()).await.unwrap();
}

#[tokio::test]
async fn it_answers_four_questions_and_no_other() {
    let control = Control::start().await;
    let gateway = Home::new(&control, SHOWN).start().await;
    let node = Node::new(&control.authority, "a");
    let _session = node.open(gateway.address, 1).await;
    let (status, body) = gateway.ask("/readyz").await;
    assert_eq!(status, 200);
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    // Nodes are welcome without a link.
    assert_eq!(
        (&body["status"], &body["link"]),
        (&"ready".into(), &"down".into())
    );
    assert_eq!(body["sessions"], 1);
    let (status, version) = gateway.ask("/version").await;
    assert_eq!(status, 200);
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    assert_eq!(gateway.ask("/healthz").await.0, 200);
    assert_eq!(gateway.ask("/").await.0, 404);
    assert_eq!(gateway.series("bc_gateway_sessions").await, 1);
    assert_eq!(gateway.series("bc_gateway_connections").await, 1);
    assert_eq!(gateway.series("bc_gateway_linked").await, 0);
    assert_eq!(gateway.series("bc_gateway_nodes_untold").await, 1);
    let mut link = control.link().await;
    link.listed().await;
    gateway
        .until(async || {
            gateway.series("bc_gateway_linked").await == 1
                && gateway.series("bc_gateway_nodes_untold").await == 0
                && gateway
                    .series("bc_gateway_link_batches_unacknowledged")
                    .await
                    == 0
        })
        .await;
    // Nor does the listener for nodes answer them.
    let other = answer(
        gateway.address,
        &node.tls,
        &GET.replace("/session", "/metrics"),
    )
    .await;
    assert!(other.starts_with("HTTP/1.1 404 "), "{other}");
}

/// A gateway that was told to stop and has begun to, with a session that does not read, so that it is still there when it
/// is looked at.
async fn draining(control: &Control, drain: &str) -> (Gateway, Session) {
    let gateway = Home::new(control, &format!("{SHOWN}\ndrain = \"{drain}\""))
        .start()
        .await;
    let unread = Node::new(&control.authority, "a")
        .open(gateway.address, 1)
        .await;
    gateway.terminate();
    gateway
        .until(async || gateway.ask("/readyz").await.0 == 503)
        .await;
    (gateway, unread)
}

#[tokio::test]
async fn a_gateway_that_drains_is_not_ready_and_lets_nobody_in() {
    let control = Control::start().await;
    let (mut gateway, _unread) = draining(&control, "4s").await;
    let (_, body) = gateway.ask("/readyz").await;
    assert!(body.contains("\"draining\""), "{body}");
    assert_eq!(gateway.ask("/healthz").await.0, 200);
    assert_eq!(gateway.series("bc_gateway_draining").await, 1);
    soon(async { while TcpStream::connect(gateway.address).await.is_ok() {} }).await;
    assert_eq!(gateway.ended().await.code(), Some(0));
}

#[tokio::test]
async fn goodbyes_are_spread_and_the_end_is_within_the_drain_time() {
    const SESSIONS: usize = 60;
    let control = Control::start().await;
    let mut gateway = Home::new(&control, "drain = \"2s\"").start().await;
    // It takes facts and never says that it has them.
    let _link = control.link().await;
    let nodes: Vec<_> = (0..SESSIONS)
        .map(|name| Node::new(&control.authority, &format!("{name}")))
        .collect();
    let mut sessions = Vec::new();
    for node in &nodes {
        sessions.push(node.open(gateway.address, 1).await);
    }
    let unread = sessions.pop().unwrap();
    let from = Instant::now();
    gateway.terminate();
    let goodbyes = sessions.iter_mut().map(async |session| {
        let goodbye = session.goodbye().await;
        assert_eq!(goodbye.reason, GoodbyeReason::Stopping);
        from.elapsed()
    });
    let mut at = futures_util::future::join_all(goodbyes).await;
    at.sort();
    let (first, last) = (at[0], at[at.len() - 1]);
    // Ten milliseconds apart.
    assert!(last - first > Duration::from_millis(400), "{at:?}");
    assert_eq!(gateway.ended().await.code(), Some(0));
    assert!(
        from.elapsed() < Duration::from_millis(2500),
        "{:?}",
        from.elapsed()
    );
    drop(unread);
}

#[tokio::test]
async fn told_twice_it_leaves_at_once() {
    let control = Control::start().await;
    let (mut gateway, _unread) = draining(&control, "1h").await;
    gateway.terminate();
    assert_eq!(gateway.ended().await.code(), Some(0));
}

#[tokio::test]
async fn the_service_manager_hears_how_it_goes() {
    let control = Control::start().await;
    let home = Home::new(&control, &format!("{SHOWN}\ndrain = \"1s\""));
    let ear = UnixDatagram::bind(home.path("notify")).unwrap();
    let mut command = home.command();
    command
        .env("NOTIFY_SOCKET", home.path("notify"))
        .env("WATCHDOG_USEC", "1000000");
    let mut gateway = Home::started(command).await;
    let heard = async |word: &str| {
        let mut buffer = [0; 512];
        loop {
            let length = soon(ear.recv(&mut buffer)).await.unwrap();
            let said = str::from_utf8(&buffer[..length]).unwrap();
            if said.lines().any(|line| line == word) {
                return said.to_owned();
            }
        }
    };
    heard("READY=1").await;
    heard("WATCHDOG=1").await;
    gateway.reload().await;
    let said = heard("RELOADING=1").await;
    assert!(said.contains("MONOTONIC_USEC="), "{said}");
    heard("READY=1").await;
    gateway.terminate();
    heard("STOPPING=1").await;
    assert_eq!(gateway.ended().await.code(), Some(0));
}

#[tokio::test]
async fn on_demand_every_line_of_the_log_is_an_object() {
    let control = Control::start().await;
    control.answers.lock().unwrap().push_back(Answer::No);
    let home = Home::new(&control, "");
    control.answers.lock().unwrap().push_front(Answer::Lost);
    let ended = home.fails(&["--log-format", "json"]).await;
    let lines: Vec<_> = ended.stderr.lines().collect();
    // The last is for whoever started it.
    let (last, lines) = lines.split_last().unwrap();
    assert!(last.starts_with("bc-gateway: "), "{last}");
    assert!(!lines.is_empty());
    for line in lines {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(
            line["level"].is_string() && line["timestamp"].is_string(),
            "{line}"
        );
    }
}

/// Whoever never became a session would otherwise keep the door shut for as long as it likes to say nothing.
#[tokio::test]
async fn who_has_no_session_does_not_hold_up_the_end() {
    let control = Control::start().await;
    let hours = "drain = \"1h\"\n[limits]\nhandshake_timeout = \"1h\"\nhello_timeout = \"1h\"";
    let mut gateway = Home::new(&control, &format!("{SHOWN}\n{hours}"))
        .start()
        .await;
    let mut silent = Vec::new();
    for said in [&b""[..], b"\x16", b"\x16\x03\x01\x01\x00"] {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        stream.write_all(said).await.unwrap();
        silent.push(stream);
    }
    let node = Node::new(&control.authority, "a");
    let mut mute = node.connect(gateway.address).await;
    let mut session = node.open(gateway.address, 1).await;
    gateway
        .until(async || gateway.series("bc_gateway_connections").await == 5)
        .await;
    gateway.terminate();
    for session in [&mut session, &mut mute] {
        assert_eq!(session.goodbye().await.reason, GoodbyeReason::Stopping);
    }
    assert_eq!(gateway.ended().await.code(), Some(0));
}

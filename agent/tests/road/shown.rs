//! What a node shows to its own machine.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::{fleet::Fleet, node::Node};

#[tokio::test]
async fn a_node_shows_itself_to_its_own_machine_alone() {
    let fleet = Fleet::start().await;
    let node = Node::new(&fleet);
    node.join();
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listen = free.local_addr().unwrap();
    drop(free);
    let mut supervise = node.supervise_with(&[("BCD_METRICS_LISTEN", listen.to_string())]);
    let _session = fleet.session().await;
    node.connected().await;

    // Who says nothing holds nobody up for long.
    let _silent = TcpStream::connect(listen).await.unwrap();
    let shown = ask(listen, "GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n").await;
    let (head, metrics) = shown.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let length = format!("Content-Length: {}", metrics.len());
    assert!(head.contains(&length), "{head}");
    for line in [
        "bcd_session_connected 1",
        "bcd_running_sequence 0",
        "bcd_release_floor 0",
        "bcd_trial 0",
        "bcd_held 0",
    ] {
        assert!(
            metrics.lines().any(|shown| shown == line),
            "{line}: {metrics}"
        );
    }
    let refused = ask(listen, "POST /metrics HTTP/1.1\r\n\r\n").await;
    assert!(refused.starts_with("HTTP/1.1 404 "), "{refused}");

    supervise.terminate();
    assert!(supervise.wait().await.success());
}

#[tokio::test]
async fn a_log_for_programs_is_an_object_a_line() {
    let fleet = Fleet::start().await;
    let node = Node::packaged(&fleet);
    let log = node.boot_logs("json");
    assert!(!log.is_empty());
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["level"], "INFO", "{line}");
        assert!(line["fields"]["message"].is_string(), "{line}");
    }
}

async fn ask(listen: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(listen).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

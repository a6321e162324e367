//! Where it shows how it goes, beside strangers.

use std::process::Stdio;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{control::Control, process::Home, soon};

const SHOWN: &str = "metrics_listen = \"127.0.0.1:0\"";
const REACHED: &str = "bc_gateway_limits_reached_total{limit=\"status\"}";

#[tokio::test]
async fn strangers_that_hold_on_to_it_keep_nobody_from_an_answer() {
    let control = Control::start().await;
    let gateway = Home::new(&control, SHOWN).start().await;
    let shown = gateway.shown.unwrap();
    let mut held = Vec::new();
    for said in [
        "",
        "GET /metrics HTTP/1.1\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n",
    ] {
        for _ in 0..30 {
            let mut stream = TcpStream::connect(shown).await.unwrap();
            // It may have been put out already.
            drop(stream.write_all(said.as_bytes()).await);
            held.push(stream);
        }
    }
    assert_eq!(gateway.ask("/readyz").await.0, 200);
    // They are counted as what they are: of sixty, no more than an address's share was left in its place.
    assert!(gateway.series(REACHED).await >= 44);
    drop(held);
}

#[tokio::test]
async fn a_connection_is_one_question() {
    let control = Control::start().await;
    let gateway = Home::new(&control, SHOWN).start().await;
    let mut stream = TcpStream::connect(gateway.shown.unwrap()).await.unwrap();
    let question = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    stream.write_all(question.as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon(stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    // Whoever only looks whether somebody is there has reached no limit.
    drop(TcpStream::connect(gateway.shown.unwrap()).await.unwrap());
    assert_eq!(gateway.series(REACHED).await, 0);
}

#[tokio::test]
async fn without_descriptors_it_says_so_now_and_then_and_counts() {
    let control = Control::start().await;
    let home = Home::new(&control, SHOWN);
    let mut command = home.command();
    let log = std::fs::File::create(home.path("log")).unwrap();
    command.stderr(Stdio::from(log));
    let gateway = Home::started(command).await;
    let pid = Pid::from_raw(gateway.pid().cast_signed());
    let files = |current: Option<u64>| {
        let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Nofile);
        prlimit(pid, Resource::Nofile, Rlimit { current, maximum }).unwrap()
    };
    let before = files(Some(1));
    let _waits = TcpStream::connect(gateway.shown.unwrap()).await.unwrap();
    let said = || {
        let log = std::fs::read_to_string(home.path("log")).unwrap();
        let lines = log.lines().filter(|line| line.contains("cannot accept"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    // The first says it, and the second how many others were passed over: it tries again ten times a second.
    gateway.until(async || said().len() >= 2).await;
    let lines = said();
    assert!(lines[0].contains("limit=\"status\""), "{lines:?}");
    assert!(!lines[1].contains("unsaid=0"), "{lines:?}");
    files(before.current);
    gateway
        .until(async || gateway.ask("/healthz").await.0 == 200)
        .await;
    assert!(gateway.series(REACHED).await >= 2);
}

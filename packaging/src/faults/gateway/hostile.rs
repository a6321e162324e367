//! Peers that do what no node does, each with a proper certificate.
//!
//! Whatever it is, the connection ends in bounded time, an honest node beside it notices nothing, and when all are gone
//! the gateway holds no more than before.

use std::{net::IpAddr, path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use bc_protocol::session::{FromNode, StatusReport};
use futures_util::{StreamExt, stream};
use tokio::{io::AsyncWriteExt, time::timeout};

use super::{
    Found,
    house::House,
    node::Crowd,
    raw::{Credential, Mint, PATIENCE, Raw, dial, facts, head, hello, masked},
};

/// Where they come from.
const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 66));

/// How often each comes, at once: one alone shows nothing of memory.
const TIMES: usize = 12;

/// Tricks that are played at the same time.
const TRICKS_AT_ONCE: usize = 6;

/// Memory that the gateway may keep from all of them: what its allocator holds back, and not what they sent.
const KEPT_BYTES_MAX: u64 = 24 << 20;

/// Short where a campaign would only wait, and long enough for a peer on a busy machine to play its trick at all. A peer that
/// does not read is given up after a write's time-out.
const LIMITS: &str = "handshake_timeout = \"6s\"\nhello_timeout = \"6s\"\nwrite_timeout = \"2s\"\n\
                      sessions_per_node_burst = 100000\nbytes_burst = 4194304";

/// How a peer misbehaves.
#[derive(Clone, Copy)]
enum Trick {
    /// Sends these instead of TLS.
    Clear(&'static [u8]),
    /// Sends these instead of a request.
    Request(fn() -> Vec<u8>),
    /// Sends these after the upgrade, again and again if it is a flood.
    Frames(fn() -> Result<Vec<u8>>, Flood),
    /// The same after a Welcome.
    Welcomed(fn() -> Result<Vec<u8>>, Flood),
    /// Is welcomed, asks for answers without end and reads none of them.
    Deaf,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flood {
    Once,
    WithoutEnd,
}

const TRICKS: &[(&str, Trick)] = &[
    (
        "nonsense instead of TLS",
        Trick::Clear(b"\x00\x01\x02nonsense\r\n\r\n"),
    ),
    (
        "HTTP instead of TLS",
        Trick::Clear(b"GET /session HTTP/1.1\r\nHost: x\r\n\r\n"),
    ),
    (
        "a record of TLS that says 64 KiB",
        Trick::Clear(b"\x16\x03\x01\xff\xff\x01"),
    ),
    (
        "half a ClientHello",
        Trick::Clear(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    ),
    ("no request", Trick::Request(Vec::new)),
    (
        "half a request",
        Trick::Request(|| b"GET /session HT".to_vec()),
    ),
    (
        "a header of a megabyte",
        Trick::Request(|| header(&"x".repeat(1 << 20))),
    ),
    (
        "ten thousand headers",
        Trick::Request(|| header(&"x\r\nY: ".repeat(10_000))),
    ),
    (
        "a target of a megabyte",
        Trick::Request(|| format!("GET /{} HTTP/1.1\r\n\r\n", "s".repeat(1 << 20)).into_bytes()),
    ),
    (
        "a body without end",
        Trick::Request(|| {
            let mut request =
                b"POST /session HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n".to_vec();
            request.extend([0; 1 << 20]);
            request
        }),
    ),
    ("no Hello", Trick::Frames(|| Ok(Vec::new()), Flood::Once)),
    (
        "half a Hello",
        Trick::Frames(|| Ok(said(1)?.into_iter().take(20).collect()), Flood::Once),
    ),
    (
        "an unmasked Hello",
        Trick::Frames(
            || {
                let message = FromNode::Hello(hello(1, 1)?).encode();
                let mut frame = head(0x82, 0, message.len() as u64);
                frame.extend(message);
                Ok(frame)
            },
            Flood::Once,
        ),
    ),
    (
        "reserved bits",
        Trick::Frames(|| Ok(masked(0xf2, b"x")), Flood::Once),
    ),
    (
        "a reserved opcode",
        Trick::Frames(|| Ok(masked(0x83, b"x")), Flood::Once),
    ),
    (
        "text that is no UTF-8",
        Trick::Frames(|| Ok(masked(0x81, b"\xff\xfe\xfd")), Flood::Once),
    ),
    (
        "text",
        Trick::Frames(|| Ok(masked(0x81, b"{}")), Flood::Once),
    ),
    (
        "no message of the schema",
        Trick::Frames(|| Ok(masked(0x82, b"\xff\xff\xff")), Flood::Once),
    ),
    (
        "a frame that says 2^62 bytes",
        Trick::Frames(|| Ok(head(0x82, 0x80, 1 << 62)), Flood::Once),
    ),
    (
        "a frame that says 2^64 bytes less one",
        Trick::Frames(|| Ok(head(0x82, 0x80, u64::MAX)), Flood::Once),
    ),
    (
        "a frame that says 2 MiB, and some of it",
        Trick::Frames(
            || {
                let mut frame = head(0x82, 0x80, 2 << 20);
                frame.extend([0; 1 << 16]);
                Ok(frame)
            },
            Flood::Once,
        ),
    ),
    (
        "a ping of a kilobyte",
        Trick::Frames(|| Ok(masked(0x89, &[0; 1024])), Flood::Once),
    ),
    (
        "a ping in parts",
        Trick::Frames(|| Ok(masked(0x09, b"x")), Flood::Once),
    ),
    (
        "a close of one byte",
        Trick::Frames(|| Ok(masked(0x88, b"x")), Flood::Once),
    ),
    (
        "a close with a code that is none",
        Trick::Frames(|| Ok(masked(0x88, &[0, 7])), Flood::Once),
    ),
    (
        "the end of a message that did not begin",
        Trick::Frames(|| Ok(masked(0x80, b"x")), Flood::Once),
    ),
    (
        "a message within another",
        Trick::Frames(
            || Ok([masked(0x02, b"x"), masked(0x82, b"x")].concat()),
            Flood::Once,
        ),
    ),
    (
        "a report before the Hello",
        Trick::Frames(|| report(1), Flood::Once),
    ),
    (
        "parts of a message without end, empty",
        Trick::Frames(
            || Ok([masked(0x02, b""), masked(0x00, b"").repeat(10_000)].concat()),
            Flood::WithoutEnd,
        ),
    ),
    (
        "parts of a message without end",
        Trick::Frames(
            || Ok([masked(0x02, b""), masked(0x00, &[0; 1000]).repeat(100)].concat()),
            Flood::WithoutEnd,
        ),
    ),
    ("a second Hello", Trick::Welcomed(|| said(2), Flood::Once)),
    (
        "pings without end",
        Trick::Welcomed(|| Ok(masked(0x89, b"ping").repeat(1000)), Flood::WithoutEnd),
    ),
    (
        "pongs without end",
        Trick::Welcomed(|| Ok(masked(0x8a, b"").repeat(1000)), Flood::WithoutEnd),
    ),
    (
        "reports without end",
        Trick::Welcomed(|| report(1), Flood::WithoutEnd),
    ),
    (
        "large frames without end",
        Trick::Welcomed(|| Ok(masked(0x82, &[0; 1 << 20])), Flood::WithoutEnd),
    ),
    ("deaf to answers", Trick::Deaf),
];

/// Plays every trick, each a dozen times at once.
pub(super) async fn run(gateway: &Path) -> Result<Found> {
    let mut house = House::start(gateway, 15_000, LIMITS).await?;
    let mint = Mint::new(&house.authority)?;
    let honest = mint.node(&house.authority, 0)?;
    let crowd = Crowd::gather(
        house.address,
        vec![honest.clone()],
        Duration::from_millis(200),
    );
    house
        .until("bc_gateway_sessions", 1, PATIENCE)
        .await
        .context("an honest node")?;
    let mut found = Found::default();
    let before = house.resident()?;
    let tricks: Vec<_> = stream::iter(TRICKS.iter().enumerate())
        .map(async |(number, (name, trick))| {
            let peers = (0..TIMES)
                .map(|time| mint.node(&house.authority, 1 + number * TIMES + time))
                .collect::<Result<Vec<_>>>()?;
            anyhow::Ok((*name, play(&house, *trick, peers).await))
        })
        .buffer_unordered(TRICKS_AT_ONCE)
        .collect()
        .await;
    for trick in tricks {
        let (name, played) = trick?;
        found.count(name, played);
    }
    house.check()?;
    let settled = house.until("bc_gateway_connections", 1, PATIENCE).await;
    found.count("who has left is forgotten", settled);
    let kept = house.resident()?.saturating_sub(before);
    found.count("memory", {
        let told =
            format!("expected at most {KEPT_BYTES_MAX} bytes more than before, found {kept}");
        (kept <= KEPT_BYTES_MAX).then_some(()).context(told)
    });
    found.count("the honest node", undisturbed(&house, &crowd));
    found.violations.extend(house.records.violations());
    Ok(found)
}

async fn play(house: &House, trick: Trick, peers: Vec<Credential>) -> Result<()> {
    let ended: Vec<_> = stream::iter(peers)
        .map(async |peer| {
            timeout(PATIENCE, one(house, trick, &peer))
                .await
                .context("expected an end in bounded time")?
        })
        .buffer_unordered(TIMES)
        .collect()
        .await;
    ended.into_iter().collect()
}

/// Plays a trick to the connection's end. That sending fails on the way is as good an end as any.
async fn one(house: &House, trick: Trick, peer: &Credential) -> Result<()> {
    match trick {
        Trick::Clear(bytes) => {
            let mut stream = dial(house.address, FROM).await?;
            stream.write_all(bytes).await.ok();
            let mut rest = Vec::new();
            tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut rest)
                .await
                .ok();
        }
        Trick::Request(request) => {
            let mut raw = Raw::secure(house.address, FROM, &peer.tls).await?;
            raw.send(&request()).await.ok();
            raw.end().await;
        }
        Trick::Frames(frames, flood) => {
            let raw = Raw::upgraded(house.address, FROM, &peer.tls).await?;
            send(raw, &frames()?, flood).await;
        }
        Trick::Welcomed(frames, flood) => {
            let mut raw = Raw::upgraded(house.address, FROM, &peer.tls).await?;
            raw.greet(hello(1, 1)?).await?;
            send(raw, &frames()?, flood).await;
        }
        Trick::Deaf => {
            let mut raw = Raw::upgraded(house.address, FROM, &peer.tls).await?;
            raw.greet(hello(1, 1)?).await?;
            // Until nothing is taken any more, and then until the gateway has had enough of it.
            let pings = masked(0x89, &[0; 125]);
            while raw.stream.write_all(&pings).await.is_ok() {}
        }
    }
    Ok(())
}

async fn send(raw: Raw, frames: &[u8], flood: Flood) {
    let (mut hears, mut speaks) = tokio::io::split(raw.stream);
    let speaking = async {
        loop {
            if speaks.write_all(frames).await.is_err() || speaks.flush().await.is_err() {
                return;
            }
            if flood == Flood::Once {
                std::future::pending::<()>().await;
            }
        }
    };
    let hearing = async {
        let mut drain = [0; 4096];
        while let Ok(1..) = tokio::io::AsyncReadExt::read(&mut hears, &mut drain).await {}
    };
    tokio::select! {
        () = speaking => {}
        () = hearing => {}
    }
}

/// The honest node has had one session all the time, and control has its newest word.
fn undisturbed(house: &House, crowd: &Crowd) -> Result<()> {
    let life = crowd.lives.first().context("an honest node")?;
    let state = life.state().clone();
    ensure!(
        state.live && state.tries.len() == 1,
        "expected one session from the start, found {} tries",
        state.tries.len()
    );
    ensure!(state.reports > 0, "expected reports, found none");
    let told = house.records.of(&life.who.id).generation;
    // The newest may be on its way.
    ensure!(
        told + 3 >= state.generation,
        "expected generation {} at control, found {told}",
        state.generation
    );
    Ok(())
}

fn header(value: &str) -> Vec<u8> {
    let mut request = Raw::request().to_vec();
    // Before the empty line.
    request.truncate(request.len() - 2);
    request.extend(format!("X: {value}\r\n\r\n").into_bytes());
    request
}

fn said(connect_seq: u64) -> Result<Vec<u8>> {
    let message = FromNode::Hello(hello(connect_seq, 1)?).encode();
    Ok(masked(0x82, &message))
}

fn report(number: u64) -> Result<Vec<u8>> {
    let facts = facts(1)?;
    let message = FromNode::Report(StatusReport { number, facts }).encode();
    Ok(masked(0x82, &message))
}

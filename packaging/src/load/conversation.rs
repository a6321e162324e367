//! What a simulated node and a gateway say to each other.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use anyhow::{Context, Result, bail};
use bc_protocol::{
    session::{
        AttemptFacts, Facts, FromGateway, FromNode, Hello, Outcome, ProtocolRange, StatusReport,
        Welcome,
    },
    spec::{DaemonSection, NodeSpec},
};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio::{
    net::TcpStream,
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{Message, protocol::WebSocketConfig},
};

use super::{
    monotonic,
    node::{Ended, Node, unwanted},
    tally::Tally,
};
use crate::{fleet::now, simulated::facts};

/// Enough for what idle nodes hear; the default is 128 KiB a node.
const READ_BUFFER_BYTES: usize = 2 << 10;

/// A session that was welcomed.
pub(super) struct Session {
    socket: WebSocketStream<TlsStream<TcpStream>>,
    heartbeat: Duration,
    facts: Facts,
    report: u64,
    pinged: Option<Duration>,
}

/// Asks for a session and says Hello.
pub(super) async fn open(
    stream: TlsStream<TcpStream>,
    gateway: &str,
    connect_seq: u64,
    tally: &Tally,
    since: Duration,
) -> Result<Session> {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0);
    let url = format!("wss://{gateway}/session");
    let (mut socket, _) = client_async_with_config(url, stream, Some(config))
        .await
        .context("upgrade")?;
    let facts = facts()?;
    let hello = Hello {
        nonce: rand::random(),
        protocols: ProtocolRange::CURRENT,
        connect_seq,
        facts: facts.clone(),
        commands_in_flight: Vec::new(),
        labels: [("cpu.arch".to_owned(), std::env::consts::ARCH.to_owned())].into(),
    };
    let said = monotonic();
    let frame = FromNode::Hello(hello).encode();
    socket.send(Message::Binary(frame)).await?;
    let welcome = welcome(&mut socket).await?;
    tally.opened(since, said);
    Ok(Session {
        socket,
        heartbeat: Duration::from_millis(welcome.heartbeat_interval_ms.into()),
        facts,
        report: 0,
        pinged: None,
    })
}

async fn welcome(socket: &mut WebSocketStream<TlsStream<TcpStream>>) -> Result<Welcome> {
    while let Some(message) = socket.next().await {
        let Message::Binary(bytes) = message? else {
            continue;
        };
        match FromGateway::decode(&bytes)? {
            FromGateway::Welcome(welcome) => return Ok(welcome),
            FromGateway::Goodbye(goodbye) => {
                bail!("told to leave ({:?}): {}", goodbye.reason, goodbye.message)
            }
            FromGateway::Spec(_) | FromGateway::Command(_) | FromGateway::Certificate(_) => {
                bail!("expected a Welcome first")
            }
        }
    }
    bail!("the gateway closed before the Welcome")
}

impl Session {
    /// Until one side leaves.
    pub(super) async fn hold(
        mut self,
        node: &Node,
        wanted: &mut watch::Receiver<usize>,
    ) -> Result<Ended> {
        let tally = &node.shared.tally;
        if let Some(heartbeat) = node.shared.plan.heartbeat_ms {
            self.heartbeat = Duration::from_millis(heartbeat);
        }
        // The first ping at a random moment, so that a fleet that opened together does not beat together.
        let first = self.heartbeat.mul_f64(rand::random());
        let mut ping_at = Instant::from_std(now()) + first;
        loop {
            tokio::select! {
                message = self.socket.next() => match message {
                    Some(message) => {
                        if let Some(ended) = Box::pin(self.heard(message?, tally)).await? {
                            return Ok(ended);
                        }
                    }
                    None => return Ok(Ended::Lost(None)),
                },
                () = sleep_until(ping_at) => {
                    ping_at += self.heartbeat;
                    self.pinged = Some(monotonic());
                    self.socket.send(Message::Ping(Bytes::new())).await?;
                }
                () = unwanted(wanted, node.index) => {
                    drop(self.socket.close(None).await);
                    return Ok(Ended::Unwanted);
                }
            }
        }
    }

    async fn heard(&mut self, message: Message, tally: &Tally) -> Result<Option<Ended>> {
        let bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Pong(_) => {
                if let Some(pinged) = self.pinged.take() {
                    tally.pong(pinged);
                }
                return Ok(None);
            }
            Message::Ping(_) => {
                tally.pings.fetch_add(1, Relaxed);
                // The answer is ready by now, and leaves with the next write at the latest.
                self.socket.flush().await?;
                return Ok(None);
            }
            Message::Text(_) | Message::Close(_) | Message::Frame(_) => return Ok(None),
        };
        match FromGateway::decode(&bytes)? {
            FromGateway::Spec(spec) => {
                tally.spec();
                self.obey(spec?, tally).await?;
            }
            FromGateway::Command(_) => {
                tally.commands.fetch_add(1, Relaxed);
            }
            FromGateway::Goodbye(goodbye) => return Ok(Some(Ended::Lost(Some(goodbye)))),
            FromGateway::Welcome(_) | FromGateway::Certificate(_) => {}
        }
        Ok(None)
    }

    /// Says that it runs what it was told to run, as soon as it is told.
    async fn obey(&mut self, spec: NodeSpec, tally: &Tally) -> Result<()> {
        self.facts.observed_generation = spec.generation;
        let Some(section) = spec.daemon else {
            return Ok(());
        };
        if section.version == self.facts.version {
            return Ok(());
        }
        upgrade(&mut self.facts, section);
        self.report += 1;
        tally.reports.fetch_add(1, Relaxed);
        let report = StatusReport {
            number: self.report,
            facts: self.facts.clone(),
        };
        let frame = FromNode::Report(report).encode();
        Ok(self.socket.send(Message::Binary(frame)).await?)
    }
}

/// Claims that the section's release runs and was confirmed.
fn upgrade(facts: &mut Facts, section: DaemonSection) {
    facts.digest = section.sha256;
    facts.last_attempt = Some(AttemptFacts {
        id: section.attempt,
        target: section.version.to_string(),
        outcome: Outcome::Confirmed,
        is_final: true,
        tries: 1,
        code: String::new(),
        message: String::new(),
        exit_status: None,
        signal: None,
        log: String::new(),
    });
    facts.version = section.version;
}

//! Clients of others' brokers, as little as it takes: connect, subscribe, ping, count what comes.
//!
//! They are here to be compared with, under the same load, over the same TLS.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    monotonic,
    node::{Ended, Node, unwanted},
    plan::Speech,
};
use crate::fleet::now;

/// What every client listens to.
pub const SUBJECT: &str = "spec";

const MQTT_CONNACK: u8 = 0x20;
const MQTT_PUBLISH: u8 = 0x30;
const MQTT_SUBACK: u8 = 0x90;
const MQTT_PINGRESP: u8 = 0xD0;

/// A connection to a broker.
pub(super) struct Peer {
    stream: Box<dyn Stream>,
    speech: Speech,
    pinged: Option<Duration>,
    /// What was read and is not whole yet.
    rest: Vec<u8>,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A NATS server greets in the clear, and TLS begins behind its greeting.
pub(super) async fn nats(
    node: &Node,
    name: &str,
    mut stream: TcpStream,
    since: Duration,
) -> Result<Peer> {
    // Nothing follows it before we have spoken, so it may be read in pieces of any size.
    let mut greeting = Vec::with_capacity(1024);
    while !greeting.ends_with(b"\r\n") {
        let read = stream.read_buf(&mut greeting).await.context("greeting")?;
        ensure!(read > 0, "the server closed before its greeting");
    }
    let mut stream = node.secure(name, stream).await?;
    let said = monotonic();
    let hello = format!(
        "CONNECT {{\"verbose\":false,\"pedantic\":false,\"tls_required\":true}}\r\nSUB {SUBJECT} 1\r\nPING\r\n"
    );
    stream.write_all(hello.as_bytes()).await?;
    let mut peer = Peer::new(Box::new(stream), Speech::Nats);
    peer.until(|peer| peer.nats_frame()).await?;
    node.shared.tally.opened(since, said);
    Ok(peer)
}

/// MQTT 3.1.1 over TLS.
pub(super) async fn mqtt(
    node: &Node,
    name: &str,
    stream: TcpStream,
    since: Duration,
) -> Result<Peer> {
    let mut stream = node.secure(name, stream).await?;
    let said = monotonic();
    let id = format!("n{}", node.shared.plan.first + node.index);
    stream.write_all(&mqtt_connect(&id)?).await?;
    let mut peer = Peer::new(Box::new(stream), Speech::Mqtt);
    ensure!(
        peer.until(Peer::mqtt_frame).await? == MQTT_CONNACK,
        "expected to be let in"
    );
    let mut subscribe = b"\0\x01".to_vec();
    text(&mut subscribe, SUBJECT)?;
    subscribe.push(0);
    peer.stream.write_all(&packet(0x82, &subscribe)?).await?;
    ensure!(
        peer.until(Peer::mqtt_frame).await? == MQTT_SUBACK,
        "expected a subscription"
    );
    node.shared.tally.opened(since, said);
    Ok(peer)
}

/// Nothing is said; each read counts as a message.
pub(super) fn raw(node: &Node, stream: TcpStream, since: Duration) -> Peer {
    node.shared.tally.opened(since, since);
    Peer::new(Box::new(stream), Speech::Raw)
}

/// An MQTT client's first packet.
pub(super) fn mqtt_connect(id: &str) -> Result<Vec<u8>> {
    let mut connect = b"\0\x04MQTT\x04\x02\0\0".to_vec();
    text(&mut connect, id)?;
    packet(0x10, &connect)
}

/// A message to all subscribers of an MQTT broker.
pub fn mqtt_publish(payload: &[u8]) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    text(&mut body, SUBJECT)?;
    body.extend_from_slice(payload);
    packet(MQTT_PUBLISH, &body)
}

/// A message to all subscribers of a NATS server.
pub fn nats_publish(payload: &[u8]) -> Vec<u8> {
    let mut message = format!("PUB {SUBJECT} {}\r\n", payload.len()).into_bytes();
    message.extend_from_slice(payload);
    message.extend_from_slice(b"\r\n");
    message
}

impl Peer {
    fn new(stream: Box<dyn Stream>, speech: Speech) -> Self {
        Self {
            stream,
            speech,
            pinged: None,
            rest: Vec::new(),
        }
    }

    /// Until one side leaves.
    pub(super) async fn hold(
        mut self,
        node: &Node,
        wanted: &mut watch::Receiver<usize>,
    ) -> Result<Ended> {
        // Hours where nobody asks for pings.
        let ms = node.shared.plan.heartbeat_ms.unwrap_or(36_000_000);
        let heartbeat = Duration::from_millis(ms);
        let mut ping_at = Instant::from_std(now()) + heartbeat.mul_f64(rand::random());
        loop {
            while let Some(kind) = self.frame()? {
                match kind {
                    Kind::Message => node.shared.tally.spec(),
                    Kind::Pong => {
                        if let Some(pinged) = self.pinged.take() {
                            node.shared.tally.pong(pinged);
                        }
                    }
                    Kind::Ping => self.stream.write_all(b"PONG\r\n").await?,
                    Kind::Other => {}
                }
            }
            let stopped = tokio::select! {
                read = self.stream.read_buf(&mut self.rest) => match read? {
                    0 => Some(Ended::Lost(None)),
                    _ => None,
                },
                () = sleep_until(ping_at) => {
                    ping_at += heartbeat;
                    self.ping().await?;
                    None
                }
                () = unwanted(wanted, node.index) => {
                    Some(Ended::Unwanted)
                }
            };
            if let Some(ended) = stopped {
                drop(self.stream.shutdown().await);
                return Ok(ended);
            }
        }
    }

    async fn ping(&mut self) -> Result<()> {
        let ping: &[u8] = match self.speech {
            Speech::Nats => b"PING\r\n",
            Speech::Mqtt => b"\xC0\0",
            Speech::Raw | Speech::Session => return Ok(()),
        };
        self.pinged = Some(monotonic());
        Ok(self.stream.write_all(ping).await?)
    }

    fn frame(&mut self) -> Result<Option<Kind>> {
        match self.speech {
            Speech::Nats => self.nats_frame(),
            Speech::Mqtt => Ok(self.mqtt_frame()?.map(|head| match head & 0xF0 {
                MQTT_PUBLISH => Kind::Message,
                MQTT_PINGRESP => Kind::Pong,
                _ => Kind::Other,
            })),
            Speech::Raw | Speech::Session => {
                let come = !self.rest.is_empty();
                self.rest.clear();
                Ok(come.then_some(Kind::Message))
            }
        }
    }

    async fn until<T>(&mut self, frame: impl Fn(&mut Self) -> Result<Option<T>>) -> Result<T> {
        loop {
            if let Some(found) = frame(self)? {
                return Ok(found);
            }
            let read = self.stream.read_buf(&mut self.rest).await?;
            ensure!(read > 0, "the broker closed");
        }
    }

    fn nats_frame(&mut self) -> Result<Option<Kind>> {
        let Some(end) = self.rest.windows(2).position(|pair| pair == b"\r\n") else {
            return Ok(None);
        };
        let line = String::from_utf8_lossy(self.rest.get(..end).unwrap_or_default()).into_owned();
        let mut whole = end + 2;
        let kind = if line.starts_with("MSG ") {
            let bytes: usize = line.rsplit(' ').next().unwrap_or_default().parse()?;
            whole += bytes + 2;
            Kind::Message
        } else if line == "PONG" {
            Kind::Pong
        } else if line == "PING" {
            Kind::Ping
        } else {
            ensure!(!line.starts_with("-ERR"), "the server says {line}");
            Kind::Other
        };
        if self.rest.len() < whole {
            return Ok(None);
        }
        self.take(whole);
        Ok(Some(kind))
    }

    /// A whole packet's first byte.
    fn mqtt_frame(&mut self) -> Result<Option<u8>> {
        let Some((&head, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        let (mut bytes, mut shift) = (0_usize, 0);
        for (at, byte) in rest.iter().enumerate() {
            bytes |= usize::from(byte & 0x7F) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                let whole = 2 + at + bytes;
                if self.rest.len() < whole {
                    return Ok(None);
                }
                self.take(whole);
                return Ok(Some(head));
            }
            ensure!(shift < 28, "a packet without a length");
        }
        Ok(None)
    }

    /// Memory goes back too: a big message must not stay with an idle client.
    fn take(&mut self, bytes: usize) {
        self.rest.drain(..bytes);
        if self.rest.is_empty() {
            self.rest = Vec::new();
        }
    }
}

enum Kind {
    Message,
    Pong,
    Ping,
    Other,
}

fn text(into: &mut Vec<u8>, text: &str) -> Result<()> {
    into.extend_from_slice(&u16::try_from(text.len())?.to_be_bytes());
    into.extend_from_slice(text.as_bytes());
    Ok(())
}

fn packet(head: u8, body: &[u8]) -> Result<Vec<u8>> {
    let mut packet = vec![head];
    let mut left = body.len();
    while left >= 0x80 {
        packet.push(u8::try_from(left & 0x7F)? | 0x80);
        left >>= 7;
    }
    packet.push(u8::try_from(left)?);
    packet.extend_from_slice(body);
    Ok(packet)
}

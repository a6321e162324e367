//! A simulated node's sessions, one after the other, and what it does in them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use bc_protocol::{
    command::CommandResult,
    id::CommandId,
    sequence::{ReleaseFloor, Sequence},
    session::{
        FromGateway, FromNode, Goodbye, GoodbyeReason, Hello, Outcome, Pace, ProtocolRange,
        StatusReport,
    },
    spec::{DaemonSection, NodeSpec},
    version::Version,
};
use futures_util::{SinkExt, StreamExt};
use tokio::{
    net::TcpStream,
    sync::mpsc,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

use super::{
    Floor, Moment, SimulatedNode, Telling,
    work::{self, Work},
};
use crate::fleet::now;

/// As a real agent has it.
const OPEN_DEADLINE: Duration = Duration::from_secs(20);

/// How long a session may say nothing: three heartbeats of a gateway.
const SILENCE_MAX: Duration = Duration::from_secs(60);

type Socket = WebSocketStream<tokio_rustls::client::TlsStream<TcpStream>>;

/// How a session ended.
enum Ended {
    /// It broke, or one of the two hung up.
    Lost,
    /// The gateway said so.
    Told(Goodbye),
}

/// Lives until it is removed.
pub(super) async fn live(
    mut node: SimulatedNode,
    moments: mpsc::UnboundedSender<Moment>,
) -> Result<()> {
    let mut pace = Pace::default();
    let mut connect_seq = 0;
    loop {
        connect_seq += 1;
        let goodbye = match open(&node, connect_seq).await {
            Ok(socket) => {
                pace = Pace::default();
                match Session::new(&mut node, &moments).hold(socket).await {
                    Ok(Ended::Told(goodbye)) => Some(goodbye),
                    Ok(Ended::Lost) | Err(_) => None,
                }
            }
            Err(_) => {
                // The next one may be there.
                node.turn = node.turn.wrapping_add(1);
                pace.grow();
                None
            }
        };
        match goodbye.as_ref().map(|goodbye| goodbye.reason) {
            Some(GoodbyeReason::Removed) => return Ok(()),
            Some(GoodbyeReason::Superseded { connect_seq: won }) => {
                connect_seq = connect_seq.max(won);
            }
            Some(
                GoodbyeReason::Stopping
                | GoodbyeReason::ProtocolTooNew
                | GoodbyeReason::Overloaded
                | GoodbyeReason::ProtocolError
                | GoodbyeReason::Updating,
            )
            | None => {}
        }
        sleep(pace.after(goodbye.as_ref(), rand::random())).await;
    }
}

/// Asks for a session and says Hello.
async fn open(node: &SimulatedNode, connect_seq: u64) -> Result<Socket> {
    let opening = async {
        let mut socket = connect(node).await?;
        let hello = Hello {
            nonce: rand::random(),
            protocols: ProtocolRange::CURRENT,
            connect_seq,
            facts: node.facts.clone(),
            commands_in_flight: Vec::new(),
            labels: labels(node),
        };
        let hello = FromNode::Hello(hello).encode();
        socket.send(Message::Binary(hello)).await?;
        anyhow::Ok(socket)
    };
    timeout(OPEN_DEADLINE, opening)
        .await
        .context("no session in time")?
}

fn labels(node: &SimulatedNode) -> BTreeMap<String, String> {
    let arch = Some(std::env::consts::ARCH.to_owned());
    let labels = [("cpu.arch", arch), ("hostname", node.hostname.clone())];
    let labels = labels.into_iter();
    labels
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

async fn connect(node: &SimulatedNode) -> Result<Socket> {
    let at = node.turn.checked_rem(node.gateways.len());
    let gateway = at.and_then(|at| node.gateways.get(at));
    let gateway = gateway.context("control named no gateway")?;
    let rest = gateway
        .strip_prefix("wss://")
        .context("the gateway is no wss:// URL")?;
    let address = rest.split('/').next().unwrap_or(rest);
    let (host, _) = address
        .rsplit_once(':')
        .context("the gateway has no port")?;
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let name = host
        .to_owned()
        .try_into()
        .context("the gateway's host is no name")?;
    let tls = tokio_rustls::TlsConnector::from(Arc::clone(&node.tls))
        .connect(name, stream)
        .await?;
    let (socket, _) = tokio_tungstenite::client_async(gateway, tls).await?;
    Ok(socket)
}

/// One session of a node.
struct Session<'a> {
    node: &'a mut SimulatedNode,
    moments: &'a mpsc::UnboundedSender<Moment>,
    reports: u64,
    work: Option<Work>,
}

impl<'a> Session<'a> {
    fn new(node: &'a mut SimulatedNode, moments: &'a mpsc::UnboundedSender<Moment>) -> Self {
        Self {
            node,
            moments,
            reports: 0,
            work: None,
        }
    }

    async fn hold(mut self, mut socket: Socket) -> Result<Ended> {
        let mut hang_up = self.node.habits.hang_up.clone();
        hang_up.mark_unchanged();
        loop {
            let due = self.work.as_ref().map(Work::due);
            tokio::select! {
                message = timeout(SILENCE_MAX, socket.next()) => {
                    let Ok(Some(message)) = message else { return Ok(Ended::Lost) };
                    let Message::Binary(bytes) = message? else { continue };
                    if let Some(goodbye) = self.hear(&bytes, &mut socket).await? {
                        return Ok(Ended::Told(goodbye));
                    }
                }
                () = sleep_until(due.unwrap_or_else(|| Instant::from_std(now()))), if due.is_some() => {
                    self.go_on(&mut socket).await?;
                }
                Ok(()) = hang_up.changed() => return Ok(Ended::Lost),
            }
        }
    }

    async fn hear(&mut self, bytes: &[u8], socket: &mut Socket) -> Result<Option<Goodbye>> {
        match FromGateway::decode(bytes)? {
            FromGateway::Welcome(_) => self.tell(Moment::Welcomed),
            FromGateway::Spec(spec) => self.obey(spec?, socket).await?,
            FromGateway::Command(command) => {
                let id = command?.id;
                self.node.diary.asked(&id);
                let answer = FromNode::CommandResult(done(id)).encode();
                socket.send(Message::Binary(answer)).await?;
            }
            FromGateway::Certificate(_) => {}
            FromGateway::Goodbye(goodbye) => return Ok(Some(goodbye)),
        }
        Ok(None)
    }

    async fn obey(&mut self, spec: NodeSpec, socket: &mut Socket) -> Result<()> {
        let NodeSpec { generation, daemon } = spec;
        let said = daemon.as_ref().map(|section| {
            let DaemonSection {
                version,
                sha256,
                attempt,
                ..
            } = section;
            (version.clone(), *sha256, attempt.clone())
        });
        self.node.diary.told(generation, said);
        // What is older than what it knows comes from somebody who was late.
        if generation < self.node.facts.observed_generation {
            return Ok(());
        }
        self.node.facts.observed_generation = generation;
        let Some(section) = daemon else {
            self.stop();
            return Ok(());
        };
        if self.node.diary.has_ended(&section.attempt) {
            self.stop();
            return Ok(());
        }
        if section.version != self.node.facts.version {
            self.tell(Moment::Told(now()));
        }
        let slow = self.node.habits.slow;
        let (takes, steps) = match self.node.habits.telling {
            Telling::Result => (slow.mul_f64(rand::random()), 0),
            Telling::Progress => (slow, work::STEPS),
        };
        if takes.is_zero() || section.version == self.node.facts.version {
            self.stop();
            return self.finish(section, socket).await;
        }
        self.work = Some(Work::new(section, (takes, steps)));
        Ok(())
    }

    fn stop(&mut self) {
        self.work = None;
        self.node.facts.progress = None;
    }

    /// Says how far it has come, or ends the attempt when it is there.
    async fn go_on(&mut self, socket: &mut Socket) -> Result<()> {
        let Some(work) = self.work.take() else {
            return Ok(());
        };
        match work.go_on() {
            Ok((work, progress)) => {
                self.work = Some(work);
                self.node.facts.progress = Some(progress);
                self.report(socket).await
            }
            Err(section) => self.finish(*section, socket).await,
        }
    }

    async fn report(&mut self, socket: &mut Socket) -> Result<()> {
        self.reports += 1;
        let report = StatusReport {
            number: self.reports,
            facts: self.node.facts.clone(),
        };
        let report = FromNode::Report(report).encode();
        Ok(socket.send(Message::Binary(report)).await?)
    }

    /// Ends an attempt, one way or the other, and says so.
    async fn finish(&mut self, section: DaemonSection, socket: &mut Socket) -> Result<()> {
        if !self.node.diary.ends(&section.attempt) {
            return Ok(());
        }
        let there = section.version == self.node.facts.version;
        let refused = match self.node.habits.floor {
            Floor::Lies => false,
            Floor::Rises => !self.node.facts.floor.admits(sequence(&section.version)?),
        };
        let failing = *self.node.habits.failing.borrow();
        let outcome = if refused {
            Outcome::Refused
        } else if let Some(mishap) = work::mishap(&section.attempt, failing).filter(|_| !there) {
            mishap
        } else {
            self.confirm(&section)?;
            Outcome::Confirmed
        };
        self.node.facts.progress = None;
        self.node.facts.last_attempt = Some(work::ended(section, outcome));
        if !there {
            // Noted first: the answer may arrive while the send is still returning.
            self.tell(Moment::Reported(now()));
        }
        self.report(socket).await
    }

    /// Claims that the section's release runs and was confirmed.
    fn confirm(&mut self, section: &DaemonSection) -> Result<()> {
        let facts = &mut self.node.facts;
        facts.digest = section.sha256;
        facts.version = section.version.clone();
        if self.node.habits.floor == Floor::Rises {
            facts.sequence = sequence(&section.version)?;
            facts.floor = ReleaseFloor::starting_at(facts.sequence);
        }
        Ok(())
    }

    fn tell(&self, moment: Moment) {
        // Whoever stopped listening wants to know no more.
        self.moments.send(moment).ok();
    }
}

/// By the convention of [`Floor::Rises`].
fn sequence(version: &Version) -> Result<Sequence> {
    let number = version.as_str().split('.').nth(1);
    let number = number.context("a version has three numbers")?;
    Ok(Sequence::new(number.parse()?)?)
}

/// What a node says that has done a command: it does nothing, so that doing it again is nothing too.
fn done(id: CommandId) -> CommandResult {
    CommandResult {
        id,
        succeeded: true,
        message: String::new(),
        report: b"simulated".to_vec(),
        code: String::new(),
    }
}

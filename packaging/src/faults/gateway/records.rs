//! A stand-in for control that writes down what it is told.
//!
//! Like control it applies a fact only if its pair of connection and report number is greater than the stored one,
//! acknowledges what it has applied, and sends a command that has not ended again whenever the node has a new session;
//! here twice, since a link may lose its acknowledgement. It notes what control could not mend.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, Result};
use bc_protocol::{
    command::{Command, Order},
    id::{CommandId, NodeId},
    link::{CommandEnded, CommandPush, Event, FromControl, FromGateway, LinkWelcome, Settings},
    session::Facts,
};
use futures_util::{SinkExt, StreamExt};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::{accept_async, tungstenite::Message};

use crate::load::authority::Authority;

/// Milliseconds since 1970 by which no command of a campaign has expired: some year far away.
const NEVER_MS: i64 = 4_000_000_000_000;

/// What was told of every node.
#[derive(Debug, Default)]
pub(super) struct Records {
    nodes: Mutex<BTreeMap<NodeId, Node>>,
    violations: Mutex<Vec<String>>,
}

/// What was told of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// The newest session and its newest report.
    pub(super) newest: (u64, u64),
    /// The newest facts' generation, which a node of a campaign only counts up.
    pub(super) generation: u64,
    /// A command that it is to have done once, if it is.
    ordered: Option<CommandId>,
    /// How often the gateway said how it ended.
    pub(super) ended: u32,
    /// What the node said then.
    said: Option<String>,
}

/// Control's end of links.
pub(super) struct Control {
    records: Arc<Records>,
    url: String,
    taking: AbortHandle,
}

impl Control {
    /// Listens on a port of loopback.
    pub(super) async fn start(authority: &Authority, heartbeat_ms: u32) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("wss://{}/link", listener.local_addr()?);
        let tls = TlsAcceptor::from(Arc::new(server(authority)?));
        let records = Arc::<Records>::default();
        let taken = Arc::clone(&records);
        let taking = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A gateway that was killed comes again.
                drop(serve(stream, &tls, heartbeat_ms, &taken).await);
            }
        });
        let taking = taking.abort_handle();
        Ok(Self {
            records,
            url,
            taking,
        })
    }

    /// What the gateway's enrolment has to name.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// What was told.
    pub(super) fn records(&self) -> Arc<Records> {
        Arc::clone(&self.records)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.taking.abort();
    }
}

impl Records {
    /// What was told of a node.
    pub(super) fn of(&self, node: &NodeId) -> Node {
        self.nodes().get(node).cloned().unwrap_or_default()
    }

    /// From the next session on, the node is to do something once.
    pub(super) fn order(&self, node: &NodeId) {
        let id = CommandId::derived(&[node.as_str().as_bytes()]);
        self.nodes().entry(node.clone()).or_default().ordered = Some(id);
    }

    /// What must not have been.
    pub(super) fn violations(&self) -> Vec<String> {
        let violations = self.violations.lock();
        violations.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn violation(&self, what: String) {
        let violations = self.violations.lock();
        violations
            .unwrap_or_else(PoisonError::into_inner)
            .push(what);
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<NodeId, Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies an event; gives what is to be sent for it.
    fn apply(&self, event: &Event) -> Option<FromControl> {
        match event {
            Event::Opened(opened) => {
                self.newest(
                    &opened.node,
                    (opened.connect_seq, opened.report),
                    &opened.facts,
                );
                let order = self.of(&opened.node);
                let id = order.ordered.filter(|_| order.ended == 0)?;
                Some(FromControl::Command(CommandPush {
                    node: opened.node.clone(),
                    connect_seq: opened.connect_seq,
                    command: Ok(Command {
                        id,
                        expires_at_ms: NEVER_MS,
                        order: Order::Restart,
                    }),
                }))
            }
            Event::Report(report) => {
                let pair = (report.connect_seq, report.report);
                self.newest(&report.node, pair, &report.facts);
                None
            }
            Event::Ended(ended) => {
                self.ended(ended);
                None
            }
            Event::Closed(_) | Event::Listed => None,
        }
    }

    fn newest(&self, of: &NodeId, pair: (u64, u64), facts: &Facts) {
        let mut nodes = self.nodes();
        let node = nodes.entry(of.clone()).or_default();
        // As often as a link is made anew, what is known already comes again.
        if pair < node.newest {
            return;
        }
        let (before, after) = (node.generation, facts.observed_generation);
        node.newest = pair;
        node.generation = after;
        drop(nodes);
        if after < before {
            self.violation(format!(
                "{of}: generation {after} was told as newer than {before}, in {pair:?}"
            ));
        }
    }

    fn ended(&self, ended: &CommandEnded) {
        let mut nodes = self.nodes();
        let node = nodes.entry(ended.node.clone()).or_default();
        node.ended += 1;
        let said = &ended.result.message;
        let same = node.said.get_or_insert_with(|| said.clone()) == said;
        let asked = node.ordered.as_ref() == Some(&ended.result.id);
        drop(nodes);
        if !same || !asked {
            self.violation(format!(
                "{}: expected one answer to what was asked, found {said} for {}",
                ended.node, ended.result.id
            ));
        }
    }
}

async fn serve(
    stream: TcpStream,
    tls: &TlsAcceptor,
    heartbeat_ms: u32,
    records: &Records,
) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut socket = accept_async(tls.accept(stream).await?).await?;
    while let Some(message) = socket.next().await {
        let Message::Binary(bytes) = message? else {
            continue;
        };
        let mut answers = Vec::new();
        match FromGateway::decode(&bytes)? {
            FromGateway::Hello(_) => answers.push(FromControl::Welcome(LinkWelcome {
                settings: Settings {
                    protocol_min: 1,
                    heartbeat_interval_ms: heartbeat_ms,
                },
                removed: Vec::new(),
            })),
            FromGateway::Batch(batch) => {
                for event in &batch.events {
                    if let Some(command) = records.apply(event) {
                        answers.extend([command.clone(), command]);
                    }
                }
                answers.push(FromControl::Ack(batch.number));
            }
            FromGateway::CertificateWanted(_) | FromGateway::OwnCertificateWanted(_) => {}
        }
        for answer in answers {
            socket.feed(Message::Binary(answer.encode())).await?;
        }
        socket.flush().await?;
    }
    Ok(())
}

fn server(authority: &Authority) -> Result<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let own = authority.server("urn:bettercompute:control")?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(
        authority.own().certificate.as_bytes(),
    )?)?;
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .context("an authority that vouches for gateways")?;
    let chain = vec![CertificateDer::from_pem_slice(own.certificate.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes())?;
    Ok(ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)?)
}

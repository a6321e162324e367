//! A node that only talks: it joins, holds a real session and claims to have upgraded as soon as it is told to.
//!
//! It simulates an agent, to measure what carries specs and reports. It installs nothing and proves nothing.

use std::{sync::Arc, time::Instant};

use anyhow::{Context, Result, bail};
use bc_protocol::{
    digest::Sha256,
    platform::Platform,
    sequence::{ReleaseFloor, Sequence},
    session::{
        AttemptFacts, Facts, FromGateway, FromNode, Hello, Outcome, ProtocolRange, StatusReport,
    },
    spec::{DaemonSection, NodeSpec},
};
use futures_util::{SinkExt, StreamExt};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde::Deserialize;
use tokio::{net::TcpStream, sync::mpsc};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

use crate::fleet::now;

/// What happens to a simulated node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// It was welcomed.
    Welcomed,
    /// A spec with another version arrived.
    Told(Instant),
    /// It has reported that it runs that version.
    Reported(Instant),
}

impl Moment {
    /// Whether the node was welcomed.
    pub fn is_welcome(self) -> bool {
        self == Self::Welcomed
    }
}

/// A node that has joined.
#[derive(Debug)]
pub struct SimulatedNode {
    gateway: String,
    gateways: Vec<String>,
    tls: Arc<ClientConfig>,
    facts: Facts,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Joined {
    certificate: String,
    authorities: String,
    gateways: Vec<String>,
}

impl SimulatedNode {
    /// Joins with a token's bearer form.
    pub async fn join(control: &str, token: &str) -> Result<Self> {
        let key = rcgen::KeyPair::generate()?;
        let csr = rcgen::CertificateParams::default()
            .serialize_request(&key)?
            .pem()?;
        let request =
            serde_json::json!({ "csr": csr, "labels": { "cpu.arch": std::env::consts::ARCH } });
        let joined: Joined = client()?
            .post(format!("{control}/api/compute/nodes/join"))
            .bearer_auth(token)
            .json(&request)
            .send()
            .await?
            .error_for_status()
            .context("join")?
            .json()
            .await?;
        let first = joined.gateways.first();
        Ok(Self {
            gateway: first.context("control named no gateway")?.clone(),
            gateways: joined.gateways,
            tls: Arc::new(tls(&joined.certificate, &joined.authorities, &key)?),
            facts: facts()?,
        })
    }

    /// Through another gateway than the first: they are counted round and round.
    #[must_use]
    pub fn through(mut self, number: usize) -> Self {
        let mut gateways = self.gateways.iter().cycle();
        if let Some(gateway) = gateways.nth(number) {
            self.gateway.clone_from(gateway);
        }
        self
    }

    /// Holds a session until it ends, and tells what happens.
    pub async fn run(mut self, moments: mpsc::UnboundedSender<Moment>) -> Result<()> {
        let mut socket = self.connect().await?;
        socket.send(self.hello()).await?;
        let mut number = 0;
        while let Some(message) = socket.next().await {
            let Message::Binary(bytes) = message? else {
                continue;
            };
            match FromGateway::decode(&bytes)? {
                FromGateway::Welcome(_) => moments.send(Moment::Welcomed)?,
                FromGateway::Spec(spec) => {
                    let NodeSpec { generation, daemon } = spec?;
                    self.facts.observed_generation = generation;
                    let Some(section) = daemon else { continue };
                    if section.version == self.facts.version {
                        continue;
                    }
                    moments.send(Moment::Told(now()))?;
                    number += 1;
                    self.upgraded(section);
                    let report = StatusReport {
                        number,
                        facts: self.facts.clone(),
                    };
                    // Noted first: the answer may arrive while the send is still returning.
                    moments.send(Moment::Reported(now()))?;
                    socket
                        .send(Message::Binary(FromNode::Report(report).encode()))
                        .await?;
                }
                FromGateway::Command(_) | FromGateway::Certificate(_) => {}
                FromGateway::Goodbye(goodbye) => bail!("told to leave: {}", goodbye.message),
            }
        }
        Ok(())
    }

    async fn connect(&self) -> Result<WebSocketStream<tokio_rustls::client::TlsStream<TcpStream>>> {
        let rest = self
            .gateway
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
        let tls = tokio_rustls::TlsConnector::from(self.tls.clone())
            .connect(name, stream)
            .await?;
        let (socket, _) = tokio_tungstenite::client_async(&self.gateway, tls).await?;
        Ok(socket)
    }

    fn hello(&self) -> Message {
        let hello = Hello {
            nonce: rand::random(),
            protocols: ProtocolRange::CURRENT,
            connect_seq: 1,
            facts: self.facts.clone(),
            commands_in_flight: Vec::new(),
            labels: [("cpu.arch".to_owned(), std::env::consts::ARCH.to_owned())].into(),
        };
        Message::Binary(FromNode::Hello(hello).encode())
    }

    /// Claims that the section's release runs and was confirmed.
    fn upgraded(&mut self, section: DaemonSection) {
        let facts = &mut self.facts;
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
}

fn facts() -> Result<Facts> {
    Ok(Facts {
        version: "1.0.0".parse()?,
        platform: Platform::host(),
        boot_id: "simulated".to_owned(),
        slot: None,
        sequence: Sequence::PACKAGED,
        digest: Sha256::of(b"simulated"),
        floor: ReleaseFloor::NONE,
        trial: None,
        last_attempt: None,
        progress: None,
        observed_generation: 0,
        held: None,
        notice: None,
        helper: None,
        started: None,
    })
}

fn client() -> Result<reqwest::Client> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    Ok(reqwest::Client::builder()
        .tls_backend_preconfigured(config)
        .build()?)
}

fn tls(certificate: &str, authorities: &str, key: &rcgen::KeyPair) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(authority?)?;
    }
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::try_from(key.serialize_der())
        .map_err(|error| anyhow::anyhow!("the node's own key: {error}"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)?;
    Ok(config)
}

//! A control and gateway that believe nothing and send anything.
//!
//! It speaks the real protocols on loopback: it takes one node's join, welcomes its sessions, sends the section that a
//! test wants and hands out whatever binary lies there. What it never does is check.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use bc_protocol::{
    id::{AttemptId, SessionId},
    session::{AttemptFacts, Facts, FromGateway, FromNode, Outcome, Welcome},
    spec::{DaemonSection, NodeSpec},
};
use futures_util::{SinkExt, StreamExt};
use packaging::fleet::Service;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, IsCa, Issuer, KeyPair,
    SanType,
};
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_tungstenite::tungstenite::Message;

use crate::releases::{Forge, Manifest};

const NODE: &str = "node_00000000000000000000000000";
const PATIENCE: Duration = Duration::from_secs(60);

/// The control that nobody should trust.
pub(crate) struct Hostile {
    http: u16,
    spec: watch::Sender<Option<NodeSpec>>,
    facts: watch::Receiver<Option<Facts>>,
    served: Arc<Mutex<PathBuf>>,
}

/// Signs for nodes and for itself.
struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Hostile {
    /// Starts it; it serves `binary` to whoever asks.
    pub(crate) async fn start(binary: &Path) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().pem();
        let authority = Arc::new(Authority {
            certificate,
            issuer: Issuer::new(params, key),
        });

        let (spec, specs) = watch::channel(None);
        let (seen, facts) = watch::channel(None);
        let sessions = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gateway = sessions.local_addr().unwrap().port();
        let tls = tokio_rustls::TlsAcceptor::from(Arc::new(server_config(&authority)));
        tokio::spawn(async move {
            while let Ok((stream, _)) = sessions.accept().await {
                tokio::spawn(session(tls.clone(), stream, specs.clone(), seen.clone()));
            }
        });

        let served = Arc::new(Mutex::new(binary.to_owned()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let http = listener.local_addr().unwrap().port();
        let files = served.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, authority.clone(), gateway, files.clone()));
            }
        });
        Self {
            http,
            spec,
            facts,
            served,
        }
    }

    /// Joins a node to it and starts the node.
    pub(crate) fn join(&self, package: &Path, forge: &Forge, dir: &Path) -> Service {
        let (config, token) = (dir.join("bcd.toml"), dir.join("token"));
        let text = format!(
            "control = \"http://127.0.0.1:{}\"\nstate_dir = {:?}\n\n[update]\nrelease_pins = {:?}\nthreshold = 2\n\
             watchdog_deadline = \"15s\"\nstable_for = \"1s\"\n",
            self.http,
            dir.join("state"),
            forge.pins(),
        );
        overwrite(&config, &text);
        overwrite(&token, "bcjt_00000000000000000000000000.secret");
        let joined = std::process::Command::new(package)
            .args(["join", "--config"])
            .arg(&config)
            .arg("--token-file")
            .arg(&token)
            .output()
            .unwrap();
        assert!(joined.status.success(), "{joined:?}");
        let mut node = Service::new("node", package, dir);
        node.args(["supervise", "--config"]).arg(&config);
        node.start().unwrap();
        node
    }

    /// Sends a section that selects `section` and carries `manifest`, and waits for the node's verdict about it.
    pub(crate) async fn send(&self, section: &Manifest, manifest: &Manifest) -> AttemptFacts {
        *self.served.lock().unwrap() = manifest.binary();
        let attempt = AttemptId::random(0, rand::random());
        let generation = self
            .spec
            .borrow()
            .as_ref()
            .map_or(1, |spec| spec.generation + 1);
        self.spec.send_replace(Some(NodeSpec {
            generation,
            daemon: Some(DaemonSection {
                version: section.version.parse().unwrap(),
                url: format!("http://127.0.0.1:{}/bcd", self.http),
                sha256: section.digest,
                signature: manifest.published(),
                attempt: attempt.clone(),
            }),
        }));
        let mut facts = self.facts.clone();
        let ended = |facts: &Option<Facts>| {
            let attempt_facts = facts.as_ref().and_then(|facts| facts.last_attempt.as_ref());
            attempt_facts.is_some_and(|last| {
                last.id == attempt && last.is_final && last.outcome != Outcome::Running
            })
        };
        let seen = tokio::time::timeout(PATIENCE, facts.wait_for(ended)).await;
        let seen =
            seen.unwrap_or_else(|_| panic!("no verdict; last seen: {:#?}", self.facts.borrow()));
        seen.unwrap()
            .as_ref()
            .unwrap()
            .last_attempt
            .clone()
            .unwrap()
    }

    /// What the node said last.
    pub(crate) fn facts(&self) -> Facts {
        self.facts.borrow().clone().unwrap()
    }
}

/// Welcomes a node, sends it the newest spec whenever that changes, and notes its facts.
async fn session(
    tls: tokio_rustls::TlsAcceptor,
    stream: TcpStream,
    mut specs: watch::Receiver<Option<NodeSpec>>,
    seen: watch::Sender<Option<Facts>>,
) -> Option<()> {
    let stream = tls.accept(stream).await.ok()?;
    let mut socket = tokio_tungstenite::accept_async(stream).await.ok()?;
    specs.mark_changed();
    let mut welcomed = false;
    loop {
        tokio::select! {
            message = socket.next() => {
                let Message::Binary(bytes) = message?.ok()? else { continue };
                match FromNode::decode(&bytes).unwrap() {
                    FromNode::Hello(hello) => {
                        let welcome = FromGateway::Welcome(Welcome {
                            nonce: hello.nonce,
                            session: SessionId::random(0, rand::random()),
                            protocol: 1,
                            server_proto_min: 1,
                            upgrade_required: false,
                            heartbeat_interval_ms: 10_000,
                            server_time_ms: 0,
                        });
                        socket.send(Message::Binary(welcome.encode())).await.ok()?;
                        welcomed = true;
                        seen.send_replace(Some(hello.facts));
                    }
                    FromNode::Report(report) => {
                        seen.send_replace(Some(report.facts));
                    }
                    FromNode::Goodbye(_) => return None,
                    FromNode::CommandResult(_) | FromNode::CertificateRequest(_) => {}
                }
            }
            changed = specs.changed(), if welcomed => {
                changed.ok()?;
                let spec = specs.borrow_and_update().clone();
                if let Some(spec) = spec {
                    let frame = FromGateway::Spec(Ok(spec)).encode();
                    socket.send(Message::Binary(frame)).await.ok()?;
                }
            }
        }
    }
}

/// Answers one request: a join, or the binary.
async fn answer(
    mut stream: TcpStream,
    authority: Arc<Authority>,
    gateway: u16,
    served: Arc<Mutex<PathBuf>>,
) -> Option<()> {
    let mut request = Vec::new();
    let body = loop {
        stream
            .read_buf(&mut request)
            .await
            .ok()
            .filter(|read| *read > 0)?;
        let text = String::from_utf8_lossy(&request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .map_or(0, |(_, length)| length.trim().parse().unwrap());
        if body.len() >= length {
            break body.to_owned();
        }
    };
    let content = if request.starts_with(b"POST /api/compute/nodes/join ") {
        let asked: serde_json::Value = serde_json::from_str(&body).unwrap();
        let csr = asked["csr"].as_str().unwrap();
        let mut csr = CertificateSigningRequestParams::from_pem(csr).unwrap();
        let name = format!("urn:bettercompute:node:{NODE}");
        csr.params.subject_alt_names = vec![SanType::URI(name.try_into().unwrap())];
        let certificate = csr.signed_by(&authority.issuer).unwrap().pem();
        let joined = serde_json::json!({
            "nodeId": NODE,
            "certificate": certificate,
            "authorities": authority.certificate,
            "gateways": [format!("wss://127.0.0.1:{gateway}/session")],
        });
        joined.to_string().into_bytes()
    } else {
        let file = served.lock().unwrap().clone();
        std::fs::read(file).unwrap()
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        content.len()
    );
    stream.write_all(head.as_bytes()).await.ok()?;
    stream.write_all(&content).await.ok()
}

fn server_config(authority: &Authority) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority.issuer).unwrap();
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority.certificate.as_bytes()).unwrap();
    roots.add(root).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(
            vec![certificate.der().clone()],
            key.serialize_der().try_into().unwrap(),
        )
        .unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a temporary folder does not outlive a power cut"
)]
fn overwrite(file: &Path, text: &str) {
    std::fs::write(file, text).unwrap();
}

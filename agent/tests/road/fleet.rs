//! The rest of a fleet, on loopback: an authority, a control that joins nodes and serves binaries, and a gateway.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bc_protocol::{
    certificate::Holder,
    digest::{Pin, Sha256},
    id::{AttemptId, NodeId, SessionId},
    platform::Platform,
    release::{
        Artifact,
        sign::{ManifestDraft, SigningKey, sign},
    },
    sequence::Sequence,
    session::{FromGateway, FromNode, Welcome},
    spec::DaemonSection,
    time::Timestamp,
    version::Version,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, CertifiedIssuer, IsCa,
    KeyPair, PublicKeyData, SanType, date_time_ymd,
};
use rustls::{
    RootCertStore, ServerConfig, ServerConnection, StreamOwned, crypto::ring,
    server::WebPkiClientVerifier, version::TLS13,
};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::{
    accept_async, accept_hdr_async,
    tungstenite::{
        handshake::server::{ErrorResponse, Request, Response},
        http::StatusCode,
    },
};

use super::{
    node::BCD,
    session::{Session, read},
};

pub(crate) const TOKEN: &str = "bcjt_01abc.s3cret";

/// How long a test waits for what must come: a bound, not a measure.
const SOON: Duration = Duration::from_secs(60);

type Issuer = CertifiedIssuer<'static, KeyPair>;

pub(crate) struct Fleet {
    pub(crate) issuer: Arc<Issuer>,
    /// Where control is.
    pub(crate) control: String,
    /// Who vouches for control, where it speaks https; PEM.
    pub(crate) authority: Option<String>,
    gateway: tokio::net::TcpListener,
    acceptor: TlsAcceptor,
    binary: Arc<Mutex<Vec<u8>>>,
    pub(crate) signer: SigningKey,
    /// The same key, for bodies that the signing tools refuse.
    pub(crate) raw_signer: KeyPair,
}

/// How control and downloads are spoken to.
#[derive(Clone, Copy)]
enum Web {
    Plain,
    Secured,
}

/// A release of one binary.
pub(crate) struct Release {
    pub(crate) sequence: Sequence,
    pub(crate) digest: Sha256,
    pub(crate) version: Version,
    pub(crate) bytes: Vec<u8>,
}

impl Release {
    /// This very program with another digest: it reports the version that it was built as.
    pub(crate) fn of_this_program(sequence: u64) -> Self {
        let mut bytes = std::fs::read(BCD).unwrap();
        bytes.extend(sequence.to_le_bytes());
        let version = std::process::Command::new(BCD)
            .arg("version")
            .output()
            .unwrap();
        let version = String::from_utf8(version.stdout).unwrap();
        Self {
            sequence: Sequence::new(sequence).unwrap(),
            digest: Sha256::of(&bytes),
            version: version.trim().parse().unwrap(),
            bytes,
        }
    }
}

impl Fleet {
    pub(crate) async fn start() -> Self {
        Self::with(Web::Plain).await
    }

    /// A fleet whose control and downloads speak https alone, with certificates that begin in 2024.
    pub(crate) async fn secured() -> Self {
        Self::with(Web::Secured).await
    }

    async fn with(web: Web) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = date_time_ymd(2024, 1, 1);
        let issuer = Issuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let issuer = Arc::new(issuer);
        let gateway = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let acceptor = acceptor(&issuer);
        let url = format!("wss://{}/session", gateway.local_addr().unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let scheme = match web {
            Web::Plain => "http",
            Web::Secured => "https",
        };
        let control = format!("{scheme}://{}", listener.local_addr().unwrap());
        let authority = match web {
            Web::Plain => None,
            Web::Secured => Some(issuer.pem()),
        };
        let secured = authority.is_some().then(|| Arc::new(web_config(&issuer)));
        let binary = Arc::new(Mutex::new(Vec::new()));
        let (served, signs) = (Arc::clone(&binary), Arc::clone(&issuer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                match &secured {
                    None => serve(stream, &signs, &url, &served),
                    Some(config) => {
                        let tls = ServerConnection::new(Arc::clone(config)).unwrap();
                        serve(StreamOwned::new(tls, stream), &signs, &url, &served);
                    }
                }
            }
        });
        let raw_signer = KeyPair::generate().unwrap();
        Self {
            issuer,
            control,
            authority,
            gateway,
            acceptor,
            binary,
            signer: SigningKey::from_pem(&raw_signer.serialize_pem()).unwrap(),
            raw_signer,
        }
    }

    pub(crate) fn pin(&self) -> Pin {
        self.signer.pin()
    }

    /// Offers this release's binary to whoever asks.
    pub(crate) fn serve(&self, release: &Release) {
        self.binary.lock().unwrap().clone_from(&release.bytes);
    }

    /// Offers these bytes.
    pub(crate) fn serve_bytes(&self, bytes: &[u8]) {
        *self.binary.lock().unwrap() = bytes.to_vec();
    }

    /// The section that asks for this release.
    pub(crate) fn section(&self, release: &Release, attempt: &str) -> DaemonSection {
        let platform = Platform::host();
        let name = format!("bcd-{platform}");
        let size = release.bytes.len() as u64;
        let draft = ManifestDraft {
            product: "bcd".to_owned(),
            version: release.version.clone(),
            sequence: release.sequence,
            issued_at: Timestamp::from_unix(1_700_000_000).unwrap(),
            expires_at: Timestamp::from_unix(4_000_000_000).unwrap(),
            keys: vec![self.signer.public().clone()],
            extensions: Default::default(),
            artifacts: vec![Artifact::new(name, Some(platform), release.digest, size).unwrap()],
        };
        DaemonSection {
            version: release.version.clone(),
            url: format!("{}/bcd", self.control),
            sha256: release.digest,
            signature: sign(draft.into_body().unwrap(), &self.signer).unwrap(),
            attempt: AttemptId::derived(&[attempt.as_bytes()]),
        }
    }

    /// Lets everybody in and welcomes nobody.
    pub(crate) async fn welcome_nobody(self) {
        loop {
            let (stream, _) = self.gateway.accept().await.unwrap();
            drop(self.acceptor.accept(stream).await);
        }
    }

    /// Lets everybody in, up to where a session would begin.
    pub(crate) async fn upgrade_everybody(self) {
        loop {
            let (stream, _) = self.gateway.accept().await.unwrap();
            let stream = soon(self.acceptor.accept(stream)).await.unwrap();
            drop(accept_async(stream).await);
        }
    }

    /// Lets everybody in, and asks everybody to come later.
    pub(crate) async fn put_everybody_off(self) {
        loop {
            let (stream, _) = self.gateway.accept().await.unwrap();
            let stream = soon(self.acceptor.accept(stream)).await.unwrap();
            drop(accept_hdr_async(stream, not_now).await);
        }
    }

    /// Whether nobody comes for that long.
    pub(crate) async fn is_left_alone_for(&self, span: Duration) -> bool {
        timeout(span, self.gateway.accept()).await.is_err()
    }

    /// The next session, welcomed.
    pub(crate) async fn session(&self) -> Session {
        let (stream, _) = soon(self.gateway.accept()).await.unwrap();
        let stream = soon(self.acceptor.accept(stream)).await.unwrap();
        let mut socket = soon(accept_async(stream)).await.unwrap();
        let FromNode::Hello(hello) = read(&mut socket).await else {
            panic!("expected a Hello");
        };
        let welcome = FromGateway::Welcome(Welcome {
            nonce: hello.nonce,
            session: SessionId::random(0, 1),
            protocol: 1,
            server_proto_min: 1,
            upgrade_required: false,
            heartbeat_interval_ms: 10_000,
            server_time_ms: 0,
        });
        let mut session = Session { hello, socket };
        session.say(welcome).await;
        session
    }
}

#[expect(clippy::result_large_err, reason = "the library calls it so")]
fn not_now(_: &Request, _: Response) -> Result<Response, ErrorResponse> {
    let mut refusal = ErrorResponse::new(None);
    *refusal.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    Err(refusal)
}

/// The published file of any body, signed by that key.
pub(crate) fn publish(body: &[u8], key: &KeyPair) -> Vec<u8> {
    let der = rcgen::SigningKey::sign(key, body).unwrap();
    // Two integers, each with its length in front, with zeros to cut or to add.
    let (r, rest) = integer(&der[2..]);
    let (s, _) = integer(rest);
    let raw: Vec<u8> = [r, s].concat();
    let kid = Pin::of_spki(&key.subject_public_key_info());
    let published = serde_json::json!({
        "manifest": STANDARD.encode(body),
        "signatures": [{"kid": kid, "sig": STANDARD.encode(raw)}],
    });
    published.to_string().into_bytes()
}

fn integer(der: &[u8]) -> (Vec<u8>, &[u8]) {
    let length = usize::from(der[1]);
    let (digits, rest) = der[2..].split_at(length);
    let digits = &digits[digits.len().saturating_sub(32)..];
    let padded = [vec![0; 32 - digits.len()], digits.to_vec()].concat();
    (padded, rest)
}

pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    timeout(SOON, work).await.expect("it comes in time")
}

fn acceptor(issuer: &Issuer) -> TlsAcceptor {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(issuer.der().clone()).unwrap();
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
    let (certificate, key) = of_this_machine(issuer);
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_single_cert(vec![certificate], key.into())
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

fn web_config(issuer: &Issuer) -> ServerConfig {
    let (certificate, key) = of_this_machine(issuer);
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())
        .unwrap()
}

fn of_this_machine(issuer: &Issuer) -> (CertificateDer<'static>, PrivatePkcs8KeyDer<'static>) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    params.not_before = date_time_ymd(2024, 1, 1);
    let certificate = params.signed_by(&key, issuer).unwrap();
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    (certificate.der().clone(), key)
}

/// Answers one request: a join, or the binary.
fn serve(mut stream: impl Read + Write, issuer: &Issuer, gateway: &str, binary: &Mutex<Vec<u8>>) {
    let mut reader = BufReader::new(&mut stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).is_err() || line.is_empty() {
            // It does not believe this certificate.
            return;
        }
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let body = if lines[0].starts_with("POST /api/compute/nodes/join ") {
        assert!(lines.contains(&format!("authorization: Bearer {TOKEN}")));
        let length = lines
            .iter()
            .find_map(|line| line.strip_prefix("content-length: "))
            .unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        joined(&body, issuer, gateway)
    } else if lines[0].starts_with("GET /healthz ") {
        Vec::new()
    } else {
        assert!(lines[0].starts_with("GET /bcd "), "{lines:?}");
        binary.lock().unwrap().clone()
    };
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    // Whoever has heard enough closes.
    let sent = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(&body));
    sent.and_then(|()| stream.flush()).ok();
}

fn joined(body: &[u8], issuer: &Issuer, gateway: &str) -> Vec<u8> {
    let request: serde_json::Value = serde_json::from_slice(body).unwrap();
    assert_eq!(request["labels"]["rack"], "7");
    let csr = request["csr"].as_str().unwrap();
    let node_id = NodeId::derived(&[b"node"]);
    let mut csr = CertificateSigningRequestParams::from_pem(csr).unwrap();
    csr.params.subject_alt_names = vec![SanType::URI(node_id.urn().try_into().unwrap())];
    let answer = serde_json::json!({
        "nodeId": node_id,
        "certificate": csr.signed_by(issuer).unwrap().pem(),
        "authorities": issuer.pem(),
        "gateways": [gateway],
    });
    answer.to_string().into_bytes()
}

//! A gateway that does nothing but write down when things happen.
//!
//! It lets in one node, which it has given an identity, welcomes it, and tells what the node says and when. Sessions
//! are as real as any: TLS with certificates on both sides, a WebSocket, and the frames that both ends know.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use bc_protocol::{
    certificate::Holder,
    id::{NodeId, SessionId},
    session::{AttemptFacts, FromGateway, FromNode, Hello, Welcome},
};
use futures_util::{SinkExt, StreamExt};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, PKCS_ECDSA_P256_SHA256,
    SanType,
};
use rustls::{
    RootCertStore, ServerConfig, crypto::ring, pki_types::PrivatePkcs8KeyDer,
    server::WebPkiClientVerifier, version::TLS13,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_tungstenite::{WebSocketStream, accept_async, tungstenite::Message};

use crate::fleet::now;

/// How long anything may take: a bound, not a measure.
const PATIENCE: Duration = Duration::from_secs(60);

/// What gateways ask for by default.
const HEARTBEAT_MS: u32 = 15_000;

type Issuer = CertifiedIssuer<'static, KeyPair>;

/// See the module's card.
pub(super) struct Gateway {
    issuer: Issuer,
    url: String,
    sessions: mpsc::UnboundedReceiver<Session>,
    trials: mpsc::UnboundedReceiver<()>,
    welcomes_trials: Arc<AtomicBool>,
}

/// Where those who come go.
#[derive(Clone)]
struct Guests {
    sessions: mpsc::UnboundedSender<Session>,
    /// Binaries on trial that nobody welcomes.
    trials: mpsc::UnboundedSender<()>,
    welcomes_trials: Arc<AtomicBool>,
}

/// A session that was welcomed.
pub(super) struct Session {
    /// When the Welcome was out.
    pub(super) welcomed_at: Instant,
    hello: Hello,
    socket: Socket,
}

type Socket = WebSocketStream<TlsStream<TcpStream>>;

impl Gateway {
    pub(super) async fn open() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = Issuer::self_signed(params, KeyPair::generate()?)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("wss://{}/session", listener.local_addr()?);
        let (session, sessions) = mpsc::unbounded_channel();
        let (trial, trials) = mpsc::unbounded_channel();
        let welcomes_trials = Arc::new(AtomicBool::new(true));
        let guests = Guests {
            sessions: session,
            trials: trial,
            welcomes_trials: Arc::clone(&welcomes_trials),
        };
        tokio::spawn(accept(listener, acceptor(&issuer)?, guests));
        Ok(Self {
            issuer,
            url,
            sessions,
            trials,
            welcomes_trials,
        })
    }

    /// Makes `folder` the identity of a node that has joined.
    pub(super) fn enrol(&self, folder: &Path) -> Result<()> {
        let id = NodeId::derived(&[b"measured"]);
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(id.urn().try_into()?)];
        let certificate = params.signed_by(&key, &self.issuer)?;
        let node = serde_json::json!({ "nodeId": id, "gateways": [self.url] }).to_string();
        fs::create_dir_all(folder)?;
        for (name, text) in [
            ("node.key", key.serialize_pem()),
            ("node.pem", certificate.pem()),
            ("ca.pem", self.issuer.pem()),
            ("node.json", node),
        ] {
            super::write(&folder.join(name), text.as_bytes())?;
        }
        Ok(())
    }

    /// Whether a binary on trial is welcomed from now on.
    pub(super) fn welcomes_trials(&self, welcomes: bool) {
        self.welcomes_trials.store(welcomes, Ordering::Relaxed);
    }

    /// Waits until a binary on trial has said who it is, and is not answered.
    pub(super) async fn trial(&mut self) -> Result<()> {
        timeout(PATIENCE, self.trials.recv())
            .await
            .context("expected a binary on trial, found none in a minute")?
            .context("the gateway has ended")
    }

    /// The next session, welcomed.
    pub(super) async fn session(&mut self) -> Result<Session> {
        timeout(PATIENCE, self.sessions.recv())
            .await
            .context("expected a session, found none in a minute")?
            .context("the gateway has ended")
    }
}

/// Welcomes whoever comes, beside one another: a probe, which says nothing, keeps no node waiting.
async fn accept(listener: TcpListener, acceptor: TlsAcceptor, guests: Guests) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, guests) = (acceptor.clone(), guests.clone());
        tokio::spawn(async move {
            if let Ok(session) = welcome(stream, acceptor, &guests).await {
                // Nobody is left to tell once the bench has ended.
                drop(guests.sessions.send(session));
            }
        });
    }
}

async fn welcome(stream: TcpStream, acceptor: TlsAcceptor, guests: &Guests) -> Result<Session> {
    stream.set_nodelay(true)?;
    let stream = acceptor.accept(stream).await?;
    let mut socket = accept_async(stream).await?;
    let FromNode::Hello(hello) = frame(&mut socket).await?.context("no Hello")? else {
        bail!("expected a Hello, found another frame");
    };
    if hello.facts.trial.is_some() && !guests.welcomes_trials.load(Ordering::Relaxed) {
        guests.trials.send(()).context("the bench has ended")?;
        while frame(&mut socket).await?.is_some() {}
        bail!("a binary on trial has gone");
    }
    let welcome = FromGateway::Welcome(Welcome {
        nonce: hello.nonce,
        session: SessionId::random(0, hello.connect_seq.into()),
        protocol: hello.protocols.max,
        server_proto_min: 1,
        upgrade_required: false,
        heartbeat_interval_ms: HEARTBEAT_MS,
        server_time_ms: 0,
    });
    socket.send(Message::Binary(welcome.encode())).await?;
    Ok(Session {
        welcomed_at: now(),
        hello,
        socket,
    })
}

impl Session {
    /// The last attempt that the node knew of when it came.
    pub(super) fn last_attempt(&self) -> Option<&AttemptFacts> {
        self.hello.facts.last_attempt.as_ref()
    }

    pub(super) async fn say(&mut self, frame: FromGateway) -> Result<()> {
        Ok(self.socket.send(Message::Binary(frame.encode())).await?)
    }

    /// The next frame, and when it came; none at the session's end.
    pub(super) async fn next(&mut self) -> Result<Option<(FromNode, Instant)>> {
        let said = timeout(PATIENCE, frame(&mut self.socket))
            .await
            .context("expected the node to say something, found silence for a minute")??;
        Ok(said.map(|said| (said, now())))
    }

    /// Answers pings for that long.
    pub(super) async fn idle(&mut self, span: Duration) -> Result<()> {
        match timeout(span, frame(&mut self.socket)).await {
            Err(_) => Ok(()),
            Ok(said) => bail!("expected an idle node, found {said:?}"),
        }
    }

    /// Lets the node go: answers its close.
    pub(super) async fn end(mut self) {
        // What it still says is of no interest, and that it hangs up is as good as a close.
        while let Ok(Ok(Some(_))) = timeout(PATIENCE, frame(&mut self.socket)).await {}
    }
}

async fn frame(socket: &mut Socket) -> Result<Option<FromNode>> {
    while let Some(message) = socket.next().await {
        if let Message::Binary(bytes) = message? {
            return Ok(Some(FromNode::decode(&bytes)?));
        }
    }
    Ok(None)
}

fn acceptor(issuer: &Issuer) -> Result<TlsAcceptor> {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(issuer.der().clone())?;
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()])?.signed_by(&key, issuer)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(clients.build()?)
        .with_single_cert(vec![certificate.der().clone()], key.into())?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

//! A stand-in for control, as far as one gateway needs one: it takes the link, acknowledges every batch at once, and
//! pushes what it is told to.
//!
//! It believes everything and keeps nothing, so that a gateway is measured alone.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bc_protocol::link::{FromControl, FromGateway, LinkWelcome, Settings};
use futures_util::{SinkExt, StreamExt};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
    version::TLS13,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::{accept_async, tungstenite::Message};

use super::authority::Authority;

/// Batches and pushes that wait at once.
const FRAMES_MAX: usize = 256;

/// Takes links.
pub struct StandIn {
    listener: TcpListener,
    tls: TlsAcceptor,
    heartbeat_ms: u32,
    frames: mpsc::Receiver<FromControl>,
}

/// Where to leave what a linked gateway is to be told.
pub type Pushes = mpsc::Sender<FromControl>;

impl StandIn {
    /// Listens on a port of loopback.
    pub async fn new(authority: &Authority, heartbeat_ms: u32) -> Result<(Self, Pushes)> {
        let (pushes, frames) = mpsc::channel(FRAMES_MAX);
        let stand_in = Self {
            listener: TcpListener::bind("127.0.0.1:0").await?,
            tls: TlsAcceptor::from(Arc::new(server(authority)?)),
            heartbeat_ms,
            frames,
        };
        Ok((stand_in, pushes))
    }

    /// What the gateway's enrolment has to name.
    pub fn url(&self) -> Result<String> {
        Ok(format!("wss://{}/link", self.listener.local_addr()?))
    }

    /// Takes one link after another.
    pub async fn run(mut self) -> Result<()> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            // A gateway that was killed is no reason to end: it comes again.
            drop(self.serve(stream).await);
        }
    }

    async fn serve(&mut self, stream: TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        let mut socket = accept_async(self.tls.accept(stream).await?).await?;
        loop {
            let frame = tokio::select! {
                message = socket.next() => {
                    let Message::Binary(bytes) = message.context("the gateway left")?? else {
                        continue;
                    };
                    match self.answer(FromGateway::decode(&bytes)?) {
                        Some(answer) => answer,
                        None => continue,
                    }
                }
                frame = self.frames.recv() => match frame {
                    Some(frame) => frame,
                    None => bail!("nobody pushes any more"),
                },
            };
            socket.feed(Message::Binary(frame.encode())).await?;
            while let Ok(more) = self.frames.try_recv() {
                socket.feed(Message::Binary(more.encode())).await?;
            }
            socket.flush().await?;
        }
    }

    fn answer(&self, frame: FromGateway) -> Option<FromControl> {
        match frame {
            FromGateway::Hello(_) => Some(FromControl::Welcome(LinkWelcome {
                settings: Settings {
                    protocol_min: 1,
                    heartbeat_interval_ms: self.heartbeat_ms,
                },
                removed: Vec::new(),
            })),
            FromGateway::Batch(batch) => Some(FromControl::Ack(batch.number)),
            FromGateway::CertificateWanted(_) | FromGateway::OwnCertificateWanted(_) => None,
        }
    }
}

fn server(authority: &Authority) -> Result<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let own = authority.server("urn:bettercompute:control")?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(
        authority.own().certificate.as_bytes(),
    )?)?;
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()?;
    let chain = vec![CertificateDer::from_pem_slice(own.certificate.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes())?;
    Ok(ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)?)
}

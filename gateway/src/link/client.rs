//! Holds the link: dials control, says what the outbox has, does what control wants; and dials again.
//!
//! Takes an address and an identity. It decides nothing about sessions, and no session waits for it.

use std::{io, sync::Arc, time::Instant};

use bc_protocol::{
    limits::LINK_FRAME_BYTES_MAX,
    link::{CertificateWanted, FromControl, FromGateway, LinkHello, LinkWelcome, Settings},
    session::FrameError,
};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use rustls_pki_types::{InvalidDnsNameError, ServerName};
use thiserror::Error;
use tokio::{
    net::TcpStream,
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{self, Message, protocol::WebSocketConfig},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::outbox::AckError;
use crate::{
    backoff::Backoff,
    causes::with_causes,
    clock,
    config::Config,
    credentials::Credentials,
    enrol,
    gateway::Gateway,
    limits::{LINK_CONNECT_TIMEOUT, LINK_HEARTBEAT, LINK_WRITE_TIMEOUT, RETRY_LAST},
    session::hello::Terms,
};

type Socket = WebSocketStream<TlsStream<TcpStream>>;

/// What holds the link.
pub(crate) struct Client {
    /// Where control takes links, how to get there, and what is renewed over the link.
    pub(crate) credentials: Arc<Credentials>,
    /// Random, made when the process starts.
    pub(crate) process: [u8; 16],
    /// How to enrol again, as it was at the start.
    pub(crate) config: Config,
    /// Whose sessions these are.
    pub(crate) gateway: Arc<Gateway>,
}

/// Why a link ended, or never was.
#[derive(Debug, Error)]
enum LinkError {
    #[error("expected an address like wss://HOST:PORT/link")]
    Address,
    #[error("expected a host name or address")]
    Host(#[from] InvalidDnsNameError),
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    #[error("cannot speak with it")]
    Socket(#[from] tungstenite::Error),
    #[error("expected a welcome within {LINK_CONNECT_TIMEOUT:?}, found none")]
    WelcomeOverdue,
    #[error("it was closed")]
    Closed,
    #[error("control refuses it: {0}")]
    Refused(String),
    #[error("cannot read a frame")]
    Frame(#[from] FrameError),
    #[error("expected {expected}")]
    OutOfTurn { expected: &'static str },
    #[error("cannot make sense of an acknowledgement")]
    Ack(#[from] AckError),
    #[error("expected a sign of life within {:?}, found none", 2 * LINK_HEARTBEAT)]
    Silent,
    #[error("expected a frame to leave within {LINK_WRITE_TIMEOUT:?}, it did not")]
    WriteStalled,
    #[error("control fell too far behind: it has to be told anew who is here")]
    Behind,
}

impl Client {
    /// Keeps a link until it is told to stop.
    pub(crate) async fn run(self, stop: CancellationToken) {
        stop.run_until_cancelled(self.keep()).await;
    }

    async fn keep(&self) {
        let mut backoff = Backoff::default();
        self.show_end();
        loop {
            let error = match self.connect().await {
                Ok((socket, welcome)) => {
                    info!(control = %self.credentials.link(), "linked");
                    let from = clock::now();
                    let metrics = &self.gateway.metrics;
                    metrics.links.inc();
                    metrics.linked.set(1);
                    let ended = self.hold(socket, welcome).await;
                    metrics.linked.set(0);
                    // One that welcomes and then fails every time must not be dialled as fast as we can.
                    if clock::now().duration_since(from) > RETRY_LAST {
                        backoff.succeeded();
                    }
                    ended
                }
                Err(error) => error,
            };
            let wait = backoff.after_failure(rand::random());
            warn!(control = %self.credentials.link(), error = with_causes(&error), ?wait, "no link");
            tokio::time::sleep(wait).await;
            self.come_back().await;
        }
    }

    async fn connect(&self) -> Result<(Socket, LinkWelcome), LinkError> {
        let connecting = async {
            let mut socket = self.dial().await?;
            let hello = LinkHello {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                process: self.process,
            };
            send(&mut socket, FromGateway::Hello(hello).encode()).await?;
            loop {
                match receive(socket.next().await)? {
                    Some(FromControl::Welcome(welcome)) => return Ok((socket, welcome)),
                    Some(_) => {
                        return Err(LinkError::OutOfTurn {
                            expected: "a welcome first",
                        });
                    }
                    None => {}
                }
            }
        };
        timeout(LINK_CONNECT_TIMEOUT, connecting)
            .await
            .map_err(|_| LinkError::WelcomeOverdue)?
    }

    async fn dial(&self) -> Result<Socket, LinkError> {
        let url = self.credentials.link();
        let host = match url.host() {
            Some(url::Host::Domain(name)) => name.to_owned(),
            Some(url::Host::Ipv4(address)) => address.to_string(),
            Some(url::Host::Ipv6(address)) => address.to_string(),
            None => return Err(LinkError::Address),
        };
        let port = url.port_or_known_default().ok_or(LinkError::Address)?;
        let stream = TcpStream::connect((host.as_str(), port))
            .await
            .map_err(LinkError::Connect)?;
        stream.set_nodelay(true).map_err(LinkError::Connect)?;
        let stream = TlsConnector::from(self.credentials.client())
            .connect(ServerName::try_from(host)?, stream)
            .await
            .map_err(LinkError::Connect)?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(LINK_FRAME_BYTES_MAX))
            .max_frame_size(Some(LINK_FRAME_BYTES_MAX))
            .write_buffer_size(0)
            .max_write_buffer_size(2 * LINK_FRAME_BYTES_MAX);
        let (socket, _) = client_async_with_config(url.as_str(), stream, Some(config)).await?;
        Ok(socket)
    }

    async fn hold(&self, mut socket: Socket, welcome: LinkWelcome) -> LinkError {
        self.offer(welcome.settings);
        self.gateway.registry.replace_removed(welcome.removed);
        self.gateway.upward.outbox().linked();
        match self.converse(&mut socket).await {
            Ok(()) => LinkError::Closed,
            Err(error) => error,
        }
    }

    async fn converse(&self, socket: &mut Socket) -> Result<(), LinkError> {
        let mut heard_at = clock::now();
        let mut renewal = Renewal::default();
        let mut heartbeat = interval(LINK_HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.send_batches(socket).await?;
            self.send_requests(socket).await?;
            tokio::select! {
                frame = socket.next() => {
                    heard_at = clock::now();
                    if let Some(frame) = receive(frame)? {
                        self.obey(frame)?;
                    }
                }
                () = self.gateway.upward.filled() => {}
                () = renewal.due(&self.credentials) => self.ask(socket, &mut renewal).await?,
                _ = heartbeat.tick() => beat(socket, heard_at).await?,
            }
        }
    }

    async fn send_batches(&self, socket: &mut Socket) -> Result<(), LinkError> {
        loop {
            let (batch, behind) = {
                let mut outbox = self.gateway.upward.outbox();
                if outbox.is_worth_waiting() {
                    return Ok(());
                }
                (outbox.next_batch(), outbox.needs_link())
            };
            match batch {
                Some(batch) => send(socket, batch).await?,
                None if behind => return Err(LinkError::Behind),
                None => return Ok(()),
            }
        }
    }

    /// What nodes ask is asked once: they ask again themselves if no answer comes.
    async fn send_requests(&self, socket: &mut Socket) -> Result<(), LinkError> {
        for (node, request) in self.gateway.upward.take_requests() {
            let wanted = CertificateWanted { node, request };
            send(socket, FromGateway::CertificateWanted(wanted).encode()).await?;
        }
        Ok(())
    }

    /// Asks for a certificate of the gateway's own.
    async fn ask(&self, socket: &mut Socket, renewal: &mut Renewal) -> Result<(), LinkError> {
        renewal.asked_at = Some(clock::now());
        match self.credentials.request() {
            Ok(request) => {
                let wanted = FromGateway::OwnCertificateWanted(request);
                send(socket, wanted.encode()).await
            }
            Err(error) => {
                warn!(
                    error = with_causes(&error),
                    "cannot ask for a new certificate"
                );
                Ok(())
            }
        }
    }

    fn obey(&self, frame: FromControl) -> Result<(), LinkError> {
        match frame {
            FromControl::Welcome(_) => {
                return Err(LinkError::OutOfTurn {
                    expected: "one welcome on a link",
                });
            }
            FromControl::Ack(number) => self.gateway.upward.acknowledged(number)?,
            FromControl::Spec(push) => self.gateway.registry.deliver(&push.node, push.spec),
            FromControl::Close(close) => {
                self.gateway
                    .registry
                    .end(&close.node, close.connect_seq, close.goodbye);
            }
            FromControl::Settings(settings) => self.offer(settings),
            FromControl::Removed(nodes) => self.gateway.registry.remove(nodes),
            FromControl::Certificate(issued) => {
                let certificate = &issued.certificate;
                self.gateway.upward.certified(&issued.node, certificate);
                self.gateway
                    .registry
                    .certify(&issued.node, issued.certificate);
            }
            FromControl::Command(push) => self.gateway.registry.command(push),
            FromControl::OwnCertificate(certificate) => {
                match self.credentials.renew(&certificate) {
                    Ok(()) => {
                        self.show_end();
                        info!("the certificate is renewed");
                    }
                    Err(error) => {
                        warn!(
                            error = with_causes(&error),
                            "a renewed certificate is not used"
                        );
                    }
                }
            }
        }
        Ok(())
    }

    /// Shows when the certificate ends.
    fn show_end(&self) {
        self.gateway.certified_until(self.credentials.ends_at());
    }

    /// One whose certificate has ended while control was away cannot renew it by a link: it enrols again, as a start would.
    async fn come_back(&self) {
        if !self.gateway.certificate_has_ended() {
            return;
        }
        match enrol::again(&self.config, &self.credentials).await {
            Ok(()) => {
                self.show_end();
                info!("the certificate had ended: enrolled again with the same key and token");
            }
            Err(error) => warn!(
                error = with_causes(&error),
                "the certificate has ended, no node believes this gateway, and it cannot enrol again yet"
            ),
        }
    }

    fn offer(&self, settings: Settings) {
        let heartbeat = std::time::Duration::from_millis(settings.heartbeat_interval_ms.into());
        let terms = Terms::new(settings.protocol_min, heartbeat);
        // A session that begins meanwhile reads them after it has entered itself, so that none is missed.
        if self.gateway.terms.send_replace(terms) != terms {
            info!(protocol_min = terms.protocols.min, ?heartbeat, "new terms");
            self.gateway.registry.offer(terms);
        }
    }
}

/// When the gateway asks for a certificate of its own.
#[derive(Debug, Default)]
struct Renewal {
    /// When it asked last. It does not ask again before its pause is over, answered or not: by a clock that is far ahead
    /// every certificate is due as soon as it comes.
    asked_at: Option<Instant>,
}

impl Renewal {
    /// Waits until it is time to ask, by the wall clock as it is now: whoever waits comes back now and then.
    async fn due(&self, credentials: &Credentials) {
        let mut at = clock::now() + credentials.renewal_in();
        if let Some(asked_at) = self.asked_at {
            at = at.max(asked_at + credentials.ask_again());
        }
        tokio::time::sleep_until(at.into()).await;
    }
}

async fn beat(socket: &mut Socket, heard_at: Instant) -> Result<(), LinkError> {
    if clock::now().duration_since(heard_at) > 2 * LINK_HEARTBEAT {
        return Err(LinkError::Silent);
    }
    write(socket, Message::Ping(Bytes::new())).await
}

async fn send(socket: &mut Socket, frame: Bytes) -> Result<(), LinkError> {
    write(socket, Message::Binary(frame)).await
}

async fn write(socket: &mut Socket, message: Message) -> Result<(), LinkError> {
    let sent = timeout(LINK_WRITE_TIMEOUT, socket.send(message)).await;
    Ok(sent.map_err(|_| LinkError::WriteStalled)??)
}

/// The frame in a message; none in one that only shows that control lives.
fn receive(
    message: Option<Result<Message, tungstenite::Error>>,
) -> Result<Option<FromControl>, LinkError> {
    match message {
        Some(Ok(Message::Binary(bytes))) => understood(FromControl::decode(&bytes)),
        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(None),
        Some(Ok(Message::Text(_))) => Err(LinkError::OutOfTurn {
            expected: "binary messages",
        }),
        Some(Ok(Message::Close(Some(close)))) if !close.reason.is_empty() => {
            Err(LinkError::Refused(close.reason.escape_debug().to_string()))
        }
        Some(Ok(Message::Close(_))) | None => Err(LinkError::Closed),
        Some(Err(error)) => Err(error.into()),
    }
}

/// A frame that means nothing to this gateway, for one node perhaps, must not cost all others their link.
fn understood(frame: Result<FromControl, FrameError>) -> Result<Option<FromControl>, LinkError> {
    match frame {
        Ok(frame) => Ok(Some(frame)),
        Err(error @ (FrameError::Empty | FrameError::Field { .. })) => {
            warn!(%error, "a frame of control's is passed over");
            Ok(None)
        }
        Err(error @ (FrameError::TooLarge { .. } | FrameError::Undecodable(_))) => {
            Err(error.into())
        }
    }
}

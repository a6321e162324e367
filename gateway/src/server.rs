//! The gateway's door: accepts, secures and upgrades connections, and gives each its own task.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bc_protocol::certificate::HolderError;
use prometheus_client::metrics::gauge::Gauge;
use rustls::ServerConfig;
use thiserror::Error;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info};

use crate::{
    RunError,
    admission::{NotNow, Site},
    clock,
    credentials::Credentials,
    door::{Full, Place},
    drain::Schedule,
    gateway::{Gateway, Phase},
    handshakes::GivenUp,
    limits::{ACCEPT_PAUSE, ACCEPTING_MAX, DRAIN_RETRY_AFTER_SECONDS},
    metrics::Limit,
    rate::{Bucket, Metered, wake_for},
    session::{Ending, peer::Peer},
    socket::Socket,
    tls::{Greeting, Secured},
    upgrade::{NoSession, UpgradeError, Upgraded, upgrade},
};

type Connection = Secured<Metered<TcpStream>>;

/// Listens where nodes connect.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, RunError> {
    let listening = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        // What it accepts has both from there.
        socket.set_nodelay(true)?;
        wake_for(&socket, Greeting::<Metered<TcpStream>>::BYTES_MIN)?;
        socket.bind(address)?;
        socket.listen(ACCEPTING_MAX)
    };
    listening().map_err(|source| RunError::Listen { address, source })
}

/// Accepts nodes.
pub(crate) struct Server {
    credentials: Arc<Credentials>,
    gateway: Arc<Gateway>,
    tasks: TaskTracker,
    /// Ends whoever has no session yet.
    leaving: CancellationToken,
}

/// Why a connection never became a session.
#[derive(Debug, Error)]
enum Rejected {
    #[error("expected tls and a request within {0:?}")]
    Overdue(Duration),
    #[error("the peer left without a word")]
    Silent,
    #[error("no tls: {0}")]
    Tls(io::Error),
    #[error(transparent)]
    GivenUp(#[from] GivenUp),
    #[error("expected a client certificate, found none")]
    NoCertificate,
    #[error("no node: {0}")]
    Holder(#[from] HolderError),
    #[error("no request: {0}")]
    Http(#[from] UpgradeError),
    #[error("no request for a session")]
    NoSession,
    #[error(transparent)]
    NotNow(#[from] NotNow),
    #[error("the gateway stops")]
    Draining,
}

impl Server {
    /// A server of this gateway, with nobody inside.
    pub(crate) fn new(credentials: Arc<Credentials>, gateway: Arc<Gateway>) -> Self {
        Self {
            credentials,
            gateway,
            tasks: TaskTracker::new(),
            leaving: CancellationToken::new(),
        }
    }

    /// Accepts until it is dropped.
    pub(crate) async fn accept(&self, listener: &TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, from)) => self.enter(stream, from),
                Err(error) => {
                    let metrics = &self.gateway.metrics;
                    metrics.limit_reached(Limit::Connections, &format!("cannot accept: {error}"));
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Sends every node away, spread over `drain` but for what the last ones need of it, and waits until they are gone.
    pub(crate) async fn drain(&self, drain: Duration) {
        let from = Instant::now();
        let mailboxes = self.gateway.registry.close_doors();
        let count = u32::try_from(mailboxes.len()).unwrap_or(u32::MAX);
        info!(sessions = count, ?drain, "draining");
        let schedule = Schedule::new(count, drain);
        for (number, mailbox) in (0..).zip(mailboxes) {
            // By the clock and not by the step: a timer is late by up to a millisecond, ten thousand are late by ten
            // seconds.
            sleep_until(from + schedule.goodbye(number, rand::random())).await;
            mailbox.end(Ending::Stopping);
        }
        // Until here a node in the middle of its handshake is told to come back. Nobody is waited for who may never end his:
        // the next process cannot open the door before.
        self.leaving.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn enter(&self, stream: TcpStream, from: SocketAddr) {
        let (place, turn) = match self.admit(from) {
            Ok(admitted) => admitted,
            Err((limit, reason)) => {
                self.gateway.metrics.limit_reached(limit, &reason);
                return;
            }
        };
        let credentials = Arc::clone(&self.credentials);
        let gateway = Arc::clone(&self.gateway);
        let (tasks, leaving) = (self.tasks.clone(), self.leaving.clone());
        self.tasks.spawn(async move {
            // In a box of its own: what a handshake needs must not stay with the session.
            let prepared = Box::pin(prepare(stream, turn, &credentials, &gateway));
            let prepared = leaving.run_until_cancelled(prepared).await;
            match prepared.unwrap_or(Err(Rejected::Draining)) {
                Ok((upgraded, peer)) => {
                    let socket = Socket::new(upgraded, peer, place, gateway);
                    tasks.spawn(Box::new(socket).run());
                }
                Err(reason) => reject(&gateway, from, &reason),
            }
        });
    }

    /// A place, and the moment for the handshake; or the limit that is against it. Nothing is said to whoever is turned
    /// away here: what could be understood costs as much as a handshake.
    fn admit(&self, from: SocketAddr) -> Result<(Place, Instant), (Limit, String)> {
        let (gateway, limits, now) = (&self.gateway, self.gateway.limits(), clock::now());
        let site = Site::from(from.ip());
        let place =
            gateway
                .door
                .enter(site.address(), &limits, now)
                .map_err(|full| match full {
                    Full::Connections { .. } => (Limit::Connections, full.to_string()),
                    Full::Address { .. } => (Limit::Unwelcomed, full.to_string()),
                })?;
        let turn = gateway.admission().arrives(site, &limits, now);
        let turn = turn.map_err(|not_now| (limit_of(&not_now), not_now.to_string()))?;
        Ok((place, turn.into()))
    }
}

fn limit_of(not_now: &NotNow) -> Limit {
    match not_now {
        NotNow::Crowd { .. } => Limit::Handshakes,
        NotNow::Site { .. } => Limit::HandshakesPerAddress,
        NotNow::Node { .. } => Limit::SessionsPerNode,
    }
}

/// Waits for its turn, then does what comes before a session, in bounded time.
async fn prepare(
    stream: TcpStream,
    turn: Instant,
    credentials: &Credentials,
    gateway: &Gateway,
) -> Result<(Upgraded<Connection>, Peer), Rejected> {
    if Instant::now() < turn {
        let _waiting = Counted::new(&gateway.metrics.waiting);
        sleep_until(turn).await;
    }
    let _under_way = Counted::new(&gateway.metrics.handshakes);
    let from = clock::now();
    let limit = gateway.limits().handshake_timeout;
    let tls = credentials.server();
    let prepared = timeout(limit, Box::pin(secure_and_upgrade(stream, tls, gateway))).await;
    let prepared = prepared.map_err(|_| Rejected::Overdue(limit))??;
    let took = clock::now().saturating_duration_since(from);
    gateway
        .metrics
        .handshake_seconds
        .observe(took.as_secs_f64());
    Ok(prepared)
}

async fn secure_and_upgrade(
    stream: TcpStream,
    tls: Arc<ServerConfig>,
    gateway: &Gateway,
) -> Result<(Upgraded<Connection>, Peer), Rejected> {
    let limits = gateway.limits();
    let bytes = Bucket::full(limits.bytes_per_second, limits.bytes_burst, clock::now());
    let greeting = Greeting::hear(Metered::new(stream, bytes))
        .await
        .map_err(Rejected::Tls)?
        .ok_or(Rejected::Silent)?;
    let max = limits.handshakes_under_way;
    let turn = gateway.handshakes.enter(max).await;
    let place = gateway.keys_where();
    // What a handshake needs, only who is at it has.
    let secured = turn
        .unless_wanted(max, Box::pin(greeting.answer(tls, &gateway.keying, place)))
        .await?
        .map_err(Rejected::Tls)?;
    let peer = Peer::of(secured.peer().ok_or(Rejected::NoCertificate)?)?;
    let may = may_begin(gateway, &peer);
    let told = may.as_ref().copied().map_err(as_told);
    let upgraded = upgrade(secured, told).await?;
    may?;
    Ok((upgraded.ok_or(Rejected::NoSession)?, peer))
}

/// Whether this node may have a session now. Only here it is known who it is, and an answer costs little more.
fn may_begin(gateway: &Gateway, peer: &Peer) -> Result<(), Rejected> {
    match gateway.phase() {
        Phase::Draining => return Err(Rejected::Draining),
        Phase::Enrolling | Phase::Serving => {}
    }
    let limits = gateway.limits();
    Ok(gateway
        .admission()
        .shows(&peer.node, &limits, clock::now())?)
}

/// What the peer is told: that it is welcome, but not now.
fn as_told(reason: &Rejected) -> NoSession {
    let (status, retry_after) = match reason {
        Rejected::NotNow(not_now) => (StatusCode::TOO_MANY_REQUESTS, not_now.retry_after_seconds()),
        Rejected::Draining
        | Rejected::Overdue(_)
        | Rejected::Silent
        | Rejected::Tls(_)
        | Rejected::GivenUp(_)
        | Rejected::NoCertificate
        | Rejected::Holder(_)
        | Rejected::Http(_)
        | Rejected::NoSession => (StatusCode::SERVICE_UNAVAILABLE, DRAIN_RETRY_AFTER_SECONDS),
    };
    NoSession {
        status,
        why: reason.to_string(),
        retry_after,
    }
}

fn reject(gateway: &Gateway, from: SocketAddr, reason: &Rejected) {
    let limit = match reason {
        Rejected::Overdue(_) => Limit::HandshakeTimeout,
        Rejected::NotNow(not_now) => limit_of(not_now),
        Rejected::GivenUp(_) => Limit::HandshakesUnderWay,
        Rejected::Draining => {
            debug!(%from, "came while the gateway stops");
            return;
        }
        Rejected::Silent => {
            debug!(%from, "came and left without a word");
            return;
        }
        Rejected::Http(UpgradeError::Ended) => {
            // A node with a good certificate that only looked whether a gateway can be reached, as it does in a trial.
            gateway.metrics.limit(Limit::Strangers).inc();
            debug!(%from, "came, showed a certificate and asked for nothing");
            return;
        }
        Rejected::Tls(_)
        | Rejected::NoCertificate
        | Rejected::Holder(_)
        | Rejected::Http(UpgradeError::Broken(_))
        | Rejected::NoSession => Limit::Strangers,
    };
    gateway
        .metrics
        .limit_reached(limit, &format!("{from}: {reason}"));
}

/// One more, until it is dropped.
struct Counted(Gauge);

impl Counted {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

//! The gateway's door: accepts, secures and upgrades connections, and gives each its own task.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bc_protocol::{
    certificate::{HolderError, holder},
    id::NodeId,
};
use thiserror::Error;
use tokio::{
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use crate::{
    clock,
    credentials::Credentials,
    door::Door,
    gateway::Gateway,
    limits::DRAIN_STEP_MAX,
    rate::{Bucket, Metered},
    session::Ending,
    socket::Socket,
    upgrade::{Upgraded, upgrade},
};

/// After a failed accept. Descriptors that ran out come back only when somebody leaves.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type Secured = TlsStream<Metered<TcpStream>>;

/// Accepts nodes.
pub(crate) struct Server {
    credentials: Arc<Credentials>,
    door: Arc<Door>,
    gateway: Arc<Gateway>,
    tasks: TaskTracker,
}

/// Why a connection never became a session.
#[derive(Debug, Error)]
enum Rejected {
    #[error("expected tls and a request within {0:?}")]
    Overdue(Duration),
    #[error("no tls: {0}")]
    Tls(io::Error),
    #[error("expected a client certificate, found none")]
    NoCertificate,
    #[error("no node: {0}")]
    Holder(#[from] HolderError),
    #[error("no request: {0}")]
    Http(#[from] hyper::Error),
    #[error("no request for a session")]
    NoSession,
}

impl Server {
    /// A server of this gateway, with nobody inside.
    pub(crate) fn new(credentials: Arc<Credentials>, gateway: Arc<Gateway>) -> Self {
        let limits = &gateway.limits;
        let door = Door::new(limits.connections_max, limits.unwelcomed_per_address);
        Self {
            credentials,
            door: Arc::new(door),
            gateway,
            tasks: TaskTracker::new(),
        }
    }

    /// Accepts until it is dropped.
    pub(crate) async fn accept(&self, listener: &TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, from)) => self.enter(stream, from),
                Err(error) => {
                    warn!(%error, "cannot accept");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Sends every node away, spread over at most `over`, and waits until they are gone.
    pub(crate) async fn drain(&self, over: Duration) {
        let mailboxes = self.gateway.registry.close_doors();
        let count = u32::try_from(mailboxes.len()).unwrap_or(u32::MAX);
        info!(sessions = count, "draining");
        let step = over
            .checked_div(count)
            .unwrap_or_default()
            .min(DRAIN_STEP_MAX);
        let from = tokio::time::Instant::now();
        let mut due = Duration::ZERO;
        for mailbox in mailboxes {
            mailbox.end(Ending::Stopping);
            due += step;
            // By the clock and not by the step: a timer is late by up to a millisecond, ten thousand are late by ten
            // seconds.
            tokio::time::sleep_until(from + due).await;
        }
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn enter(&self, stream: TcpStream, from: SocketAddr) {
        let place = match self.door.enter(from.ip()) {
            Ok(place) => place,
            Err(reason) => {
                warn!(%from, %reason, "connection refused");
                return;
            }
        };
        let tls = TlsAcceptor::from(self.credentials.server());
        let gateway = Arc::clone(&self.gateway);
        let tasks = self.tasks.clone();
        self.tasks.spawn(async move {
            let limit = gateway.limits.handshake_timeout;
            // In a box of its own: what a handshake needs must not stay with the session.
            let prepared = timeout(limit, Box::pin(prepare(stream, tls, &gateway))).await;
            match prepared.unwrap_or(Err(Rejected::Overdue(limit))) {
                Ok((upgraded, node)) => {
                    let socket = Box::pin(Socket::new(upgraded, node, place, gateway)).await;
                    tasks.spawn(Box::new(socket).run());
                }
                Err(Rejected::NoSession) => debug!(%from, "no session asked for"),
                Err(reason) => info!(%from, %reason, "connection rejected"),
            }
        });
    }
}

async fn prepare(
    stream: TcpStream,
    tls: TlsAcceptor,
    gateway: &Gateway,
) -> Result<(Upgraded<Secured>, NodeId), Rejected> {
    stream.set_nodelay(true).map_err(Rejected::Tls)?;
    let limits = &gateway.limits;
    let bytes = Bucket::full(limits.bytes_per_second, limits.bytes_burst, clock::now());
    let secured = tls
        .accept(Metered::new(stream, bytes))
        .await
        .map_err(Rejected::Tls)?;
    let chain = secured.get_ref().1.peer_certificates();
    let leaf = chain.and_then(<[_]>::first);
    let node = holder(leaf.ok_or(Rejected::NoCertificate)?)?;
    let upgraded = upgrade(secured).await?.ok_or(Rejected::NoSession)?;
    Ok((upgraded, node))
}

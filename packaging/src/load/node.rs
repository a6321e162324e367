//! One simulated node's life: connect, hold the session, come back.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use anyhow::{Context, Result};
use bc_protocol::session::{Goodbye, Pace};
use rustls::pki_types::ServerName;
use tokio::{
    net::{TcpSocket, TcpStream, lookup_host},
    sync::{Semaphore, watch},
    time::{sleep, timeout},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    conversation,
    credentials::Credentials,
    peers,
    plan::{Manner, Plan, Source, Speech},
    tally::Tally,
};

/// As a real agent has it.
const OPEN_DEADLINE: Duration = Duration::from_secs(20);

/// The first minted node's address; the others follow, far from where anybody listens.
const MINTED_FROM: Ipv4Addr = Ipv4Addr::new(127, 64, 0, 1);

/// Between two tries of nodes that want back at once: a port that refuses does so in microseconds.
const EAGER_WAIT: Duration = Duration::from_millis(50);

/// What the nodes of one swarm share.
pub(super) struct Shared {
    pub(super) plan: Plan,
    pub(super) tally: Tally,
    /// How many nodes are to be there: the first ones by number.
    pub(super) wanted: watch::Receiver<usize>,
    pub(super) opening: Semaphore,
}

/// One node.
pub(super) struct Node {
    pub(super) shared: Arc<Shared>,
    /// From 0 within its swarm.
    pub(super) index: usize,
    pub(super) credentials: Credentials,
}

/// Resolves when a node is not wanted any more, or nobody is there to want it.
pub(super) async fn unwanted(wanted: &mut watch::Receiver<usize>, index: usize) {
    drop(wanted.wait_for(|count| index >= *count).await);
}

/// How a session ended.
pub(super) enum Ended {
    /// The swarm wants fewer nodes.
    Unwanted,
    /// The other side left, with or without a word.
    Lost(Option<Goodbye>),
}

impl Node {
    /// Lives until the swarm is gone.
    pub(super) async fn live(self) {
        let mut pace = Pace::default();
        let mut connect_seq = 0;
        let mut wanted = self.shared.wanted.clone();
        while wanted.wait_for(|count| self.index < *count).await.is_ok() {
            connect_seq += 1;
            let goodbye = match self.session(connect_seq, &mut wanted).await {
                Ok(Ended::Unwanted) => continue,
                Ok(Ended::Lost(goodbye)) => {
                    pace = Pace::default();
                    goodbye
                }
                Err(error) => {
                    self.shared.tally.trouble(&error);
                    pace.grow();
                    None
                }
            };
            let wait = match self.shared.plan.manner {
                Manner::Agent => pace.after(goodbye.as_ref(), rand::random()),
                Manner::Eager => EAGER_WAIT,
            };
            sleep(wait).await;
        }
    }

    async fn session(
        &self,
        connect_seq: u64,
        wanted: &mut watch::Receiver<usize>,
    ) -> Result<Ended> {
        let tally = &self.shared.tally;
        let turn = self.shared.opening.acquire().await?;
        let since = tally.tries();
        let opening = timeout(OPEN_DEADLINE, Box::pin(self.open(connect_seq, since)));
        let line = match opening.await.context("no session in time").flatten() {
            Ok(line) => line,
            Err(error) => {
                tally.failed(&error, since);
                return Err(error);
            }
        };
        drop(turn);
        let ended = match line {
            Line::Session(session) => session.hold(self, wanted).await,
            Line::Peer(peer) => peer.hold(self, wanted).await,
        };
        tally.live.fetch_sub(1, Relaxed);
        if matches!(ended, Ok(Ended::Lost(_)) | Err(_)) {
            tally.lost.fetch_add(1, Relaxed);
        }
        // One that was lost in the middle comes back like any other.
        ended.or_else(|error| {
            tally.trouble(&error);
            Ok(Ended::Lost(None))
        })
    }

    async fn open(&self, connect_seq: u64, since: Duration) -> Result<Line> {
        let tally = &self.shared.tally;
        let name = self.gateway(connect_seq)?;
        let stream = self.dial(name).await.context("connect")?;
        match self.shared.plan.speech {
            Speech::Session => {
                let stream = self.secure(name, stream).await?;
                let session = conversation::open(stream, name, connect_seq, tally, since).await?;
                Ok(Line::Session(Box::new(session)))
            }
            Speech::Nats => Ok(Line::Peer(peers::nats(self, name, stream, since).await?)),
            Speech::Mqtt => Ok(Line::Peer(peers::mqtt(self, name, stream, since).await?)),
            Speech::Raw => Ok(Line::Peer(peers::raw(self, stream, since))),
        }
    }

    /// Nodes begin at different gateways, and go on to the next with each connection.
    fn gateway(&self, connect_seq: u64) -> Result<&str> {
        let named = &self.credentials.gateways;
        let gateways = match named.is_empty() {
            true => &self.shared.plan.gateways,
            false => named,
        };
        let turn = self.index.wrapping_add(usize::try_from(connect_seq)?);
        let at = turn.checked_rem(gateways.len());
        let gateway = at.and_then(|at| gateways.get(at));
        Ok(gateway.context("there is no gateway to connect to")?)
    }

    async fn dial(&self, name: &str) -> Result<TcpStream> {
        let address = match name.parse() {
            Ok(address) => address,
            Err(_) => lookup_host(name).await?.next().context("no address")?,
        };
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // Loopback has many addresses; from one of them nobody gets anywhere else.
        if let Some(from) = self.own_address()
            && from.is_loopback() == address.ip().is_loopback()
        {
            socket.bind((from, 0).into())?;
        }
        let stream = socket.connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Minted nodes are machines of their own, each with an address, as real ones are: a server that bounds what one
    /// address may do can be looked at as it is shipped.
    fn own_address(&self) -> Option<IpAddr> {
        match &self.shared.plan.source {
            Source::Minted(_) => {
                let number = u32::try_from(self.shared.plan.first + self.index).ok()?;
                Some(Ipv4Addr::from_bits(MINTED_FROM.to_bits().checked_add(number)?).into())
            }
            Source::Joined { .. } => self.shared.plan.from,
        }
    }

    /// Client and server show each other who they are.
    pub(super) async fn secure(
        &self,
        name: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>> {
        let host = name.rsplit_once(':').map_or(name, |(host, _)| host);
        let host = host.trim_matches(['[', ']']).to_owned();
        let host = ServerName::try_from(host).context("the gateway's host is no name")?;
        TlsConnector::from(Arc::clone(&self.credentials.tls))
            .connect(host, stream)
            .await
            .context("tls")
    }
}

enum Line {
    Session(Box<conversation::Session>),
    Peer(peers::Peer),
}

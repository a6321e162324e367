//! A way from a machine to a server, on which the answer stops in the middle when somebody says so.
//!
//! Takes an address, gives a port of loopback. Nothing is looked at and nothing is changed: only bytes towards the machine
//! are counted, connection by connection.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinHandle,
    time::{Duration, timeout},
};

/// What happens to what a server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// All of it arrives.
    Pass,
    /// No connection carries more than that many bytes.
    Beyond(u64),
    /// What comes after this order is connected, and hears nothing.
    NobodyNew,
}

/// The way, for as long as the value lives.
#[derive(Debug)]
pub(super) struct Relay {
    port: u16,
    orders: watch::Sender<Order>,
    held: watch::Receiver<u64>,
    accepting: JoinHandle<()>,
}

impl Relay {
    /// To a port of loopback.
    pub(super) async fn to(port: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let own = listener.local_addr()?.port();
        let (orders, heard) = watch::channel(Order::Pass);
        let (holding, held) = watch::channel(0);
        let accepting = tokio::spawn(accept(
            listener,
            (Ipv4Addr::LOCALHOST, port).into(),
            heard,
            holding,
        ));
        Ok(Self {
            port: own,
            orders,
            held,
            accepting,
        })
    }

    /// Where it listens.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// From now on.
    pub(super) fn order(&mut self, order: Order) {
        self.held.mark_unchanged();
        self.orders.send_replace(order);
    }

    /// Waits until the last order has stopped something.
    pub(super) async fn has_held(&mut self, patience: Duration) -> Result<()> {
        let held = timeout(patience, self.held.changed()).await;
        held.with_context(|| format!("waited {patience:?} in vain until the relay held something"))?
            .context("the relay is gone")
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(
    listener: TcpListener,
    to: SocketAddr,
    orders: watch::Receiver<Order>,
    holding: watch::Sender<u64>,
) {
    while let Ok((machine, _)) = listener.accept().await {
        let carried = Carried {
            is_new: *orders.borrow() == Order::NobodyNew,
            bytes: 0,
            orders: orders.clone(),
            holding: holding.clone(),
        };
        // Whoever breaks a connection off has a reason.
        tokio::spawn(async move { drop(connected(machine, to, carried).await) });
    }
}

async fn connected(machine: TcpStream, to: SocketAddr, carried: Carried) -> Result<()> {
    let server = TcpStream::connect(to).await?;
    let (from_machine, to_machine) = machine.into_split();
    let (from_server, to_server) = server.into_split();
    let up = tokio::spawn(up(from_machine, to_server));
    let down = carried.down(from_server, to_machine).await;
    up.abort();
    down
}

async fn up(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> Result<()> {
    copy(&mut from, &mut to).await?;
    to.shutdown().await?;
    Ok(())
}

/// What one connection has carried towards the machine.
struct Carried {
    /// Whether it came while nobody new was to hear anything.
    is_new: bool,
    bytes: u64,
    orders: watch::Receiver<Order>,
    holding: watch::Sender<u64>,
}

impl Carried {
    async fn down(mut self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> Result<()> {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let read = from.read(&mut buffer).await?;
            if read == 0 {
                to.shutdown().await?;
                return Ok(());
            }
            self.bytes += u64::try_from(read)?;
            if self.is_over() {
                self.holding.send_modify(|held| *held += 1);
                while self.is_over() {
                    self.orders.changed().await?;
                }
            }
            let read = buffer.get(..read).unwrap_or_default();
            to.write_all(read).await?;
        }
    }

    fn is_over(&self) -> bool {
        match *self.orders.borrow() {
            Order::Pass => false,
            Order::Beyond(bytes) => self.bytes > bytes,
            Order::NobodyNew => self.is_new,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Order, Relay};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
        time::Duration,
    };

    const PATIENCE: Duration = Duration::from_secs(30);

    /// A server that sends that many bytes to everybody, and a relay to it.
    async fn server(bytes: usize) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut peer, _)) = listener.accept().await {
                tokio::spawn(async move { peer.write_all(&vec![7; bytes]).await });
            }
        });
        Relay::to(port).await.unwrap()
    }

    async fn read(relay: &Relay) -> Vec<u8> {
        let mut peer = TcpStream::connect(("127.0.0.1", relay.port()))
            .await
            .unwrap();
        let mut read = Vec::new();
        peer.read_to_end(&mut read).await.unwrap();
        read
    }

    #[tokio::test]
    async fn everything_arrives() {
        let relay = server(100_000).await;
        assert_eq!(read(&relay).await.len(), 100_000);
    }

    #[tokio::test]
    async fn a_download_stops_in_the_middle_and_goes_on() {
        let mut relay = server(1_000_000).await;
        relay.order(Order::Beyond(500_000));
        let mut peer = TcpStream::connect(("127.0.0.1", relay.port()))
            .await
            .unwrap();
        relay.has_held(PATIENCE).await.unwrap();
        relay.order(Order::Pass);
        let mut read = Vec::new();
        peer.read_to_end(&mut read).await.unwrap();
        assert_eq!(read.len(), 1_000_000);
    }

    #[tokio::test]
    async fn nobody_new_hears_anything() {
        let mut relay = server(10).await;
        relay.order(Order::NobodyNew);
        let mut peer = TcpStream::connect(("127.0.0.1", relay.port()))
            .await
            .unwrap();
        relay.has_held(PATIENCE).await.unwrap();
        relay.order(Order::Pass);
        let mut read = [0; 10];
        peer.read_exact(&mut read).await.unwrap();
    }
}

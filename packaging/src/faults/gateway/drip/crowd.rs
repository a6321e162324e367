//! Those that drip: a byte now and then, in TLS, in the request or in the Hello, again and again, while they are let.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use bc_protocol::session::FromNode;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    runtime::{Builder, Runtime},
    sync::watch,
    time::{sleep, timeout},
};

use super::{
    super::{
        house::House,
        raw::{Credential, Mint, Raw, dial, hello, masked},
    },
    Place,
};
use crate::load::processors::stand_aside;

/// From one byte to the next.
const DRIP: Duration = Duration::from_secs(1);

/// In which they come: the gateway gives each ten seconds, and it is back a second later. So as many come in each moment as
/// leave, which is how it is after a while, whenever they began.
const COMING: Duration = Duration::from_secs(11);

/// Clients that drip while they are let. They are on a thread of their own that gives way to the honest: elsewhere they
/// would be other machines, and what is asked is what they cost the gateway.
pub(super) struct Dripping {
    shared: Arc<Shared>,
    wanted: usize,
    let_in: watch::Sender<bool>,
    threads: Option<Runtime>,
}

struct Shared {
    gateway: SocketAddr,
    connections: AtomicU64,
    dripping: AtomicUsize,
}

/// Where a connection drips.
#[derive(Clone, Copy)]
enum Stage {
    Tls,
    Request,
    Hello,
}

impl Dripping {
    /// Makes them, and lets none drip yet: eight of ten will in TLS, which costs them least, one each in the request and
    /// in the Hello.
    pub(super) fn gather(house: &House, wanted: usize, place: Place) -> Result<Self> {
        let mint = Mint::new(&house.authority)?;
        let shared = Arc::new(Shared {
            gateway: house.address,
            connections: AtomicU64::new(0),
            dripping: AtomicUsize::new(0),
        });
        let threads = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .on_thread_start(move || match place {
                Place::Anywhere => {}
                // Only the measure is worse without, and says so.
                Place::Apart => drop(stand_aside()),
            })
            .build()?;
        let (let_in, heard) = watch::channel(false);
        for number in 0..wanted {
            let stage = match number % 10 {
                0 => Stage::Request,
                1 => Stage::Hello,
                _ => Stage::Tls,
            };
            // One address may have two thousand that say nothing.
            let host = u8::try_from(number / 1000 + 1)?;
            let client = Client {
                from: IpAddr::from([127, 0, 1, host]),
                who: mint.node(&house.authority, 100_000 + number)?,
                stage,
                shared: Arc::clone(&shared),
            };
            threads.spawn(client.live(heard.clone()));
        }
        Ok(Self {
            shared,
            wanted,
            let_in,
            threads: Some(threads),
        })
    }

    /// How many connections have dripped so far.
    pub(super) fn connections(&self) -> u64 {
        self.shared.connections.load(Relaxed)
    }

    /// Lets them drip, and waits until most of them do.
    pub(super) async fn begin(&self) -> Result<()> {
        self.let_in.send_replace(true);
        let most = async {
            while self.shared.dripping.load(Relaxed) < self.wanted * 9 / 10 {
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(Duration::from_secs(60), most)
            .await
            .context("expected most of them to drip by now")
    }

    /// Has all of them leave, and waits until the gateway has forgotten them.
    pub(super) async fn end(&self, house: &House) -> Result<()> {
        self.let_in.send_replace(false);
        let forgotten = Duration::from_secs(30);
        house.until("bc_gateway_connections", 0, forgotten).await
    }
}

impl Drop for Dripping {
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            // Without waiting: whoever drops it may be a task himself.
            threads.shutdown_background();
        }
    }
}

struct Client {
    from: IpAddr,
    who: Credential,
    stage: Stage,
    shared: Arc<Shared>,
}

impl Client {
    /// Drips whenever it is let, until nobody is there to let it.
    async fn live(self, mut let_in: watch::Receiver<bool>) {
        while let_in.wait_for(|is| *is).await.is_ok() {
            let drips = async {
                sleep(COMING.mul_f64(rand::random())).await;
                loop {
                    self.shared.connections.fetch_add(1, Relaxed);
                    self.drip().await.ok();
                    sleep(DRIP).await;
                }
            };
            let ended = async { let_in.wait_for(|is| !*is).await.is_ok() };
            tokio::select! {
                () = drips => {}
                _ = ended => {}
            }
        }
    }

    async fn drip(&self) -> Result<()> {
        let (gateway, from) = (self.shared.gateway, self.from);
        match self.stage {
            Stage::Tls => {
                // The head of a ClientHello that would be half a kilobyte.
                let stream = dial(gateway, from).await?;
                let mut bytes = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec();
                bytes.resize(500, 0);
                self.drop_by_drop(stream, &bytes).await;
            }
            Stage::Request => {
                let raw = Raw::secure(gateway, from, &self.who.tls).await?;
                self.drop_by_drop(raw.stream, Raw::request()).await;
            }
            Stage::Hello => {
                let raw = Raw::upgraded(gateway, from, &self.who.tls).await?;
                let hello = masked(0x82, &FromNode::Hello(hello(1, 1)?).encode());
                self.drop_by_drop(raw.stream, &hello).await;
            }
        }
        Ok(())
    }

    /// Sends a byte now and then until the gateway has had enough.
    async fn drop_by_drop(&self, stream: impl AsyncRead + AsyncWrite, bytes: &[u8]) {
        let _dripping = Counted::new(&self.shared.dripping);
        let (mut hears, mut speaks) = tokio::io::split(stream);
        let speaking = async {
            for byte in bytes {
                if speaks.write_all(&[*byte]).await.is_err() || speaks.flush().await.is_err() {
                    break;
                }
                sleep(DRIP).await;
            }
        };
        let hearing = async {
            let mut drain = [0; 512];
            while let Ok(1..) = hears.read(&mut drain).await {}
        };
        tokio::select! {
            () = speaking => {}
            () = hearing => {}
        }
    }
}

/// One more, until it is dropped.
struct Counted<'c>(&'c AtomicUsize);

impl<'c> Counted<'c> {
    fn new(count: &'c AtomicUsize) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

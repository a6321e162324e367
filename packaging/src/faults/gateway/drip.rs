//! Clients that drip: a byte now and then, in TLS, in the request, in the Hello, thousands at once and again and again.
//!
//! Beside them honest nodes open sessions, and wait for their Welcome no longer than they do while the same clients drip
//! at another gateway: those are a load for the machine, wherever they drip, and what is asked is what they cost the
//! gateway. Its memory stays within a bound that is paid once.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use bc_protocol::session::FromNode;
use rustix::process::setpriority_process;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    runtime::{Builder, Runtime},
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    super::Extent,
    house::House,
    raw::{Credential, Mint, Raw, dial, hello, masked},
};
use crate::fleet::now;

/// From one byte to the next.
const DRIP: Duration = Duration::from_secs(1);

/// As `nice` counts.
const LEAST_PRIORITY: i32 = 19;

/// Memory for each connection that drips: TLS's own buffers, a task and a socket.
const EACH_BYTES_MAX: u64 = 64 << 10;

/// How much longer an honest node may wait beside them than where they drip elsewhere, in the full form.
const WORSE_MAX: f64 = 1.2;

/// In the short form, beside a build or a test, waits of a millisecond differ by more than that by themselves.
const WORSE_MAX_SHORT: f64 = 8.0;

/// One node opens all honest sessions.
const LIMITS: &str = "sessions_per_node_burst = 100000";

/// Between two honest sessions.
const HONEST_EVERY: Duration = Duration::from_millis(20);

/// What was seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    dripping: usize,
    connections: u64,
    each_kib: u64,
    alone: Waits,
    elsewhere: Waits,
    beside: Waits,
}

/// How long Welcomes took.
#[derive(Clone, Debug, Default)]
struct Waits {
    sessions: usize,
    median: Duration,
    p99: Duration,
}

impl Waits {
    fn of(mut waits: Vec<Duration>) -> Self {
        waits.sort_unstable();
        let at = |percent| {
            let place = waits.len().saturating_sub(1) * percent / 100;
            waits.get(place).copied().unwrap_or_default()
        };
        Self {
            sessions: waits.len(),
            median: at(50),
            p99: at(99),
        }
    }

    fn over(&self, other: &Self) -> f64 {
        self.p99.as_secs_f64() / other.p99.as_secs_f64().max(1e-6)
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |span: Duration| span.as_secs_f64() * 1000.0;
        write!(
            f,
            "{:.2}/{:.2}ms({})",
            ms(self.median),
            ms(self.p99),
            self.sessions
        )
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (alone, elsewhere) = (
            self.beside.over(&self.alone),
            self.beside.over(&self.elsewhere),
        );
        write!(
            f,
            "dripping={} drips={} drip_kib={} welcome_alone={} welcome_elsewhere={} welcome_beside={} \
             p99_over_alone={alone:.2} p99_over_elsewhere={elsewhere:.2}",
            self.dripping, self.connections, self.each_kib, self.alone, self.elsewhere, self.beside,
        )
    }
}

/// How many drip, for how long, and how long honest nodes are looked at alone.
fn size(extent: Extent, span: Option<Duration>) -> (usize, Duration, Duration) {
    let (dripping, usual) = match extent {
        Extent::Short => (300, Duration::from_secs(14)),
        Extent::Full => (10_000, Duration::from_secs(600)),
    };
    let span = span.unwrap_or(usual);
    (dripping, span, (span / 3).min(Duration::from_secs(60)))
}

/// Measures honest nodes alone, while others drip elsewhere, and beside them.
pub(super) async fn run(
    gateway: &Path,
    extent: Extent,
    span: Option<Duration>,
    tell: &impl Fn(&str),
) -> Result<(Figures, Vec<String>)> {
    let (dripping, beside, alone) = size(extent, span);
    let mut house = House::start(gateway, 15_000, LIMITS).await?;
    let mint = Mint::new(&house.authority)?;
    let honest = mint.node(&house.authority, 0)?;
    let mut seq = 0;
    let waits_alone = waits(&house, &honest, &mut seq, alone).await?;
    let waits_elsewhere = match extent {
        // A few hundred are no load for the machine, and time is short.
        Extent::Short => waits_alone.clone(),
        Extent::Full => {
            let other = House::start(gateway, 15_000, LIMITS).await?;
            let crowd = Dripping::gather(&other, dripping)?;
            let most = crowd.most_beside(&house, &mut seq, &honest, alone);
            most.await?.waits
        }
    };
    let before = house.resident()?;
    let crowd = Dripping::gather(&house, dripping)?;
    let most = crowd.most_beside(&house, &mut seq, &honest, beside).await?;
    house.check()?;
    tell(&format!("{} connections have dripped", crowd.connections()));
    let figures = Figures {
        dripping,
        connections: crowd.connections(),
        each_kib: (most.resident.saturating_sub(before) / u64::try_from(dripping)?) >> 10,
        alone: Waits::of(waits_alone),
        elsewhere: Waits::of(waits_elsewhere),
        beside: Waits::of(most.waits),
    };
    let mut violations = violations(&figures, extent, most.resident.saturating_sub(before));
    drop(crowd);
    let gone = house
        .until("bc_gateway_connections", 0, Duration::from_secs(30))
        .await;
    if let Err(error) = gone {
        violations.push(format!("who dripped is not forgotten: {error:#}"));
    }
    Ok((figures, violations))
}

fn violations(figures: &Figures, extent: Extent, grown: u64) -> Vec<String> {
    let mut violations = Vec::new();
    let dripping = figures.dripping;
    let bound = EACH_BYTES_MAX.saturating_mul(u64::try_from(dripping).unwrap_or(u64::MAX));
    if grown > bound {
        violations.push(format!(
            "expected at most {bound} bytes for {dripping} that drip, found {grown}"
        ));
    }
    let worse_max = match extent {
        Extent::Short => WORSE_MAX_SHORT,
        Extent::Full => WORSE_MAX,
    };
    let worse = figures.beside.over(&figures.elsewhere);
    if worse > worse_max {
        violations.push(format!(
            "expected honest nodes to wait at most {worse_max} times as long, found {worse:.2}"
        ));
    }
    violations
}

/// Opens one session after another, and says how long each Welcome took.
async fn waits(
    house: &House,
    honest: &Credential,
    seq: &mut u64,
    span: Duration,
) -> Result<Vec<Duration>> {
    let from = IpAddr::from([127, 0, 0, 9]);
    let until = now() + span;
    let mut waits = Vec::new();
    while now() < until {
        *seq += 1;
        let next = Instant::now() + HONEST_EVERY;
        let mut raw = Raw::upgraded(house.address, from, &honest.tls)
            .await
            .context("an honest node")?;
        let said = now();
        raw.greet(hello(*seq, *seq)?)
            .await
            .context("an honest node")?;
        waits.push(said.elapsed());
        drop(raw);
        sleep_until(next).await;
    }
    ensure!(!waits.is_empty(), "expected honest sessions, found none");
    Ok(waits)
}

/// The most that was seen while they dripped.
struct Most {
    resident: u64,
    waits: Vec<Duration>,
}

/// Those that drip. On threads of their own that give way to everybody: elsewhere they would be other machines, and what
/// is asked is what they cost the gateway.
struct Dripping {
    shared: Arc<Shared>,
    wanted: usize,
    threads: Option<Runtime>,
}

struct Shared {
    gateway: SocketAddr,
    connections: AtomicU64,
    dripping: AtomicUsize,
}

/// Where a connection drips.
#[derive(Clone, Copy)]
enum Place {
    Tls,
    Request,
    Hello,
}

impl Dripping {
    /// Lets them drip: eight of ten in TLS, which costs them least, one each in the request and in the Hello.
    fn gather(house: &House, wanted: usize) -> Result<Self> {
        let mint = Mint::new(&house.authority)?;
        let shared = Arc::new(Shared {
            gateway: house.address,
            connections: AtomicU64::new(0),
            dripping: AtomicUsize::new(0),
        });
        let threads = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .on_thread_start(|| {
                // Only the measure is worse without.
                setpriority_process(None, LEAST_PRIORITY).ok();
            })
            .build()?;
        for number in 0..wanted {
            let place = match number % 10 {
                0 => Place::Request,
                1 => Place::Hello,
                _ => Place::Tls,
            };
            // One address may have two thousand that say nothing.
            let host = u8::try_from(number / 1000 + 1)?;
            let from = IpAddr::from([127, 0, 1, host]);
            let who = mint.node(&house.authority, 100_000 + number)?;
            let shared = Arc::clone(&shared);
            threads.spawn(async move {
                // Not all in the same moment.
                sleep(Duration::from_secs(5).mul_f64(rand::random())).await;
                loop {
                    shared.connections.fetch_add(1, Relaxed);
                    drip(&shared, from, &who, place).await.ok();
                    sleep(DRIP).await;
                }
            });
        }
        Ok(Self {
            shared,
            wanted,
            threads: Some(threads),
        })
    }

    fn connections(&self) -> u64 {
        self.shared.connections.load(Relaxed)
    }

    /// Honest nodes beside them, once most of them drip.
    async fn most_beside(
        &self,
        house: &House,
        seq: &mut u64,
        honest: &Credential,
        span: Duration,
    ) -> Result<Most> {
        let all = async {
            while self.shared.dripping.load(Relaxed) < self.wanted * 9 / 10 {
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(Duration::from_secs(60), all)
            .await
            .context("expected most of them to drip by now")?;
        let mut most = Most {
            resident: 0,
            waits: Vec::new(),
        };
        let until = now() + span;
        while now() < until {
            let waits = waits(house, honest, seq, Duration::from_secs(1)).await?;
            most.waits.extend(waits);
            most.resident = most.resident.max(house.resident()?);
        }
        Ok(most)
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

async fn drip(shared: &Shared, from: IpAddr, who: &Credential, place: Place) -> Result<()> {
    match place {
        Place::Tls => {
            // The head of a ClientHello that would be half a kilobyte.
            let stream = dial(shared.gateway, from).await?;
            let mut bytes = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec();
            bytes.resize(500, 0);
            drop_by_drop(stream, &bytes, shared).await;
        }
        Place::Request => {
            let raw = Raw::secure(shared.gateway, from, &who.tls).await?;
            drop_by_drop(raw.stream, Raw::request(), shared).await;
        }
        Place::Hello => {
            let raw = Raw::upgraded(shared.gateway, from, &who.tls).await?;
            let hello = masked(0x82, &FromNode::Hello(hello(1, 1)?).encode());
            drop_by_drop(raw.stream, &hello, shared).await;
        }
    }
    Ok(())
}

/// Sends a byte now and then until the gateway has had enough.
async fn drop_by_drop(stream: impl AsyncRead + AsyncWrite, bytes: &[u8], shared: &Shared) {
    shared.dripping.fetch_add(1, Relaxed);
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
    shared.dripping.fetch_sub(1, Relaxed);
}

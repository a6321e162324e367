//! How long honest nodes wait for their Welcome.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tokio::{
    runtime::{Builder, Runtime},
    time::sleep_until,
};

use super::{
    super::{
        house::House,
        raw::{Credential, Raw, hello},
    },
    Place,
};
use crate::{fleet::now, load::processors::go_first};

/// Between two honest sessions.
const HONEST_EVERY: Duration = Duration::from_millis(15);

/// Who opens all honest sessions, on a thread of its own: nobody else's work is in what it waits for.
pub(super) struct Honest {
    node: Node,
    thread: Option<Runtime>,
}

#[derive(Clone)]
struct Node {
    gateway: SocketAddr,
    who: Credential,
    seq: Arc<AtomicU64>,
}

impl Honest {
    pub(super) fn new(house: &House, who: Credential, place: Place) -> Result<Self> {
        let thread = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .on_thread_start(move || match place {
                Place::Anywhere => {}
                // Only the measure is worse without, and says so.
                Place::Apart => drop(go_first()),
            })
            .build()?;
        let node = Node {
            gateway: house.address,
            who,
            seq: Arc::default(),
        };
        Ok(Self {
            node,
            thread: Some(thread),
        })
    }

    /// Opens one session after another, and says how long each Welcome took.
    pub(super) async fn waits(&self, until: Instant) -> Result<Waits> {
        let thread = self.thread.as_ref().context("expected its thread")?;
        thread.spawn(self.node.clone().waits(until)).await?
    }
}

impl Drop for Honest {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // Without waiting: whoever drops it is a task himself.
            thread.shutdown_background();
        }
    }
}

impl Node {
    async fn waits(self, until: Instant) -> Result<Waits> {
        let mut waits = Waits::default();
        while now() < until {
            let next = now() + HONEST_EVERY;
            waits.0.push(self.wait().await.context("an honest node")?);
            sleep_until(next.into()).await;
        }
        Ok(waits)
    }

    async fn wait(&self) -> Result<Duration> {
        let seq = self.seq.fetch_add(1, Relaxed) + 1;
        let from = IpAddr::from([127, 0, 0, 9]);
        let mut raw = Raw::upgraded(self.gateway, from, &self.who.tls).await?;
        let hello = hello(seq, seq)?;
        let said = now();
        raw.greet(hello).await?;
        Ok(said.elapsed())
    }
}

/// How long Welcomes took.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits(Vec<Duration>);

impl Waits {
    pub(super) fn add(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// The 99th percentile over another's.
    pub(super) fn over(&self, other: &Self) -> f64 {
        self.percentile(99).as_secs_f64() / other.percentile(99).as_secs_f64().max(1e-6)
    }

    fn percentile(&self, percent: usize) -> Duration {
        let mut waits = self.0.clone();
        waits.sort_unstable();
        let place = waits.len().saturating_sub(1) * percent / 100;
        waits.get(place).copied().unwrap_or_default()
    }
}

/// Median, 99th percentile and how many.
impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |percent| self.percentile(percent).as_secs_f64() * 1000.0;
        write!(f, "{:.3}/{:.3}ms({})", ms(50), ms(99), self.0.len())
    }
}

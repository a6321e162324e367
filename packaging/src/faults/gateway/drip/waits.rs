//! How long honest nodes wait for their Welcome.

use std::{
    fmt,
    net::IpAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tokio::time::sleep_until;

use super::super::{
    house::House,
    raw::{Credential, Raw, hello},
};
use crate::fleet::now;

/// Between two honest sessions.
const HONEST_EVERY: Duration = Duration::from_millis(15);

/// Who opens all honest sessions.
pub(super) struct Honest {
    who: Credential,
    seq: u64,
}

impl Honest {
    pub(super) fn new(who: Credential) -> Self {
        Self { who, seq: 0 }
    }

    /// Opens one session after another, and says how long each Welcome took.
    pub(super) async fn waits(&mut self, house: &House, until: Instant) -> Result<Waits> {
        let mut waits = Waits::default();
        while now() < until {
            let next = now() + HONEST_EVERY;
            waits
                .0
                .push(self.wait(house).await.context("an honest node")?);
            sleep_until(next.into()).await;
        }
        Ok(waits)
    }

    async fn wait(&mut self, house: &House) -> Result<Duration> {
        self.seq += 1;
        let from = IpAddr::from([127, 0, 0, 9]);
        let mut raw = Raw::upgraded(house.address, from, &self.who.tls).await?;
        let hello = hello(self.seq, self.seq)?;
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

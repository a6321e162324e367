//! What a swarm counts: cheap enough for ten thousand nodes at once.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{
    monotonic,
    plan::{Spread, Status},
};

/// Counts of one swarm.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) ready: AtomicUsize,
    pub(super) live: AtomicUsize,
    pub(super) opened: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) pings: AtomicU64,
    pub(super) reports: AtomicU64,
    pub(super) commands: AtomicU64,
    specs: AtomicU64,
    last_spec_ns: AtomicU64,
    last_opened_ns: AtomicU64,
    pongs: AtomicU64,
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    open_us: Vec<u32>,
    welcome_us: Vec<u32>,
    pong_us: Vec<u32>,
    tries_by_second: BTreeMap<u64, u32>,
    trouble: Option<String>,
}

/// Pongs whose times are kept between two statuses: more than enough for a percentile.
const PONGS_NOTED_MAX: usize = 1 << 20;

impl Tally {
    /// Somebody tries to connect; gives the moment.
    pub(super) fn tries(&self) -> Duration {
        let now = monotonic();
        *self
            .noted()
            .tries_by_second
            .entry(now.as_secs())
            .or_default() += 1;
        now
    }

    /// A session is open, which took that long from its first packet, and that long from its Hello.
    pub(super) fn opened(&self, since: Duration, hello: Duration) {
        let now = monotonic();
        self.opened.fetch_add(1, Relaxed);
        self.live.fetch_add(1, Relaxed);
        self.last_opened_ns.fetch_max(nanos(now), Relaxed);
        let mut noted = self.noted();
        noted.open_us.push(micros(now.saturating_sub(since)));
        noted.welcome_us.push(micros(now.saturating_sub(hello)));
    }

    /// A spec, or what stands for one, has come.
    pub(super) fn spec(&self) {
        self.specs.fetch_add(1, Relaxed);
        self.last_spec_ns.fetch_max(nanos(monotonic()), Relaxed);
    }

    /// An answer to a ping of then.
    pub(super) fn pong(&self, pinged: Duration) {
        self.pongs.fetch_add(1, Relaxed);
        let mut noted = self.noted();
        if noted.pong_us.len() < PONGS_NOTED_MAX {
            noted
                .pong_us
                .push(micros(monotonic().saturating_sub(pinged)));
        }
    }

    /// Something went wrong.
    pub(super) fn trouble(&self, why: &anyhow::Error) {
        self.noted().trouble = Some(format!("{why:#}"));
    }

    /// Spreads begin anew.
    pub(super) fn forget(&self) {
        let mut noted = self.noted();
        noted.open_us.clear();
        noted.welcome_us.clear();
        noted.pong_us.clear();
    }

    /// How things stand.
    pub(super) fn status(&self) -> Status {
        let mut noted = self.noted();
        let spread = |samples: &[u32]| Spread::of(samples.to_vec());
        Status {
            ready: self.ready.load(Relaxed),
            live: self.live.load(Relaxed),
            opened: self.opened.load(Relaxed),
            failed: self.failed.load(Relaxed),
            refused: self.refused.load(Relaxed),
            lost: self.lost.load(Relaxed),
            specs: self.specs.load(Relaxed),
            last_spec_ns: self.last_spec_ns.load(Relaxed),
            last_opened_ns: self.last_opened_ns.load(Relaxed),
            pongs: self.pongs.load(Relaxed),
            pings: self.pings.load(Relaxed),
            reports: self.reports.load(Relaxed),
            commands: self.commands.load(Relaxed),
            open_us: spread(&noted.open_us),
            welcome_us: spread(&noted.welcome_us),
            pong_us: spread(&noted.pong_us),
            tries_by_second: noted.tries_by_second.clone(),
            trouble: noted.trouble.take(),
        }
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn micros(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(u32::MAX)
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

//! What a swarm counts: cheap enough for ten thousand nodes at once.

use std::{
    collections::BTreeMap,
    io,
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
    failed: AtomicU64,
    refused: AtomicU64,
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
    failures: BTreeMap<String, u64>,
    failures_from: Duration,
    trouble: Option<String>,
}

/// Pongs whose times are kept between two statuses: more than enough for a percentile.
const PONGS_NOTED_MAX: usize = 1 << 20;

/// Kinds of failures that are told apart; further ones are one kind.
const FAILURES_NOTED_MAX: usize = 32;

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

    /// A connection that was tried at that moment never became a session. One that was tried before the counts of
    /// failures began anew is nothing that happened since: a server that is killed resets what it has not accepted, and
    /// who tried there hears of it when the next server is there.
    pub(super) fn failed(&self, why: &anyhow::Error, since: Duration) {
        self.failed.fetch_add(1, Relaxed);
        if is_refused(why) {
            self.refused.fetch_add(1, Relaxed);
            return;
        }
        let mut noted = self.noted();
        if since >= noted.failures_from {
            let mut why = format!("{why:#}");
            if noted.failures.len() >= FAILURES_NOTED_MAX && !noted.failures.contains_key(&why) {
                why = "something else".to_owned();
            }
            *noted.failures.entry(why).or_default() += 1;
        }
    }

    /// Something went wrong.
    pub(super) fn trouble(&self, why: &anyhow::Error) {
        self.noted().trouble = Some(format!("{why:#}"));
    }

    /// Spreads and failures begin anew.
    pub(super) fn forget(&self) {
        let mut noted = self.noted();
        noted.failures.clear();
        noted.failures_from = monotonic();
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
            failures: noted.failures.clone(),
            trouble: noted.trouble.take(),
        }
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether nobody listened.
fn is_refused(why: &anyhow::Error) -> bool {
    let kind = why.downcast_ref().map(io::Error::kind);
    kind == Some(io::ErrorKind::ConnectionRefused)
}

fn micros(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(u32::MAX)
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_failure_is_told_of_with_its_stage_unless_it_was_before_or_nobody_listened() {
        let tally = Tally::default();
        let error = |kind: io::ErrorKind| anyhow!(io::Error::from(kind)).context("tls");
        let early = tally.tries();
        tally.failed(&error(io::ErrorKind::ConnectionReset), early);
        tally.forget();
        tally.failed(&error(io::ErrorKind::ConnectionReset), early);
        let late = tally.tries();
        tally.failed(&error(io::ErrorKind::ConnectionRefused), late);
        for _ in 0..2 {
            tally.failed(&error(io::ErrorKind::UnexpectedEof), late);
        }
        let status = tally.status();
        assert_eq!((status.failed, status.refused), (5, 1));
        let why: Vec<_> = status.failures.into_iter().collect();
        assert_eq!(why, [("tls: unexpected end of file".to_owned(), 2)]);
    }

    #[test]
    fn kinds_of_failures_are_bounded_and_none_is_lost() {
        let tally = Tally::default();
        let kinds = u64::try_from(FAILURES_NOTED_MAX).unwrap() + 7;
        for kind in 0..kinds {
            tally.failed(&anyhow!("number {kind}"), tally.tries());
        }
        let failures = tally.status().failures;
        assert_eq!(failures.len(), FAILURES_NOTED_MAX + 1);
        assert_eq!(failures["something else"], 7);
        assert_eq!(failures.values().sum::<u64>(), kinds);
    }
}

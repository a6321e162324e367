//! How slow a download may be.
//!
//! Takes the bytes that came and the time, gives the verdict. Reads no clock.

use std::time::{Duration, Instant};

use thiserror::Error;

use crate::http::Patience;

/// The bounds of one download.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Until the first byte of the body.
    pub(crate) patience: Patience,
    /// Without a single byte.
    pub(crate) stall: Duration,
    /// Over which the rate is taken.
    pub(crate) window: Duration,
    /// Bytes that one window must bring.
    pub(crate) window_bytes_min: u64,
    /// All in all.
    pub(crate) total: Duration,
}

impl Pace {
    /// A line that brings less than 4 KiB a second would take a day for one release; who drips to hold us is found
    /// within half a minute.
    pub(crate) const USUAL: Self = Self {
        patience: Patience {
            connect: Duration::from_secs(15),
            head: Duration::from_secs(30),
        },
        stall: Duration::from_secs(30),
        window: Duration::from_secs(30),
        window_bytes_min: 120 << 10,
        total: Duration::from_secs(2 * 60 * 60),
    };
}

/// The bytes come too slowly.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Slow {
    /// Not one byte.
    #[error("expected bytes, found none for {} ms", .0.as_millis())]
    Stalled(Duration),
    /// Too few.
    #[error("expected {least} bytes within {} ms, found {found}", within.as_millis())]
    Dripping {
        /// Bytes that should have come.
        least: u64,
        /// Bytes that came.
        found: u64,
        /// In this time.
        within: Duration,
    },
}

/// Watches over one body.
#[derive(Debug)]
pub(super) struct Gate {
    pace: Pace,
    last_at: Instant,
    window_ends: Instant,
    window_bytes: u64,
}

impl Gate {
    /// Begins when the head of the answer is here.
    pub(super) fn new(pace: Pace, now: Instant) -> Self {
        Self {
            pace,
            last_at: now,
            window_ends: now + pace.window,
            window_bytes: 0,
        }
    }

    /// When to call [`Gate::check`], if nothing comes before.
    pub(super) fn next_check(&self) -> Instant {
        self.window_ends.min(self.last_at + self.pace.stall)
    }

    /// Bytes came.
    pub(super) fn received(&mut self, bytes: usize, now: Instant) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        if bytes > 0 {
            self.last_at = now;
        }
        self.window_bytes = self.window_bytes.saturating_add(bytes);
    }

    /// Whether it is fast enough.
    pub(super) fn check(&mut self, now: Instant) -> Result<(), Slow> {
        let silence = now.saturating_duration_since(self.last_at);
        if silence >= self.pace.stall {
            return Err(Slow::Stalled(silence));
        }
        if now < self.window_ends {
            return Ok(());
        }
        if self.window_bytes < self.pace.window_bytes_min {
            return Err(Slow::Dripping {
                least: self.pace.window_bytes_min,
                found: self.window_bytes,
                within: self.pace.window,
            });
        }
        self.window_ends = now + self.pace.window;
        self.window_bytes = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn gate(now: Instant) -> Gate {
        let pace = Pace {
            stall: 3 * SECOND,
            window: 10 * SECOND,
            window_bytes_min: 100,
            ..Pace::USUAL
        };
        Gate::new(pace, now)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a jumping clock starts somewhere"
    )]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn silence_ends_it() {
        let now = start();
        let mut gate = gate(now);
        assert_eq!(gate.next_check(), now + 3 * SECOND);
        assert_eq!(gate.check(now + 2 * SECOND), Ok(()));
        gate.received(1, now + 2 * SECOND);
        assert_eq!(gate.check(now + 4 * SECOND), Ok(()));
        assert_eq!(gate.check(now + 5 * SECOND), Err(Slow::Stalled(3 * SECOND)));
    }

    #[test]
    fn nothing_received_is_still_silence() {
        let now = start();
        let mut gate = gate(now);
        gate.received(0, now + 2 * SECOND);
        assert!(gate.check(now + 3 * SECOND).is_err());
    }

    #[test]
    fn one_byte_a_second_ends_it() {
        let now = start();
        let mut gate = gate(now);
        for second in 1..10 {
            gate.received(1, now + second * SECOND);
            assert_eq!(gate.check(now + second * SECOND), Ok(()));
        }
        let verdict = gate.check(now + 10 * SECOND);
        assert!(matches!(verdict, Err(Slow::Dripping { found: 9, .. })));
    }

    #[test]
    fn every_window_counts_for_itself() {
        let now = start();
        let mut gate = gate(now);
        gate.received(1_000_000, now + SECOND);
        gate.received(1, now + 9 * SECOND);
        assert_eq!(gate.check(now + 10 * SECOND), Ok(()));
        for second in 11..20 {
            gate.received(1, now + second * SECOND);
        }
        assert!(gate.check(now + 20 * SECOND).is_err());
    }
}

//! How long to wait before the next try.
//!
//! Full jitter: anything from nothing to a ceiling that doubles, so that many who lost the same peer do not return at
//! the same instant. Pure: randomness comes in.

use std::time::Duration;

use crate::limits::{RETRY_FIRST, RETRY_LAST};

/// The tries that failed in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Counts a failure and gives the wait after it; `random` spreads it evenly under its ceiling.
    pub(crate) fn after_failure(&mut self, random: u32) -> Duration {
        let doubled = RETRY_FIRST.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        let ceiling_us = doubled.min(RETRY_LAST).as_micros();
        let share = ceiling_us * u128::from(random) / u128::from(u32::MAX);
        Duration::from_micros(u64::try_from(share).unwrap_or(u64::MAX))
    }

    /// Forgets the failures.
    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceiling_doubles_to_its_bound_and_starts_over() {
        let mut backoff = Backoff::default();
        let ceilings: Vec<_> = (0..8)
            .map(|_| backoff.after_failure(u32::MAX).as_millis())
            .collect();
        assert_eq!(ceilings, [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        backoff.succeeded();
        assert_eq!(backoff.after_failure(u32::MAX).as_millis(), 200);
        assert_eq!(backoff.after_failure(0).as_millis(), 0);
        assert_eq!(backoff.after_failure(u32::MAX / 2).as_millis(), 399);
    }
}

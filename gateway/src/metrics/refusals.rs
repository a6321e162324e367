//! Says why somebody was turned away, at most once a second for each limit: who comes ten thousand times must not fill
//! the journal too. How many were passed over is said with the next.

use std::{
    collections::BTreeMap,
    fmt::Display,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::Limit;
use crate::clock;

/// From one line about a limit to the next.
const EVERY: Duration = Duration::from_secs(1);

/// What was said lately.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<BTreeMap<Limit, Said>>);

#[derive(Clone, Copy, Debug)]
struct Said {
    at: Instant,
    unsaid: u64,
}

impl Refusals {
    /// Says it, or counts it.
    pub(super) fn say(&self, limit: Limit, found: &dyn Display) {
        if let Some(unsaid) = self.due(limit, clock::now()) {
            tracing::warn!(limit = limit.word(), reason = %found, unsaid, "turned away");
        }
    }

    /// How many were passed over, if it is time to say one.
    fn due(&self, limit: Limit, now: Instant) -> Option<u64> {
        // No code panics in between.
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match said.get_mut(&limit) {
            Some(last) if now.saturating_duration_since(last.at) < EVERY => {
                last.unsaid += 1;
                None
            }
            Some(last) => {
                let unsaid = last.unsaid;
                *last = Said { at: now, unsaid: 0 };
                Some(unsaid)
            }
            None => {
                said.insert(limit, Said { at: now, unsaid: 0 });
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_line_a_second_and_its_number() {
        let (refusals, start) = (Refusals::default(), clock::now());
        assert_eq!(refusals.due(Limit::Bytes, start), Some(0));
        for _ in 0..1000 {
            assert_eq!(refusals.due(Limit::Bytes, start), None);
        }
        // Another limit has a line of its own.
        assert_eq!(refusals.due(Limit::Frames, start), Some(0));
        assert_eq!(refusals.due(Limit::Bytes, start + EVERY), Some(1000));
        assert_eq!(refusals.due(Limit::Bytes, start + 2 * EVERY), Some(0));
    }
}

//! How long a node stays away from its gateways.
//!
//! Takes how a connection ended, gives a wait: drawn anew each time from a range whose upper end doubles, so that a
//! fleet that lost its gateways together does not come back together. Randomness comes in, as numbers that spread evenly
//! over their whole range. Agents keep this pace, gateways are built for it, and who simulates nodes has to keep it too.

use std::time::Duration;

use super::{Goodbye, GoodbyeReason};
use crate::limits::{BACKOFF_MAX, BACKOFF_MIN, RECONNECT_AFTER_MAX};

/// The range that the next wait is drawn from: [`BACKOFF_MIN`] to a ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    ceiling: Duration,
}

impl Default for Pace {
    /// Twice the least wait, so that even the first one is spread.
    fn default() -> Self {
        Self {
            ceiling: BACKOFF_MIN * 2,
        }
    }
}

impl Pace {
    /// Widens the range by a quarter, up to [`BACKOFF_MAX`]. Were it doubled, a fleet that was cut off for some seconds
    /// would come back in a heap, with stragglers a minute later.
    pub fn grow(&mut self) {
        self.ceiling = (self.ceiling * 5 / 4).min(BACKOFF_MAX);
    }

    /// A wait from the range.
    #[must_use]
    pub fn draw(self, random: u32) -> Duration {
        between(BACKOFF_MIN, self.ceiling, random)
    }

    /// The wait that somebody asked for, and up to half as long again, never less than a failure would cost.
    #[must_use]
    pub fn asked(self, asked: Duration, random: [u32; 2]) -> Duration {
        let [first, second] = random;
        // A gateway that somebody has taken over could otherwise send a fleet away for weeks.
        let asked = asked.min(RECONNECT_AFTER_MAX);
        between(asked, asked + asked / 2, second).max(self.draw(first))
    }

    /// The wait after a connection, as its Goodbye asked for it. A node that is not wanted as it is asks at the slowest
    /// pace.
    #[must_use]
    pub fn after(self, goodbye: Option<&Goodbye>, random: [u32; 2]) -> Duration {
        let [first, _] = random;
        let drawn = self.draw(first);
        let Some(goodbye) = goodbye else {
            return drawn;
        };
        let asked = Duration::from_millis(goodbye.reconnect_after_ms.into());
        let wanted = self.asked(asked, random);
        let least = match goodbye.reason {
            GoodbyeReason::Removed | GoodbyeReason::ProtocolTooNew => {
                between(BACKOFF_MAX / 2, BACKOFF_MAX, first)
            }
            GoodbyeReason::Stopping
            | GoodbyeReason::Superseded { .. }
            | GoodbyeReason::Overloaded
            | GoodbyeReason::ProtocolError
            | GoodbyeReason::Updating => drawn,
        };
        wanted.max(least)
    }
}

fn between(least: Duration, most: Duration, random: u32) -> Duration {
    let span = most.saturating_sub(least).as_nanos();
    let share = span * u128::from(random) / u128::from(u32::MAX);
    least + Duration::from_nanos(u64::try_from(share).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goodbye(reason: GoodbyeReason, reconnect_after_ms: u32) -> Goodbye {
        Goodbye {
            reason,
            reconnect_after_ms,
            message: String::new(),
        }
    }

    #[test]
    fn the_range_grows_to_its_bound() {
        let mut pace = Pace::default();
        let mut ceilings = Vec::new();
        for _ in 0..21 {
            assert_eq!(pace.draw(0), BACKOFF_MIN);
            ceilings.push(pace.draw(u32::MAX).as_secs());
            pace.grow();
        }
        assert_eq!(ceilings[..8], [1, 1, 1, 1, 2, 3, 3, 4]);
        assert_eq!(ceilings[17..], [44, 55, 60, 60]);
    }

    /// A small generator, so that a fleet is the same each time.
    fn random(state: &mut u64) -> u32 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        u32::try_from(*state >> 32).unwrap()
    }

    /// The returns in the fullest second over those in the mean one, of a fleet that was cut off for that long.
    fn peak_over_mean(outage: Duration) -> f64 {
        let mut state = 7;
        let mut by_second = std::collections::BTreeMap::<u64, u32>::new();
        let mut last = Duration::ZERO;
        for _ in 0..10_000 {
            let (mut pace, mut at) = (Pace::default(), Duration::ZERO);
            while at < outage {
                at += pace.draw(random(&mut state));
                pace.grow();
            }
            let back = at - outage;
            *by_second.entry(back.as_secs()).or_default() += 1;
            last = last.max(back);
        }
        let peak = by_second.values().copied().max().unwrap();
        f64::from(peak) * last.as_secs_f64() / 10_000.0
    }

    #[test]
    fn a_fleet_does_not_come_back_in_a_heap() {
        for seconds in 1..=10 {
            let found = peak_over_mean(Duration::from_secs(seconds));
            assert!(found < 3.0, "{found:.2} after {seconds} s");
        }
    }

    #[test]
    fn a_goodbye_is_honoured_within_bounds() {
        let pace = Pace::default();
        let after = |goodbye: &Goodbye, random| pace.after(Some(goodbye), [random; 2]).as_millis();
        let stopping = goodbye(GoodbyeReason::Stopping, 10_000);
        assert_eq!(after(&stopping, 0), 10_000);
        assert_eq!(after(&stopping, u32::MAX), 15_000);
        let at_once = goodbye(GoodbyeReason::Overloaded, 0);
        assert_eq!(after(&at_once, 0), 500);
        let for_ever = goodbye(GoodbyeReason::Stopping, u32::MAX);
        assert_eq!(after(&for_ever, u32::MAX), 900_000);
        let removed = goodbye(GoodbyeReason::Removed, 0);
        assert_eq!(after(&removed, 0), 30_000);
        assert_eq!(after(&removed, u32::MAX), 60_000);
    }
}

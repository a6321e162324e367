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
    /// Doubles the range, up to [`BACKOFF_MAX`].
    pub fn grow(&mut self) {
        self.ceiling = (self.ceiling * 2).min(BACKOFF_MAX);
    }

    /// A wait from the range.
    #[must_use]
    pub fn draw(self, random: u32) -> Duration {
        between(BACKOFF_MIN, self.ceiling, random)
    }

    /// The wait after a connection: as long as a Goodbye asked for and up to half as long again, never less than a
    /// failure would cost. A node that is not wanted as it is asks at the slowest pace.
    #[must_use]
    pub fn after(self, goodbye: Option<&Goodbye>, random: [u32; 2]) -> Duration {
        let [first, second] = random;
        let drawn = self.draw(first);
        let Some(goodbye) = goodbye else {
            return drawn;
        };
        let asked = Duration::from_millis(goodbye.reconnect_after_ms.into());
        // A gateway that somebody has taken over could otherwise send a fleet away for weeks.
        let asked = asked.min(RECONNECT_AFTER_MAX);
        let wanted = between(asked, asked + asked / 2, second);
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
    fn the_range_doubles_to_its_bound() {
        let mut pace = Pace::default();
        let mut ceilings = Vec::new();
        for _ in 0..8 {
            assert_eq!(pace.draw(0), BACKOFF_MIN);
            ceilings.push(pace.draw(u32::MAX).as_secs());
            pace.grow();
        }
        assert_eq!(ceilings, [1, 2, 4, 8, 16, 32, 60, 60]);
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

//! How long a node stays away from its gateways.
//!
//! Takes the way a connection ended, gives a wait: drawn anew each time from a range whose upper end doubles, so that
//! a fleet that lost its gateways together does not come back together.

use std::time::Duration;

use bc_protocol::session::GoodbyeReason;
use rand::{RngExt, rngs::StdRng};

use super::Ending;
use crate::node::limits::{BACKOFF_MAX, BACKOFF_MIN, RECONNECT_AFTER_MAX};

/// The range that the next wait is drawn from: [`BACKOFF_MIN`] to the ceiling.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    ceiling: Duration,
}

impl Default for Backoff {
    /// Twice the least wait, so that even the first one is spread.
    fn default() -> Self {
        Self {
            ceiling: BACKOFF_MIN * 2,
        }
    }
}

impl Backoff {
    /// Doubles the range, up to [`BACKOFF_MAX`].
    pub(super) fn grow(&mut self) {
        self.ceiling = (self.ceiling * 2).min(BACKOFF_MAX);
    }

    /// A wait from the range.
    pub(super) fn draw(self, random: &mut StdRng) -> Duration {
        between(BACKOFF_MIN, self.ceiling, random)
    }

    /// The wait after an ending: as long as a Goodbye asked for and up to half as long again, never less than a
    /// failure would cost. A node that is not wanted as it is asks at the slowest pace.
    pub(super) fn after(self, ending: &Ending, random: &mut StdRng) -> Duration {
        let drawn = self.draw(random);
        let Ending::Goodbye(goodbye) = ending else {
            return drawn;
        };
        let asked = Duration::from_millis(goodbye.reconnect_after_ms.into());
        // A gateway that somebody has taken over could otherwise send a fleet away for weeks.
        let asked = asked.min(RECONNECT_AFTER_MAX);
        let wanted = between(asked, asked + asked / 2, random);
        let least = match goodbye.reason {
            GoodbyeReason::Removed | GoodbyeReason::ProtocolTooNew => {
                between(BACKOFF_MAX / 2, BACKOFF_MAX, random)
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

fn between(least: Duration, most: Duration, random: &mut StdRng) -> Duration {
    random.random_range(least..=most.max(least))
}

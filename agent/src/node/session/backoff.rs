//! The waits between connections, at the pace that all nodes keep, drawn from this node's own seed.

use std::time::Duration;

use bc_protocol::session::Pace;
use rand::{RngExt, rngs::StdRng};

use super::Ending;

/// What the next wait is drawn from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff(Pace);

impl Backoff {
    /// Doubles the range.
    pub(super) fn grow(&mut self) {
        self.0.grow();
    }

    /// A wait from the range.
    pub(super) fn draw(self, random: &mut StdRng) -> Duration {
        self.0.draw(random.random())
    }

    /// The wait after an ending.
    pub(super) fn after(self, ending: &Ending, random: &mut StdRng) -> Duration {
        let goodbye = if let Ending::Goodbye(goodbye) = ending {
            Some(goodbye)
        } else {
            None
        };
        self.0.after(goodbye, random.random())
    }
}

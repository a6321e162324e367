//! The waits between connections, at the pace that all nodes keep, drawn from this node's own seed.

use std::time::Duration;

use bc_protocol::session::Pace;
use rand::{RngExt, rngs::StdRng};

use super::Ending;

/// What the next wait is drawn from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff(Pace);

/// Gateways that have not been tried in this round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// Some are left.
    Left,
    /// Every one has been.
    None,
}

impl Backoff {
    /// Widens the range.
    pub(super) fn grow(&mut self) {
        self.0.grow();
    }

    /// A wait from the range.
    pub(super) fn draw(self, random: &mut StdRng) -> Duration {
        self.0.draw(random.random())
    }

    /// The wait after an ending. A server that has no time now asks for itself alone: as long as others are left to try,
    /// nobody waits for it.
    pub(super) fn after(self, ending: &Ending, others: Others, random: &mut StdRng) -> Duration {
        let random = random.random();
        match (ending, others) {
            (
                Ending::Refused {
                    retry_after: Some(asked),
                    ..
                },
                Others::None,
            ) => self.0.asked(*asked, random),
            (Ending::Goodbye(goodbye), Others::None | Others::Left) => {
                self.0.after(Some(goodbye), random)
            }
            (
                Ending::Refused { .. }
                | Ending::Unreachable(_)
                | Ending::OpenOverdue
                | Ending::WelcomeOverdue
                | Ending::Silent(_)
                | Ending::Closed(_)
                | Ending::Broken(_),
                Others::None | Others::Left,
            ) => self.0.after(None, random),
        }
    }
}

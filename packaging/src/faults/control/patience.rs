//! How long somebody has been waited for.
//!
//! Takes a bound, says turn by turn whether it is reached. What counts is time in which this machine ran: where it stood
//! still, so did whoever is waited for.

use std::time::{Duration, Instant};

use crate::fleet::now;

/// A turn asks a control or the database, which answer within seconds or give up.
const TURN_MAX: Duration = Duration::from_secs(10);

/// What is left of it.
#[derive(Debug)]
pub(super) struct Patience {
    bound: Duration,
    spent: Duration,
    turned: Instant,
}

impl Patience {
    /// With this bound, from now on.
    pub(super) fn of(bound: Duration) -> Self {
        Self {
            bound,
            spent: Duration::ZERO,
            turned: now(),
        }
    }

    /// Another turn: whether there were too many.
    pub(super) fn is_over(&mut self) -> bool {
        let now = now();
        self.spent += (now - self.turned).min(TURN_MAX);
        self.turned = now;
        self.spent > self.bound
    }
}

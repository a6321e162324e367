//! How long to wait before the next start.
//!
//! Takes how a node ended and how long it lived. Pure. A planned end costs no wait; what ends again and again must not
//! eat the machine.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::updater::attempt::Exit;

const FIRST: Duration = Duration::from_millis(100);

/// Long enough to spare the machine, short enough that a mended one is back at once.
const LONGEST: Duration = Duration::from_secs(10);

/// An end within this time is no plan, whatever its status.
const SHORT_LIFE: Duration = Duration::from_secs(1);

/// A life of this length pays for all earlier failures.
const LONG_LIFE: Duration = Duration::from_secs(60);

/// See the module's card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pause {
    failures: u32,
}

impl Pause {
    /// The wait after a node that ended so.
    pub(crate) fn after(&mut self, exit: Exit, lived: Duration) -> Duration {
        if lived >= LONG_LIFE {
            self.failures = 0;
        }
        if exit == Exit::Status(0) && lived >= SHORT_LIFE {
            return Duration::ZERO;
        }
        self.after_failure()
    }

    /// The wait after a start that did not come about.
    pub(crate) fn after_failure(&mut self) -> Duration {
        let wait = FIRST.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        wait.min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::{Exit, Pause};
    use std::time::Duration;

    #[test]
    fn a_planned_end_costs_no_wait() {
        let mut pause = Pause::default();
        for _ in 0..10 {
            let wait = pause.after(Exit::Status(0), Duration::from_secs(2));
            assert_eq!(wait, Duration::ZERO);
        }
    }

    #[test]
    fn waits_grow_to_their_bound_until_a_long_life() {
        let mut pause = Pause::default();
        let mut crash = |lived| {
            pause
                .after(Exit::Signal(11), Duration::from_secs(lived))
                .as_millis()
        };
        let waits: Vec<_> = (0..9).map(|_| crash(1)).collect();
        assert_eq!(
            waits,
            [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]
        );
        assert_eq!(crash(60), 100);
    }

    #[test]
    fn a_clean_end_right_after_the_start_is_no_plan() {
        let mut pause = Pause::default();
        for wait in [100, 200, 400] {
            assert_eq!(
                pause.after(Exit::Status(0), Duration::from_millis(5)),
                Duration::from_millis(wait)
            );
        }
    }
}

//! When each session is sent away by a gateway that stops.
//!
//! Takes how many there are and for how long, gives a moment for each: evenly spread, and within its own part of the time
//! anywhere, so that neither the next gateway nor control gets them in bursts. Pure: randomness comes in.

use std::time::Duration;

use crate::limits::{CLOSE_TIMEOUT, DRAIN_STEP_MAX, FLUSH_TIMEOUT};

/// How the time from the order to stop to the end is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    step: Duration,
}

impl Schedule {
    /// For so many sessions in so much time. What the last ones need to close and control to hear of it is kept back, but
    /// never more than a quarter.
    pub(crate) fn new(sessions: u32, drain: Duration) -> Self {
        let kept = (CLOSE_TIMEOUT + FLUSH_TIMEOUT).min(drain / 4);
        let step = (drain - kept).checked_div(sessions).unwrap_or_default();
        Self {
            step: step.min(DRAIN_STEP_MAX),
        }
    }

    /// From the order to stop to the goodbye of the session with this number; `random` says where in its part.
    pub(crate) fn goodbye(self, number: u32, random: u32) -> Duration {
        let step_ns = self.step.as_nanos();
        let within = step_ns * u128::from(random) / (u128::from(u32::MAX) + 1);
        let all = step_ns * u128::from(number) + within;
        Duration::from_nanos(u64::try_from(all).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn few_sessions_need_little_of_the_time() {
        let schedule = Schedule::new(3, Duration::from_secs(10));
        assert_eq!(schedule.goodbye(0, 0), Duration::ZERO);
        assert_eq!(schedule.goodbye(2, 0), 2 * DRAIN_STEP_MAX);
        assert_eq!(schedule.goodbye(2, 1 << 31), DRAIN_STEP_MAX * 5 / 2);
        assert_eq!(
            Schedule::new(0, Duration::ZERO).goodbye(0, 9),
            Duration::ZERO
        );
    }

    #[test]
    fn many_sessions_use_all_but_the_end() {
        let schedule = Schedule::new(10_000, Duration::from_secs(20));
        assert_eq!(schedule.goodbye(10_000, 0), Duration::from_secs(15));
        let schedule = Schedule::new(10_000, Duration::from_secs(1));
        assert_eq!(schedule.goodbye(10_000, 0), Duration::from_millis(750));
    }

    proptest! {
        /// In order, none after the time, and no second of it has more than its share.
        #[test]
        fn evenly_spread(sessions in 1_u32..5000, drain_ms in 0_u64..60_000, random: Vec<u32>) {
            let drain = Duration::from_millis(drain_ms);
            let schedule = Schedule::new(sessions, drain);
            let random = |number: u32| {
                let at = usize::try_from(number).unwrap();
                random.get(at).copied().unwrap_or(u32::MAX)
            };
            let mut last = Duration::ZERO;
            for number in 0..sessions {
                let at = schedule.goodbye(number, random(number));
                prop_assert!(at >= last && at <= drain);
                prop_assert!(at >= schedule.goodbye(number, 0) && at <= schedule.goodbye(number + 1, 0));
                last = at;
            }
        }
    }
}

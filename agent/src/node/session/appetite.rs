//! How much a gateway may say before the node takes its time.
//!
//! Takes each thing that a gateway says and the time, gives the moment until which nothing more is read. Every frame can
//! cost a line in the log, a write to the disk or a look at a release, and every ping an answer; a gateway that never
//! stops, by a fault or by malice, must not cost the machine more than a quiet one. What it says waits in its own line and
//! is lost to nobody.

use std::time::{Duration, Instant};

use crate::node::limits::FRAMES_AT_ONCE_MAX;

/// What was taken in already: the moment at which all of it would have come, had it come evenly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Appetite {
    interval: Duration,
    even_at: Instant,
}

impl Appetite {
    /// Of a node that has heard nothing yet, and takes one in each interval in the long run.
    pub(super) fn new(interval: Duration, now: Instant) -> Self {
        Self {
            interval,
            even_at: now,
        }
    }

    /// Takes one; until when nothing more is read, if that is not now.
    pub(super) fn take(&mut self, now: Instant) -> Option<Instant> {
        self.even_at = self.even_at.max(now) + self.interval;
        let ahead = self.even_at.saturating_duration_since(now);
        let wait = ahead.saturating_sub(self.interval * FRAMES_AT_ONCE_MAX);
        (wait > Duration::ZERO).then(|| now + wait)
    }
}

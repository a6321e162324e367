//! How much a gateway may say before the node takes its time.
//!
//! Takes each frame of a session and the time, gives the moment until which nothing more is read. Every frame can cost
//! a line in the log, a write to the disk or a look at a release; a gateway that never stops, by a fault or by malice,
//! must not cost the machine more than a quiet one. What it says waits in its own line and is lost to nobody.

use std::time::{Duration, Instant};

use crate::node::limits::{FRAME_INTERVAL, FRAMES_AT_ONCE_MAX};

/// What was taken in already: the moment at which all of it would have come, had it come evenly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Appetite {
    even_at: Instant,
}

impl Appetite {
    /// Of a node that has heard nothing yet.
    pub(super) fn new(now: Instant) -> Self {
        Self { even_at: now }
    }

    /// Takes one frame; until when nothing more is read, if that is not now.
    pub(super) fn take(&mut self, now: Instant) -> Option<Instant> {
        self.even_at = self.even_at.max(now) + FRAME_INTERVAL;
        let ahead = self.even_at.saturating_duration_since(now);
        let wait = ahead.saturating_sub(FRAME_INTERVAL * FRAMES_AT_ONCE_MAX);
        (wait > Duration::ZERO).then(|| now + wait)
    }
}

//! What the service manager hears from a node: that it is ready, that it ends, and that its loop still turns.
//!
//! Takes the manager's wish from the environment, gives a moment to speak at. Where there is no manager it is silent.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{Interval, interval};

/// Tells systemd, in time, that the loop still turns.
pub(super) struct Feed(Option<Interval>);

impl Feed {
    pub(super) fn new() -> Self {
        // A watchdog of nothing asks for nothing, and an interval of nothing does not exist.
        let half = sd_notify::watchdog_enabled().map(|period| period / 2);
        Self(half.filter(|half| *half > Duration::ZERO).map(interval))
    }

    pub(super) async fn due(&mut self) {
        match &mut self.0 {
            Some(interval) => {
                interval.tick().await;
            }
            None => std::future::pending().await,
        }
    }
}

/// Says something to the manager, if there is one.
pub(super) fn tell_manager(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}

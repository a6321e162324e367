//! What the service manager is told: that it serves, stops, reads its configuration anew, and that it lives.
//!
//! Without one every word is a word to nobody.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tracing::warn;

/// The service manager's ear.
#[derive(Debug)]
pub(crate) struct Manager {
    /// Twice as often as it wants to hear.
    beat: Option<Interval>,
}

impl Manager {
    /// For a process that has just begun.
    pub(crate) fn new() -> Self {
        // A watchdog of nothing asks for nothing, and an interval of nothing does not exist.
        let half = sd_notify::watchdog_enabled().map(|period| period / 2);
        let beat = half.filter(|half| *half > Duration::ZERO).map(|half| {
            let mut beat = interval(half);
            beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
            beat
        });
        Self { beat }
    }

    /// Tells again and again that whoever awaits this is not stuck.
    pub(crate) async fn lives(&mut self) {
        match &mut self.beat {
            Some(beat) => loop {
                beat.tick().await;
                say(&[NotifyState::Watchdog]);
            },
            None => std::future::pending().await,
        }
    }

    /// What it does now, for people.
    pub(crate) fn does(&self, what: &str) {
        say(&[NotifyState::Status(what)]);
    }

    /// It serves, from the start or again.
    pub(crate) fn serves(&self) {
        say(&[NotifyState::Ready, NotifyState::Status("serving")]);
    }

    /// It reads its configuration anew, until [`Self::serves`].
    pub(crate) fn reloads(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => say(&[NotifyState::Reloading, now]),
            Err(error) => warn!(%error, "the service manager is not told of the reload"),
        }
    }

    /// It stops.
    pub(crate) fn stops(&self) {
        say(&[
            NotifyState::Stopping,
            NotifyState::Status("sending sessions away"),
        ]);
    }
}

fn say(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        warn!(%error, "the service manager cannot be told");
    }
}

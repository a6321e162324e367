//! Word that events were committed.
//!
//! Takes a hint from every commit that wrote some, wakes whoever reads them. A hint may be lost, or come from nowhere:
//! readers look again after a while anyway, and positions are the truth.

use std::time::Duration;

use tokio::sync::watch;

/// Between looks without a hint: another process may share the database.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Where hints come in.
#[derive(Clone, Debug)]
pub(crate) struct News(watch::Sender<()>);

/// Where hints come out.
#[derive(Clone, Debug)]
pub(crate) struct Reading(watch::Receiver<()>);

impl Default for News {
    fn default() -> Self {
        Self(watch::Sender::new(()))
    }
}

impl News {
    /// Events were committed.
    pub(crate) fn tell(&self) {
        self.0.send_replace(());
    }

    /// From now on.
    pub(crate) fn read(&self) -> Reading {
        Reading(self.0.subscribe())
    }
}

impl Reading {
    /// Waits for a hint that came since the last time, or for a while.
    pub(crate) async fn next(&mut self) {
        let hint = tokio::time::timeout(LOOK_EVERY, self.0.changed());
        if let Ok(Err(_)) = hint.await {
            // The database is being closed: there will be no more.
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

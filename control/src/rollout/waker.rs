//! How anything that happens reaches the controller.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::db::hint::Hints;

/// Wakes the controller. Wakes that come while it passes become one further pass.
#[derive(Clone, Debug)]
pub(crate) struct Waker {
    here: Arc<Notify>,
    elsewhere: Hints,
}

impl Waker {
    /// Of this process's controller, and through hints of the others'.
    pub(super) fn new(elsewhere: Hints) -> Self {
        Self {
            here: Arc::default(),
            elsewhere,
        }
    }

    /// Something happened that can change the outcome of a rollout: a report, a session, a call.
    pub(crate) fn wake(&self) {
        self.wake_here();
        self.elsewhere.tell(|hint| hint.wake = true);
    }

    /// Something happened of which every other process knows already.
    pub(crate) fn wake_here(&self) {
        self.here.notify_one();
    }

    /// Waits for a wake since the last time.
    pub(crate) async fn woken(&self) {
        self.here.notified().await;
    }
}

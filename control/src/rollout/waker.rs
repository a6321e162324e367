//! How anything that happens reaches the controller.

use std::sync::Arc;

use tokio::sync::Notify;

/// Wakes the controller. Wakes that come while it passes become one further pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waker(Arc<Notify>);

impl Waker {
    /// Something happened that can change the outcome of a rollout: a report, a session, a call.
    pub(crate) fn wake(&self) {
        self.0.notify_one();
    }

    /// Waits for a wake since the last time.
    pub(super) async fn woken(&self) {
        self.0.notified().await;
    }
}

//! What the service manager is told. Without one every word is a word to nobody.

use sd_notify::NotifyState;

/// Where a service manager waits for word, it gets it.
pub(super) fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}

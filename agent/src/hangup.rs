//! SIGHUP, which ends a process that has not heard of it.
//!
//! Takes it and says what would have to be done instead. Nothing is read anew: what was started with one configuration
//! ends with it.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Ignores it from now on, in a task beside everything else.
pub(crate) fn ignore() -> io::Result<()> {
    let mut hangups = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            tracing::warn!("SIGHUP changes nothing: a restart reads the configuration anew");
        }
    });
    Ok(())
}

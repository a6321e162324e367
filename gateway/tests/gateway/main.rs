//! The real program between a control and nodes that do what a test says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod admission;
mod authority;
mod commands;
mod control;
mod links;
mod node;
mod operations;
mod process;
mod reload;
mod sessions;
mod state;
mod status;
mod strangers;

use std::time::Duration;

/// Waits, but not for ever.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what)
        .await
        .expect("it should have happened by now")
}

//! `bcd helper`: the right to write slots and record, for a node that does not have it.
//!
//! Takes one request a connection from exactly one user, gives one reply. It believes nothing that it is given: the
//! binary comes as an open descriptor and is copied while it is hashed, the manifest is judged under root's own pins and
//! floor, and no path from a request is ever looked at. What it can be made to do is what [`crate::updater::host`] can:
//! install a signed release at or above the floor, and confirm the one on trial.

pub(crate) mod client;
pub(crate) mod frame;
mod limits;
mod server;
mod service;
mod socket;
#[cfg(any(test, feature = "faults"))]
pub(crate) mod strangers;
#[cfg(test)]
mod tests;
mod wire;

use std::path::PathBuf;

use thiserror::Error;

use crate::account::Account;
use crate::updater::host::Host;

pub(crate) use client::{Client, ClientError};
pub(crate) use socket::SocketError;

/// Where the helper listens, if nobody says otherwise.
pub(crate) const DEFAULT_SOCKET: &str = "/run/bcd/helper.sock";

/// What a helper works with.
#[derive(Clone, Debug)]
pub(crate) struct Helper {
    /// The record and the slots, and whom this machine's owner believes.
    pub(crate) host: Host,
    /// The one user that may ask; new binaries are tried out as this user too.
    pub(crate) account: Account,
    /// The configuration that a new binary has to read.
    pub(crate) config: PathBuf,
    /// Where to listen, unless a service manager hands over a socket.
    pub(crate) socket: PathBuf,
    /// This program's version.
    pub(crate) version: &'static str,
}

/// Why there is no helper.
#[derive(Debug, Error)]
pub(crate) enum HelperError {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error("expected to listen for signals, found that it cannot be done")]
    Signals(#[source] std::io::Error),
    #[error("expected to read the binary that runs, found that it cannot be read")]
    Image(#[source] std::io::Error),
}

/// Serves until SIGTERM or SIGINT. Where another binary than its own is confirmed, the next helper has to be that one: a
/// service manager that holds the socket starts it, or else `renew` becomes it, and comes back only where it cannot.
pub(crate) async fn run(
    helper: Helper,
    renew: impl Fn(&Host) -> String,
) -> Result<(), HelperError> {
    server::run(helper, renew).await
}

//! `bcd room`

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream as StdStream;

use clap::Args;
use tokio::net::UnixStream;

use super::{CommandError, runtime};
use crate::updater::preflight::room;

/// Try one new binary out, for whoever connected to standard input
///
/// Run by systemd, as a user without rights; of no use to people.
#[derive(Debug, Args)]
pub(super) struct Room {}

impl Room {
    pub(super) fn run(self) -> Result<(), CommandError> {
        let Self {} = self;
        let runtime = runtime()?;
        let served = runtime.block_on(async { room::serve(connection()?).await });
        served.map_err(CommandError::Room)
    }
}

fn connection() -> io::Result<UnixStream> {
    let stream = StdStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

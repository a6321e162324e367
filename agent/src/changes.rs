//! Changes of a folder, as the kernel tells of them: nothing polls.
//!
//! Takes a folder, gives word whenever a file in it was replaced or removed. What has changed the file itself says.

use std::io;
use std::path::Path;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

/// Bytes for events: more than the longest one has.
const EVENTS_BYTES: usize = 1 << 10;

/// See the module's card.
#[derive(Debug)]
pub(crate) struct Changes(Receiver);

impl Changes {
    /// Of files in that folder. What happens from now on is told.
    pub(crate) fn of(folder: &Path) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        inotify.add_watch(
            folder,
            AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_DELETE,
        )?;
        // It is read like a pipe that somebody else writes events to.
        Receiver::from_owned_fd_unchecked(inotify.into()).map(Self)
    }

    /// Waits for the next ones.
    pub(crate) async fn next(&mut self) -> io::Result<()> {
        let mut events = [0; EVENTS_BYTES];
        self.0.read(&mut events).await.map(|_bytes| ())
    }
}

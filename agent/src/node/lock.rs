//! One node a folder.
//!
//! Takes the node's folder, gives a lock that lasts as long as the process: two nodes would fight over one session.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    thread,
};

use nix::fcntl::OFlag;
use thiserror::Error;

use super::limits::{LOCK_PATIENCE, LOCK_RETRY_AFTER};
use crate::{clock, durable, paths::Paths};

/// Why there is no lock.
#[derive(Debug, Error)]
pub(crate) enum LockError {
    /// Another node has it.
    #[error("expected {} to be free, found that another process holds it", path.display())]
    Held {
        /// The lock's file.
        path: PathBuf,
    },
    /// The folder does not take it.
    #[error("expected to lock {}, found that it cannot be", path.display())]
    Unusable {
        /// The lock's file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Takes the folder. A predecessor that was killed may need a moment to let go of it.
pub(super) fn take(paths: &Paths) -> Result<File, LockError> {
    let path = paths.node_lock();
    let unusable = |source| LockError::Unusable {
        path: path.clone(),
        source,
    };
    durable::create_folder(&paths.state(), 0o700).map_err(unusable)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(&path)
        .map_err(unusable)?;
    let until = clock::instant() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if clock::instant() < until => {
                thread::sleep(LOCK_RETRY_AFTER);
            }
            Err(TryLockError::WouldBlock) => return Err(LockError::Held { path }),
            Err(TryLockError::Error(source)) => return Err(unusable(source)),
        }
    }
}

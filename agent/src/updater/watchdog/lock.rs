//! Who watches over a node's trials.
//!
//! Takes the node's folder, gives a lock that the watchdog holds for as long as it lives: the kernel lets go of it
//! whatever ends it. Where nobody holds it and a service manager is there, a watchdog is started.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::thread;

use nix::fcntl::OFlag;
use thiserror::Error;

use super::super::limits::{ARM_PATIENCE, ARM_STEP};
use crate::clock;
use crate::durable;
use crate::manager::{self, ManagerError};
use crate::paths::Paths;

/// Why this process is not the node's watchdog.
#[derive(Debug, Error)]
pub(crate) enum WatchError {
    #[error("expected {path} to be free, found that another process holds it", path = path.display())]
    Held { path: PathBuf },
    #[error("expected to lock {path}, found that it cannot be", path = path.display())]
    Lock {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Why nobody would go back.
#[derive(Debug, Error)]
pub(crate) enum NotArmed {
    #[error("expected a watchdog or a service manager to start one, found neither")]
    Nobody,
    #[error("expected {unit} to start, found that it does not")]
    Start {
        unit: String,
        #[source]
        source: ManagerError,
    },
    #[error("expected {unit} to watch within {} s, found that it does not", ARM_PATIENCE.as_secs())]
    Late { unit: String },
}

/// Makes this process the watchdog.
pub(crate) fn watch(paths: &Paths) -> Result<File, WatchError> {
    let path = paths.supervise_lock();
    let failed = |source| WatchError::Lock {
        path: path.clone(),
        source,
    };
    durable::create_folder(paths.root(), 0o755).map_err(failed)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        // Whoever may open it may hold it, and would keep the watchdog from its work.
        .mode(0o600)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(&path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(WatchError::Held { path }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Whether somebody watches over this node, and would go back if need be.
fn is_active(paths: &Paths) -> bool {
    OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(paths.supervise_lock())
        .is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Sees to it that somebody watches: who does already, or else the service manager's `unit`.
pub(crate) fn arm(paths: &Paths, unit: &str) -> Result<(), NotArmed> {
    if is_active(paths) {
        return Ok(());
    }
    if !manager::is_there() {
        return Err(NotArmed::Nobody);
    }
    manager::start(unit).map_err(|source| NotArmed::Start {
        unit: unit.to_owned(),
        source,
    })?;
    let until = clock::instant() + ARM_PATIENCE;
    while !is_active(paths) {
        if clock::instant() >= until {
            let unit = unit.to_owned();
            return Err(NotArmed::Late { unit });
        }
        thread::sleep(ARM_STEP);
    }
    Ok(())
}

//! One service to a data folder.
//!
//! Takes the folder, gives a lock that lasts as long as the process; a second service is refused. Commands that only
//! read beside a running service do not take it.

use std::{
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// Held while the service runs. The kernel lets go of it with the process, however that ends.
#[derive(Debug)]
pub(crate) struct ServeLock {
    _file: File,
}

impl ServeLock {
    /// Takes the lock of a data folder.
    pub(crate) fn take(data_dir: &Path) -> Result<Self, LockError> {
        let path = data_dir.join("serve.lock");
        let io = |source| LockError::Io {
            path: path.clone(),
            source,
        };
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(io)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(LockError::Taken { path }),
            Err(TryLockError::Error(source)) => Err(io(source)),
        }
    }
}

/// Why the lock was not taken.
#[derive(Debug, Error)]
pub(crate) enum LockError {
    /// Another service runs on this folder.
    #[error(
        "expected to be the only service on this data folder, found {} locked by another one",
        path.display()
    )]
    Taken {
        /// The lock's file.
        path: PathBuf,
    },
    /// The file cannot be opened or locked.
    #[error("cannot lock {}", path.display())]
    Io {
        /// The lock's file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::{LockError, ServeLock};

    #[test]
    fn a_second_service_is_refused_until_the_first_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let first = ServeLock::take(dir.path()).unwrap();
        assert!(matches!(
            ServeLock::take(dir.path()),
            Err(LockError::Taken { .. })
        ));
        drop(first);
        ServeLock::take(dir.path()).unwrap();
    }
}

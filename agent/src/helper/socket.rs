//! The helper's socket.
//!
//! Takes one from the service manager, or makes one. What lies at its path is removed only if it is a socket of this
//! user's that nobody listens on.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::{UnixListener as StdListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, geteuid};
use rustix::net::sockopt::socket_acceptconn;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use thiserror::Error;
use tokio::net::UnixListener;

use crate::account::Account;

/// Where requests come from.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) listener: UnixListener,
    pub(super) holder: Holder,
}

/// Who keeps the socket when this process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// The service manager: whoever asks next starts the helper anew.
    Manager,
    /// Nobody.
    Nobody,
}

/// Why there is no socket.
#[derive(Debug, Error)]
pub(crate) enum SocketError {
    #[error("expected one listening Unix socket from the service manager, found {found}")]
    Handed { found: String },
    #[error("expected {path} to be free, found that another helper listens there", path = path.display())]
    Taken { path: PathBuf },
    #[error("expected {path} to be free, found something that is no socket of this user's", path = path.display())]
    Foreign { path: PathBuf },
    #[error("expected to listen at {path}, found that it cannot be done", path = path.display())]
    Bind {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// The service manager's socket, or one at `path` that `account`'s group may connect to.
pub(super) fn listen(path: &Path, account: &Account) -> Result<Socket, SocketError> {
    let handed = handed().map_err(|error| SocketError::Handed {
        found: error.to_string(),
    })?;
    let failed = |source| SocketError::Bind {
        path: path.to_owned(),
        source,
    };
    let (listener, holder) = match handed {
        Some(listener) => (listener, Holder::Manager),
        None => (bind(path, account)?, Holder::Nobody),
    };
    listener.set_nonblocking(true).map_err(failed)?;
    let listener = UnixListener::from_std(listener).map_err(failed)?;
    Ok(Socket { listener, holder })
}

fn handed() -> io::Result<Option<StdListener>> {
    let mut numbers = sd_notify::listen_fds()?;
    let (Some(number), None) = (numbers.next(), numbers.next()) else {
        return match numbers.len() {
            0 => Ok(None),
            _ => Err(io::Error::other("several")),
        };
    };
    let descriptor = match on_standard_input() {
        Some(descriptor) => descriptor,
        None => by_number(number)?,
    };
    let listener = StdListener::from(descriptor);
    // A socket of another kind has no such address.
    listener.local_addr()?;
    Ok(Some(listener))
}

/// Where the unit puts it there too (`StandardInput=fd:`), it takes no call that a hardened unit forbids.
fn on_standard_input() -> Option<OwnedFd> {
    let input = io::stdin();
    match socket_acceptconn(&input) {
        Ok(true) => input.as_fd().try_clone_to_owned().ok(),
        Ok(false) | Err(_) => None,
    }
}

/// The number says nothing about who else closes it: a descriptor of our own does.
fn by_number(number: i32) -> io::Result<OwnedFd> {
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    Ok(pidfd_getfd(own, number, PidfdGetfdFlags::empty())?)
}

fn bind(path: &Path, account: &Account) -> Result<StdListener, SocketError> {
    let failed = |source| SocketError::Bind {
        path: path.to_owned(),
        source,
    };
    make_room(path)?;
    // Nobody may connect before owner and mode are what they should be: the peer's user is checked in any case.
    let listener = StdListener::bind(path).map_err(failed)?;
    let gid = account.gid.as_raw();
    chown(path, Some(geteuid().as_raw()), Some(gid)).map_err(failed)?;
    fs::set_permissions(path, Permissions::from_mode(0o660)).map_err(failed)?;
    Ok(listener)
}

fn make_room(path: &Path) -> Result<(), SocketError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => {
            let path = path.to_owned();
            return Err(SocketError::Bind { path, source });
        }
    };
    let path = path.to_owned();
    if !found.file_type().is_socket() || Uid::from_raw(found.uid()) != geteuid() {
        return Err(SocketError::Foreign { path });
    }
    if UnixStream::connect(&path).is_ok() {
        return Err(SocketError::Taken { path });
    }
    fs::remove_file(&path).map_err(|source| SocketError::Bind { path, source })
}

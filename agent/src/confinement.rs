//! A process without rights, for a binary that has not proven itself.
//!
//! Takes what to run and as whom; gives up everything that this process may do and becomes it. Nothing is inherited but
//! standard input and output: no descriptor, no group, no capability, and no way to gain any by executing something. What
//! it may use of the machine is bounded, and it dies with its parent.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{chdir, close, setgroups, setresgid, setresuid};
use thiserror::Error;

use crate::account::Account;
use crate::durable;

/// Seconds of processor time: as many as the one who waits for it has patience for.
const CPU_SECONDS_MAX: u64 = 10;

/// Bytes of address space: several times what an agent takes, and less than what would hurt a small machine's others.
const MEMORY_BYTES_MAX: u64 = 2 << 30;

/// Open files.
const FILES_MAX: u64 = 64;

/// Tries to execute a binary that is still open for writing somewhere, as between another thread's fork and exec.
const BUSY_TRIES_MAX: u32 = 20;

/// The wait between these tries.
const BUSY_RETRY_AFTER: Duration = Duration::from_millis(50);

/// What to become.
#[derive(Clone, Debug)]
pub(crate) struct Confinement {
    pub(crate) binary: PathBuf,
    /// Where it starts; it need not be able to get there by itself.
    pub(crate) folder: PathBuf,
    /// As whom, where that is another user than this process's.
    pub(crate) account: Option<Account>,
    pub(crate) words: Vec<String>,
}

/// Why this process did not become another.
#[derive(Debug, Error)]
pub(crate) enum ConfinementError {
    #[error("expected to {doing}, found that it cannot be done")]
    Right {
        doing: &'static str,
        #[source]
        source: nix::Error,
    },
    #[error("expected to close what was inherited, found that it cannot be seen")]
    Descriptors(#[source] io::Error),
    #[error("expected to execute {binary}, found that it cannot be", binary = binary.display())]
    NotExecutable {
        binary: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Confinement {
    /// Comes back only where something is in the way.
    pub(crate) fn enter(self) -> Result<Infallible, ConfinementError> {
        close_inherited()?;
        let failed = |source| ConfinementError::NotExecutable {
            binary: self.binary.clone(),
            source,
        };
        // Opened with the rights that this process still has: the way to it may be closed to everybody else.
        let binary = durable::open_unlinked(&self.binary).map_err(failed)?;
        // A script's interpreter reads it from here.
        fcntl(&binary, FcntlArg::F_SETFD(FdFlag::empty()))
            .map_err(right("hand the binary on to itself"))?;
        chdir(&self.folder).map_err(right("enter the binary's folder"))?;
        bound_resources()?;
        if let Some(account) = self.account {
            become_account(account)?;
        }
        prctl::set_no_new_privs().map_err(right("give up all rights for good"))?;
        // Another user's process forgets an earlier promise.
        prctl::set_pdeathsig(Signal::SIGKILL).map_err(right("die with the parent"))?;
        Err(failed(self.execute(&binary)))
    }

    /// By the open file, not by its name: what was opened is what runs.
    fn execute(&self, binary: &File) -> io::Error {
        let image = format!("/proc/self/fd/{}", binary.as_raw_fd());
        let mut tries = 0;
        loop {
            let error = Command::new(&image).args(&self.words).exec();
            if error.kind() != io::ErrorKind::ExecutableFileBusy || tries >= BUSY_TRIES_MAX {
                return error;
            }
            tries += 1;
            thread::sleep(BUSY_RETRY_AFTER);
        }
    }
}

fn close_inherited() -> Result<(), ConfinementError> {
    let listed = fs::read_dir("/proc/self/fd").map_err(ConfinementError::Descriptors)?;
    let numbers: Vec<i32> = listed
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // The list's own one is closed already.
        if let Err(error) = close(number) {
            tracing::trace!(number, %error, "a descriptor is closed already");
        }
    }
    Ok(())
}

fn bound_resources() -> Result<(), ConfinementError> {
    for (resource, most) in [
        // A core holds what the binary has read, the node's key included.
        (Resource::RLIMIT_CORE, 0),
        // It has nothing to write to any file.
        (Resource::RLIMIT_FSIZE, 0),
        (Resource::RLIMIT_CPU, CPU_SECONDS_MAX),
        (Resource::RLIMIT_AS, MEMORY_BYTES_MAX),
        (Resource::RLIMIT_NOFILE, FILES_MAX),
    ] {
        setrlimit(resource, most, most).map_err(right("bound what the binary may use"))?;
    }
    Ok(())
}

/// The groups first: without its user this process may not give them up any more.
fn become_account(account: Account) -> Result<(), ConfinementError> {
    let Account { uid, gid } = account;
    setgroups(&[]).map_err(right("give up all groups"))?;
    setresgid(gid, gid, gid).map_err(right("take another group"))?;
    setresuid(uid, uid, uid).map_err(right("take another user"))
}

fn right(doing: &'static str) -> impl Fn(nix::Error) -> ConfinementError {
    move |source| ConfinementError::Right { doing, source }
}

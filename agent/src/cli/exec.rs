//! `bcd exec`

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use clap::{Args, ValueEnum};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};
use thiserror::Error;

use super::{CommandError, Global};
use crate::config::Config;
use crate::paths::Paths;
use crate::updater::executor::{self, BootError};
use crate::updater::host::Host;
use crate::updater::record::{Notice, Record};
use crate::updater::watchdog::Evidence;

/// Become the binary that the record names
///
/// A binary whose release is below the floor is never started. Where no slot holds one that may run, the package's own
/// binary does.
#[derive(Debug, Args)]
pub(super) struct Exec {
    /// What that binary is to do
    role: Role,
    /// End when the process of this id does, whatever ends it
    #[arg(long, value_name = "PID")]
    die_with_parent: Option<i32>,
    /// Decide first, as bcd boot does: nobody has done so before this start
    #[arg(long)]
    boot: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Role {
    /// Keep the session
    Node,
    /// Write slots and record for a node without the right to; the binary is the confirmed one, never one on trial
    Helper,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Helper => "helper",
        }
    }
}

/// Why this process did not become another.
#[derive(Debug, Error)]
pub(super) enum ExecError {
    #[error(transparent)]
    Record(#[from] BootError),
    #[error("expected a record whose binary is not below its floor, found one that is")]
    BelowFloor,
    #[error("expected the trial's start to be counted, found that bcd boot has not run before it")]
    Uncounted,
    #[error("expected to die with process {expected}, found the parent to be {found}")]
    Orphaned { expected: Pid, found: Pid },
    #[error("expected the kernel to end this process with its parent, found that it will not")]
    DeathSignal(#[source] nix::Error),
    #[error("expected this program's own path, found none")]
    Package(#[source] io::Error),
    #[error("expected {path} to be executable, found that it is not", path = path.display())]
    NotExecutable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Exec {
    pub(super) fn run(self, global: &Global) -> Result<(), CommandError> {
        let (config, paths) = global.load()?;
        if let Some(parent) = self.die_with_parent {
            die_with(Pid::from_raw(parent))?;
        }
        let host = Host::new(paths, &config);
        let record = if self.boot {
            // The last binary has ended well, and nothing is known against the next one.
            executor::boot(&host, &config.package_binary, Evidence::none())?
        } else {
            executor::to_run_by(&host, &config.package_binary)?
        };
        let path = binary(self.role, &record, host.paths())?;
        // Every release, older and newer, understands these: they are the contract between a boot loader and a slot.
        let source = Command::new(&path)
            .arg(self.role.name())
            .arg("--config")
            .arg(&global.config)
            .arg("--state-dir")
            .arg(host.paths().root())
            .arg("--log")
            .arg(&global.log)
            .exec();
        Err(ExecError::NotExecutable { path, source }.into())
    }
}

/// What survives the exec: the kernel's promise to end this process with its parent.
fn die_with(parent: Pid) -> Result<(), ExecError> {
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(ExecError::DeathSignal)?;
    // It may have died before the promise: then nobody would ever send the signal.
    let found = getppid();
    if found != parent {
        let expected = parent;
        return Err(ExecError::Orphaned { expected, found });
    }
    Ok(())
}

/// The binary that a helper has to be.
pub(super) fn confirmed_binary(host: &Host, config: &Config) -> Result<PathBuf, ExecError> {
    let record = executor::to_run_by(host, &config.package_binary)?;
    match record.notice() {
        // This process may be any binary by now, but not the package's.
        Some(Notice::Rescue) => Ok(config.package_binary.clone()),
        Some(Notice::Recovered) | None => binary(Role::Helper, &record, host.paths()),
    }
}

fn binary(role: Role, record: &Record, paths: &Paths) -> Result<PathBuf, ExecError> {
    if record.notice() == Some(Notice::Rescue) {
        return std::env::current_exe().map_err(ExecError::Package);
    }
    let chosen = match role {
        Role::Node => {
            // A start that nobody counted would be one more than a trial has.
            if record.trial().is_some_and(|trial| trial.starts == 0) {
                return Err(ExecError::Uncounted);
            }
            record.chosen()
        }
        Role::Helper => record.confirmed(),
    };
    if !record.floor().admits(chosen.sequence) {
        return Err(ExecError::BelowFloor);
    }
    Ok(paths.slot_binary(chosen.slot))
}

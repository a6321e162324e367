//! The node as a child process.
//!
//! Takes what to start, gives how it ended. The child leads a process group of its own, which ends with it, and it dies
//! with its parent.

use std::io::{self, PipeWriter};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use thiserror::Error;
use tokio::process::Command;
use tokio::time::timeout;

use super::Supervision;
use super::tail::Tail;
use crate::updater::attempt::Exit;
use crate::updater::watchdog::Death;

/// Where the child's standard error goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// To ours.
    Inherited,
    /// To ours, and its end is kept.
    Kept,
}

/// One start of the node.
#[derive(Debug)]
pub(super) struct Child {
    process: tokio::process::Child,
    group: Pid,
    tail: Option<Tail>,
}

/// Why it was not started.
#[derive(Debug, Error)]
pub(super) enum SpawnError {
    #[error("expected to start {program}, found that it cannot be done")]
    Spawn {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("expected a pipe for the node's log, found none")]
    Pipe(#[source] io::Error),
}

impl Child {
    pub(super) fn spawn(supervision: &Supervision, output: Output) -> Result<Self, SpawnError> {
        let failed = |source| SpawnError::Spawn {
            program: supervision.package.display().to_string(),
            source,
        };
        let (tail, log) = match output {
            Output::Inherited => (None, None),
            Output::Kept => {
                let (reader, writer) = io::pipe().map_err(SpawnError::Pipe)?;
                let tail = Tail::of(reader).map_err(SpawnError::Pipe)?;
                (Some(tail), Some(writer))
            }
        };
        // The command holds the pipe's other end: it has to go before the child's end can be seen.
        let process = command(supervision, log).spawn().map_err(failed)?;
        let id = process
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .ok_or_else(|| failed(io::Error::other("it has no process id")))?;
        Ok(Self {
            process,
            group: Pid::from_raw(id),
            tail,
        })
    }

    /// Waits until it has ended by itself. What it started ends too.
    pub(super) async fn wait(&mut self) -> Death {
        let exit = match self.process.wait().await {
            Ok(status) => exit_of(status),
            Err(error) => {
                tracing::error!(%error, "the node cannot be waited for");
                Exit::Status(-1)
            }
        };
        self.kill_group();
        if let Some(tail) = &mut self.tail {
            tail.finish().await;
        }
        Death {
            exit,
            log: self.log(),
        }
    }

    /// Asks it to end, and kills it if it has not after `grace`.
    pub(super) async fn stop(&mut self, grace: Duration) {
        if let Err(error) = killpg(self.group, Signal::SIGTERM) {
            tracing::debug!(%error, "the node has ended already");
        }
        match timeout(grace, self.process.wait()).await {
            Ok(Ok(_)) => self.kill_group(),
            Ok(Err(_)) | Err(_) => {
                tracing::warn!("the node did not stop in time: it is killed");
                self.kill().await;
            }
        }
    }

    /// Kills it with all that it started.
    pub(super) async fn kill(&mut self) {
        self.kill_group();
        if let Err(error) = self.process.wait().await {
            tracing::error!(%error, "the node cannot be waited for");
        }
    }

    /// The end of its log so far; empty where that is not kept.
    pub(super) fn log(&self) -> String {
        self.tail.as_ref().map(Tail::text).unwrap_or_default()
    }

    fn kill_group(&self) {
        if let Err(error) = killpg(self.group, Signal::SIGKILL) {
            tracing::trace!(%error, "nothing of the node is left");
        }
    }
}

fn command(supervision: &Supervision, log: Option<PipeWriter>) -> Command {
    let mut command = Command::new(&supervision.package);
    command
        .arg("exec")
        .arg("node")
        .arg("--die-with-parent")
        .arg(std::process::id().to_string())
        .arg("--config")
        .arg(&supervision.config_path)
        .arg("--state-dir")
        .arg(supervision.host.paths().root())
        .arg("--log")
        .arg(&supervision.log)
        .stdin(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(account) = supervision.account {
        // The groups of this process go with its user.
        command.gid(account.gid.as_raw()).uid(account.uid.as_raw());
    }
    if let Some(log) = log {
        command.stderr(log);
    }
    command
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Status(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Status(-1),
    }
}

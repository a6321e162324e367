//! The new binary's own word that it can run here, before anything depends on it.
//!
//! Takes the staged binary and the node's configuration, gives yes or a reason. The binary has a few seconds, no input
//! and an empty environment; whatever it starts dies with it.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use bc_protocol::session::Outcome;
use bc_protocol::version::Version;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::attempt::Ending;
use super::limits::{
    BUSY_RETRY_AFTER, BUSY_TRIES_MAX, PREFLIGHT_OUTPUT_BYTES_MAX, PREFLIGHT_SECONDS_MAX,
};
use crate::account::Account;

/// What a preflight is run on.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// The staged binary.
    pub(crate) binary: PathBuf,
    /// The version that it has to print.
    pub(crate) version: Version,
    /// The configuration that it has to read.
    pub(crate) config: PathBuf,
    /// The folder that it has to read.
    pub(crate) root: PathBuf,
    /// The user to run it as, where that is not this process's.
    pub(crate) account: Option<Account>,
}

/// Why a binary did not pass.
#[derive(Debug, Error)]
pub(crate) enum PreflightError {
    #[error("expected {binary} to start, found that it does not", binary = binary.display())]
    Start {
        binary: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("expected an answer within {PREFLIGHT_SECONDS_MAX} s, found none")]
    TimedOut,
    #[error("expected the preflight to pass, found {status}: {said}")]
    Failed { status: String, said: String },
    #[error("expected the preflight to print version {expected}, found \"{found}\"")]
    Version { expected: Version, found: String },
}

impl PreflightError {
    pub(crate) fn ending(&self) -> Ending {
        Ending::new(
            Outcome::Refused,
            "preflight",
            super::host::with_causes(self),
        )
    }
}

/// Asks the binary.
pub(crate) async fn preflight(order: &Order) -> Result<(), PreflightError> {
    let child = start(order).await?;
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    let answered = timeout(Duration::from_secs(PREFLIGHT_SECONDS_MAX), answer(child)).await;
    // Its own group, so that nothing it may have started outlives the question.
    if let Some(group) = group
        && let Err(error) = killpg(Pid::from_raw(group), Signal::SIGKILL)
    {
        tracing::debug!(%error, "the preflight left no process behind");
    }
    let answer = answered
        .map_err(|_| PreflightError::TimedOut)?
        .map_err(|source| PreflightError::Start {
            binary: order.binary.clone(),
            source,
        })?;
    if !answer.passed {
        return Err(PreflightError::Failed {
            status: answer.status,
            said: answer.complaint,
        });
    }
    if answer.said != order.version.as_str() {
        return Err(PreflightError::Version {
            expected: order.version.clone(),
            found: answer.said,
        });
    }
    Ok(())
}

struct Answer {
    passed: bool,
    status: String,
    said: String,
    complaint: String,
}

async fn start(order: &Order) -> Result<Child, PreflightError> {
    let mut tries = 0;
    loop {
        match spawn(order) {
            Ok(child) => return Ok(child),
            Err(error) if is_passing(&error) && tries < BUSY_TRIES_MAX => {
                tries += 1;
                sleep(BUSY_RETRY_AFTER).await;
            }
            Err(source) => {
                return Err(PreflightError::Start {
                    binary: order.binary.clone(),
                    source,
                });
            }
        }
    }
}

fn spawn(order: &Order) -> io::Result<Child> {
    let mut command = Command::new(&order.binary);
    if let Some(account) = order.account {
        // The groups of this process go with its user.
        command.gid(account.gid.as_raw()).uid(account.uid.as_raw());
    }
    command
        .arg("preflight")
        .arg("--config")
        .arg(&order.config)
        .arg("--state-dir")
        .arg(&order.root)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}

/// Whether waiting helps: another thread of ours may just be between fork and exec, with the binary still open.
fn is_passing(error: &io::Error) -> bool {
    [
        io::ErrorKind::ExecutableFileBusy,
        io::ErrorKind::WouldBlock,
        io::ErrorKind::OutOfMemory,
    ]
    .contains(&error.kind())
}

async fn answer(mut child: Child) -> io::Result<Answer> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (said, complaint, status) =
        tokio::join!(first_bytes(stdout), first_bytes(stderr), child.wait());
    let status = status?;
    Ok(Answer {
        passed: status.success(),
        status: status.to_string(),
        said: said.trim_end().to_owned(),
        complaint: complaint.trim_end().to_owned(),
    })
}

async fn first_bytes(stream: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        let mut limited = stream.take(PREFLIGHT_OUTPUT_BYTES_MAX);
        if let Err(error) = limited.read_to_end(&mut bytes).await {
            tracing::debug!(%error, "the preflight's output ended early");
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

//! The new binary's own word that it can run here, before anything depends on it.
//!
//! Takes the staged binary and the node's configuration, gives yes or a reason. The binary has a few seconds, no input,
//! an empty environment and no right to anything: [`room`] sees to that where there is one, or else `bcd confine`. Whatever
//! it starts dies with it.

pub(crate) mod room;
mod view;

use std::io;
use std::path::{Path, PathBuf, absolute};
use std::process::Stdio;
use std::time::Duration;

use bc_protocol::session::Outcome;
use bc_protocol::version::Version;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, geteuid};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::attempt::Ending;
use super::limits::{
    PREFLIGHT_OUTPUT_BYTES_MAX, PREFLIGHT_SECONDS_MAX, START_RETRY_AFTER, START_TRIES_MAX,
};
use crate::account::Account;
use crate::paths::Paths;

use view::{CONFIG, View};

/// The image of this process, whatever has become of its file.
const LAUNCHER: &str = "/proc/self/exe";

/// What a preflight is run on.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// The staged binary.
    pub(crate) binary: PathBuf,
    /// The version that it has to print.
    pub(crate) version: Version,
    /// The configuration that it has to read.
    pub(crate) config: PathBuf,
    /// The node's folder, which it has to read.
    pub(crate) paths: Paths,
    pub(crate) rights: Rights,
}

/// As whom a preflight runs, and what it can look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// As this process's user, who has no rights to give up.
    Ours,
    /// As the node's user: what a node reads is his.
    Node(Account),
    /// As a user who owns nothing: copies are his for as long as it takes.
    Nobody(Account),
}

impl Rights {
    /// Of a preflight by the node itself. Root has rights that a binary which has not proven itself must not have.
    pub(crate) fn here() -> Self {
        if geteuid().is_root() {
            Self::Nobody(Account::NOBODY)
        } else {
            Self::Ours
        }
    }

    /// Of a preflight for a node that runs as `account`, which may be root all the same.
    pub(crate) fn of(account: Account) -> Self {
        if account.uid.is_root() {
            Self::Nobody(Account::NOBODY)
        } else {
            Self::Node(account)
        }
    }
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
    #[error("expected to show the new binary what a node reads, found that it cannot be copied")]
    View(#[source] io::Error),
    #[error("expected the room of preflights to answer, found that it does not")]
    Room(#[source] io::Error),
    #[error("expected an answer within {PREFLIGHT_SECONDS_MAX} s, found none")]
    TimedOut,
    #[error("expected the preflight to pass, found {status}: {said}")]
    Failed { status: String, said: String },
    #[error("expected the preflight to print version {expected}, found \"{found}\"")]
    Version { expected: Version, found: String },
}

impl PreflightError {
    pub(crate) fn ending(&self) -> Ending {
        let (outcome, code) = match self {
            // The release is not to blame.
            Self::View(_) => (Outcome::Failed, "disk"),
            Self::Room(_) => (Outcome::Failed, "preflight"),
            Self::Start { .. } | Self::TimedOut | Self::Failed { .. } | Self::Version { .. } => {
                (Outcome::Refused, "preflight")
            }
        };
        Ending::new(outcome, code, super::host::with_causes(self))
    }
}

/// Asks the binary.
pub(crate) async fn preflight(order: &Order) -> Result<(), PreflightError> {
    let view = match order.rights {
        Rights::Ours | Rights::Node(_) => None,
        Rights::Nobody(_) => {
            let (paths, config) = (order.paths.clone(), order.config.clone());
            let made = spawn_blocking(move || View::make(&paths, &config)).await;
            let view = made.map_err(io::Error::other).and_then(|view| view);
            Some(view.map_err(PreflightError::View)?)
        }
    };
    let task = Task::of(order, view.as_ref()).map_err(|source| cannot_start(order, source))?;
    let there = match order.rights {
        Rights::Ours => None,
        Rights::Node(_) | Rights::Nobody(_) => room::ask(Path::new(room::SOCKET), order, &task)
            .await
            .map_err(PreflightError::Room)?,
    };
    let answer = match there {
        Some(answer) => answer,
        None => {
            let child = start(order, &task).await?;
            within_its_time(child)
                .await
                .map_err(|source| cannot_start(order, source))?
        }
    };
    judge(answer.ok_or(PreflightError::TimedOut)?, order)
}

fn cannot_start(order: &Order, source: io::Error) -> PreflightError {
    PreflightError::Start {
        binary: order.binary.clone(),
        source,
    }
}

fn judge(answer: Answer, order: &Order) -> Result<(), PreflightError> {
    if !answer.passed {
        return Err(PreflightError::Failed {
            status: answer.status,
            said: answer.complaint,
        });
    }
    if answer.output != order.version.as_str() {
        return Err(PreflightError::Version {
            expected: order.version.clone(),
            found: answer.output,
        });
    }
    Ok(())
}

/// What the binary is told, and where.
struct Task {
    folder: PathBuf,
    words: Vec<String>,
}

impl Task {
    fn of(order: &Order, view: Option<&View>) -> io::Result<Self> {
        let (folder, config, root) = match view {
            Some(view) => (view.folder().to_owned(), CONFIG.into(), ".".into()),
            None => (
                "/".into(),
                absolute(&order.config)?,
                absolute(order.paths.root())?,
            ),
        };
        let [config, root] = [config, root].map(|path: PathBuf| path.display().to_string());
        let words = ["preflight", "--config", &config, "--state-dir", &root];
        Ok(Self {
            folder,
            words: words.map(str::to_owned).into(),
        })
    }
}

/// What the binary answers; nothing where its time is up. Its own group, so that nothing it may have started outlives the
/// question.
async fn within_its_time(child: Child) -> io::Result<Option<Answer>> {
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    let answered = timeout(Duration::from_secs(PREFLIGHT_SECONDS_MAX), answer(child)).await;
    if let Some(group) = group
        && let Err(error) = killpg(Pid::from_raw(group), Signal::SIGKILL)
    {
        tracing::debug!(%error, "the preflight left no process behind");
    }
    answered.ok().transpose()
}

#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    passed: bool,
    status: String,
    /// The last that it wrote to standard output.
    output: String,
    complaint: String,
}

async fn start(order: &Order, task: &Task) -> Result<Child, PreflightError> {
    let mut tries = 0;
    loop {
        match spawn(order, task) {
            Ok(child) => return Ok(child),
            Err(error) if is_passing(&error) && tries < START_TRIES_MAX => {
                tries += 1;
                sleep(START_RETRY_AFTER).await;
            }
            Err(source) => return Err(cannot_start(order, source)),
        }
    }
}

fn spawn(order: &Order, task: &Task) -> io::Result<Child> {
    let mut command = Command::new(LAUNCHER);
    command.arg("confine").arg("--binary").arg(&order.binary);
    match order.rights {
        Rights::Ours => {}
        Rights::Node(account) | Rights::Nobody(account) => {
            let (user, group) = (account.uid.to_string(), account.gid.to_string());
            command.args(["--user", &user, "--group", &group]);
        }
    }
    command.arg("--folder").arg(&task.folder);
    command.arg("--").args(&task.words).current_dir("/");
    apart(&mut command).spawn()
}

/// With nothing of this process's but what it says.
fn apart(command: &mut Command) -> &mut Command {
    command
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
}

/// Whether waiting helps: the machine has no process or no memory to spare just now.
fn is_passing(error: &io::Error) -> bool {
    [io::ErrorKind::WouldBlock, io::ErrorKind::OutOfMemory].contains(&error.kind())
}

async fn answer(mut child: Child) -> io::Result<Answer> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (output, complaint, status) =
        tokio::join!(first_bytes(stdout), first_bytes(stderr), child.wait());
    let status = status?;
    Ok(Answer {
        passed: status.success(),
        status: status.to_string(),
        output: output.trim_end().to_owned(),
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

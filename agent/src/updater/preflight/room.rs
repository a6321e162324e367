//! A preflight in a process of somebody else's: under systemd a unit of its own, which has fewer rights than any other.
//!
//! Takes an order, hands over the open binary and the open folder, gives what came of it. The other end takes one order
//! a connection and is gone after it. Who asks so needs no right to become another user, and none to end what that one
//! runs. Where there is no such room, or it is another user's, nothing is asked of it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration;

use nix::unistd::{fchdir, geteuid};
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::time::timeout;

use super::{Answer, Order, Rights, Task, apart, within_its_time};
use crate::durable;
use crate::helper::frame;
use crate::updater::limits::PREFLIGHT_SECONDS_MAX;

/// Where systemd listens for it.
pub(crate) const SOCKET: &str = "/run/bcd/preflight.sock";

/// What both ends have to speak.
const VERSION: u32 = 1;

/// Bytes of a frame: some paths, or a little of what a binary has said.
const FRAME_BYTES_MAX: usize = 32 << 10;

/// How long who asks may take to say what.
const REQUEST_PATIENCE: Duration = Duration::from_secs(5);

/// How long the room may take beyond the binary's own time: to start, and to answer.
const ROOM_PATIENCE: Duration = Duration::from_secs(PREFLIGHT_SECONDS_MAX + 10);

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    version: u32,
    /// As whom, where it matters.
    user: Option<u32>,
    words: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "kebab-case", deny_unknown_fields)]
enum Said {
    /// The binary has ended.
    Ended(Answer),
    /// It did not end in time.
    TimedOut {},
    /// It could not be started.
    NotStarted { reason: String },
    /// This room is somebody else's.
    NotHere {},
}

/// Asks; nothing comes back where this order has to be carried out elsewhere. The inner nothing is a binary that did not end
/// in time.
pub(super) async fn ask(
    socket: &Path,
    order: &Order,
    task: &Task,
) -> io::Result<Option<Option<Answer>>> {
    let stream = match UnixStream::connect(socket).await {
        Ok(stream) => stream,
        Err(error) => {
            tracing::debug!(%error, "there is no room for preflights");
            return Ok(None);
        }
    };
    let found = stream.peer_cred()?.uid();
    if found != 0 && found != geteuid().as_raw() {
        tracing::warn!(
            user = found,
            "somebody else listens where preflights are run"
        );
        return Ok(None);
    }
    let said = timeout(ROOM_PATIENCE, exchange(&stream, order, task));
    match said.await.map_err(|_| io::ErrorKind::TimedOut)?? {
        Said::Ended(answer) => Ok(Some(Some(answer))),
        Said::TimedOut {} => Ok(Some(None)),
        Said::NotStarted { reason } => Err(io::Error::other(reason)),
        Said::NotHere {} => Ok(None),
    }
}

async fn exchange(stream: &UnixStream, order: &Order, task: &Task) -> io::Result<Said> {
    let binary = durable::open_unlinked(&order.binary)?;
    let folder = File::open(&task.folder)?;
    let asked = Asked {
        version: VERSION,
        user: match order.rights {
            Rights::Node(account) => Some(account.uid.as_raw()),
            Rights::Ours | Rights::Nobody(_) => None,
        },
        words: task.words.clone(),
    };
    frame::write(stream, &serde_json::to_vec(&asked)?, Some(binary.as_fd())).await?;
    frame::write(stream, &[], Some(folder.as_fd())).await?;
    let said = frame::read(stream, FRAME_BYTES_MAX).await;
    let said = said.map_err(io::Error::other)?;
    Ok(serde_json::from_slice(&said.bytes)?)
}

/// The other end: carries out one order. Whatever comes of it, nothing of it is left.
pub(crate) async fn serve(stream: UnixStream) -> io::Result<()> {
    let order = timeout(REQUEST_PATIENCE, take(&stream)).await;
    let (asked, binary, folder) = order.map_err(|_| io::ErrorKind::TimedOut)??;
    let user = geteuid();
    // Root is nobody to try a binary out as.
    let said = if user.is_root() || asked.user.is_some_and(|asked| asked != user.as_raw()) {
        Said::NotHere {}
    } else {
        tokio::select! {
            said = carry_out(asked, &binary, &folder) => said,
            // Who asked does not wait any more; nothing else is expected from there.
            _ = frame::read(&stream, 0) => return Ok(()),
        }
    };
    frame::write(&stream, &serde_json::to_vec(&said)?, None).await
}

async fn take(stream: &UnixStream) -> io::Result<(Asked, OwnedFd, OwnedFd)> {
    let first = frame::read(stream, FRAME_BYTES_MAX).await;
    let first = first.map_err(io::Error::other)?;
    let asked: Asked = serde_json::from_slice(&first.bytes)?;
    if asked.version != VERSION {
        let found = asked.version;
        let problem = format!("expected an order of version {VERSION}, found {found}");
        return Err(io::Error::other(problem));
    }
    let second = frame::read(stream, 0).await.map_err(io::Error::other)?;
    let missing = || io::Error::other("expected a binary and a folder, found less");
    Ok((
        asked,
        first.descriptor.ok_or_else(missing)?,
        second.descriptor.ok_or_else(missing)?,
    ))
}

async fn carry_out(asked: Asked, binary: &OwnedFd, folder: &OwnedFd) -> Said {
    let not_started = |error: io::Error| Said::NotStarted {
        reason: error.to_string(),
    };
    // The way to the folder may be closed to this user; the folder itself is not.
    if let Err(error) = fchdir(folder) {
        return not_started(error.into());
    }
    // By the open file: what was opened is what runs, and it has no name that this user could reach.
    let image = format!("/proc/self/fd/{}", binary.as_raw_fd());
    let child = match apart(Command::new(image).args(asked.words)).spawn() {
        Ok(child) => child,
        Err(error) => return not_started(error),
    };
    match within_its_time(child).await {
        Ok(Some(answer)) => Said::Ended(answer),
        Ok(None) => Said::TimedOut {},
        Err(error) => not_started(error),
    }
}

//! From one binary to the next in one process: without an end there is nothing that a manager has to notice, wait for and
//! start anew.
//!
//! Takes what this node was started with; becomes the package's own binary, which decides by the record as it does before
//! every start, and becomes what that names. It is a short way for a node that runs as root under systemd and has ended
//! well; whatever is in the way, the ordinary one is left: an end, and a start.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{self, Command};

use nix::unistd::geteuid;

/// Whom systemd has started, in a variable of its own: what that one starts inherits the word, and is another process.
const STARTED: &str = "SYSTEMD_EXEC_PID";

/// Whether this process is a unit's main one, and may do what `bcd boot` does.
pub(crate) fn is_possible() -> bool {
    let started = std::env::var(STARTED).ok();
    let is_main = started.and_then(|id| id.parse().ok()) == Some(process::id());
    is_main && geteuid().is_root() && std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// Becomes the next binary; comes back only where that cannot be done.
pub(crate) fn hand_over(package: &Path, config: &Path, state: &Path, log: &str) -> io::Error {
    Command::new(package)
        .args(["exec", "node", "--boot", "--config"])
        .arg(config)
        .arg("--state-dir")
        .arg(state)
        .args(["--log", log])
        .exec()
}

//! What a service manager knows and does: systemd, by its own tools.
//!
//! Takes a unit's name. Whatever is asked has an answer or none within seconds; nothing here decides anything, and where
//! there is no systemd nothing is asked.

pub(crate) mod rest;

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use thiserror::Error;

use crate::clock;
use crate::durable;
use crate::updater::attempt::Exit;
use crate::updater::watchdog::Death;

/// How long one question or order may take. Orders do not wait for what they begin.
const PATIENCE: Duration = Duration::from_secs(10);

const STEP: Duration = Duration::from_millis(5);

/// How long the last words of a program that has ended may take to arrive.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Bytes of an answer that are looked at: a log's end, with lines of any length.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// Where a unit writes down how it ended.
const ENDED: &str = "/run/bcd";

/// Bytes of what it writes: two words.
const ENDED_BYTES_MAX: u64 = 64;

/// Lines of a log that are asked for; what is kept of them is bounded in bytes.
const LOG_LINES: &str = "1000";

/// Whether a unit is to run, by its manager's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It runs, is about to, or has failed to.
    Wanted,
    /// Somebody stopped it.
    Stopped,
}

/// Why an order was not carried out.
#[derive(Debug, Error)]
pub(crate) enum ManagerError {
    #[error("expected to run {program}, found that it cannot be")]
    Run {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("expected {program} to end within {} s, found that it did not", PATIENCE.as_secs())]
    Late { program: String },
    #[error("expected {program} to do as it is told, found status {status}: {said}")]
    Failed {
        program: String,
        status: String,
        said: String,
    },
}

/// Whether a service manager started this process.
pub(crate) fn is_there() -> bool {
    std::env::var_os("INVOCATION_ID").is_some()
}

/// The unit that this process belongs to.
pub(crate) fn own_unit() -> Option<String> {
    unit_in(&fs::read_to_string("/proc/self/cgroup").ok()?)
}

fn unit_in(cgroups: &str) -> Option<String> {
    let mut names = cgroups.lines().flat_map(|line| line.rsplit('/'));
    names
        .find(|name| name.ends_with(".service"))
        .map(str::to_owned)
}

/// Begins to start a unit.
pub(crate) fn start(unit: &str) -> Result<(), ManagerError> {
    ask("systemctl", &["start", "--no-block", unit]).map(drop)
}

/// Begins to restart a unit, from whatever state it is in. What runs of it has had its time, and is not asked to end.
pub(crate) fn restart(unit: &str) -> Result<(), ManagerError> {
    if let Err(error) = ask("systemctl", &["kill", "--signal=SIGKILL", unit]) {
        tracing::debug!(%unit, %error, "nothing of the unit runs");
    }
    ask("systemctl", &["restart", "--no-block", unit]).map(drop)
}

/// Does what an operator's own line of shell says.
pub(crate) fn shell(line: &str) -> Result<(), ManagerError> {
    ask("sh", &["-c", line]).map(drop)
}

/// Whether somebody stopped the unit. Where the manager does not say, nobody did.
pub(crate) fn standing(unit: &str) -> Standing {
    let property = ["show", "--property=ActiveState", "--value", unit];
    match ask("systemctl", &property) {
        Ok(state) if ["inactive", "deactivating"].contains(&state.trim()) => Standing::Stopped,
        Ok(_) => Standing::Wanted,
        Err(error) => {
            tracing::warn!(%unit, %error, "the unit's state is unknown");
            Standing::Wanted
        }
    }
}

/// Whether the whole machine is on its way down.
pub(crate) fn machine_is_stopping() -> bool {
    // It ends with an error for every state but one, and says the state all the same.
    match ask("systemctl", &["is-system-running"]) {
        Ok(_) => false,
        Err(ManagerError::Failed { said, .. }) => said.trim() == "stopping",
        Err(ManagerError::Run { .. } | ManagerError::Late { .. }) => false,
    }
}

/// How the unit's last main process ended, and the last that it wrote. The manager has forgotten it by the next start: the
/// unit writes it down (`ExecStopPost=`).
pub(crate) fn last_death(unit: &str) -> Option<Death> {
    Some(Death {
        exit: last_exit(Path::new(ENDED), unit)?,
        log: log(unit),
    })
}

fn last_exit(ended: &Path, unit: &str) -> Option<Exit> {
    let path = ended.join(format!("{unit}.ended"));
    let bytes = durable::read_unlinked(&path, ENDED_BYTES_MAX).ok()??;
    exit_in(&String::from_utf8_lossy(&bytes))
}

/// The end of the unit's log.
pub(crate) fn log(unit: &str) -> String {
    let words = [
        "--unit",
        unit,
        "--boot",
        "--lines",
        LOG_LINES,
        "--output",
        "cat",
        "--no-pager",
        "--quiet",
    ];
    ask("journalctl", &words).unwrap_or_default()
}

/// In the manager's words: `exited 7`, `killed ABRT`, `dumped SEGV`.
fn exit_in(ended: &str) -> Option<Exit> {
    let (how, what) = ended.trim().split_once(' ')?;
    match how {
        "exited" => Some(Exit::Status(what.parse().ok()?)),
        "killed" | "dumped" => {
            let signal: Signal = format!("SIG{what}").parse().ok()?;
            Some(Exit::Signal(signal as i32))
        }
        _ => None,
    }
}

fn ask(program: &str, words: &[&str]) -> Result<String, ManagerError> {
    let failed = |source| ManagerError::Run {
        program: program.to_owned(),
        source,
    };
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let output = child.stdout.take();
    let (answer, answered) = mpsc::channel();
    // Read beside the wait: a full pipe would hold the program.
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(output) = output
            && let Err(error) = output.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)
        {
            tracing::debug!(%error, "an answer ended early");
        }
        // Nobody may wait for it any more.
        drop(answer.send(bytes));
    });
    let until = clock::instant() + PATIENCE;
    let status = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) => break status,
            None if clock::instant() < until => thread::sleep(STEP),
            None => {
                child.kill().and_then(|()| child.wait()).map_err(failed)?;
                let program = program.to_owned();
                return Err(ManagerError::Late { program });
            }
        }
    };
    // What it has left running may hold its output for as long as it likes.
    let said = answered.recv_timeout(LAST_WORDS).unwrap_or_default();
    let said = String::from_utf8_lossy(&said).into_owned();
    if status.success() {
        return Ok(said);
    }
    Err(ManagerError::Failed {
        program: program.to_owned(),
        status: status.to_string(),
        said,
    })
}

#[cfg(test)]
mod tests {
    use super::{ManagerError, ask, exit_in, unit_in};
    use crate::updater::attempt::Exit;

    #[test]
    fn a_unit_is_found_in_either_form_of_the_hierarchy() {
        for (cgroups, unit) in [
            ("0::/system.slice/bcd.service\n", Some("bcd.service")),
            (
                "0::/system.slice/bcd@x.service/control\n",
                Some("bcd@x.service"),
            ),
            (
                "3:cpu:/\n1:name=systemd:/system.slice/bcd.service\n",
                Some("bcd.service"),
            ),
            ("0::/user.slice/session-1.scope\n", None),
            ("", None),
        ] {
            assert_eq!(unit_in(cgroups).as_deref(), unit, "{cgroups}");
        }
    }

    #[test]
    fn an_end_has_a_status_or_a_signal() {
        for (ended, exit) in [
            ("exited 7\n", Some(Exit::Status(7))),
            ("killed KILL\n", Some(Exit::Signal(9))),
            ("dumped SEGV\n", Some(Exit::Signal(11))),
            (" \n", None),
            ("killed NOTHING\n", None),
            ("exited\n", None),
            ("", None),
        ] {
            assert_eq!(exit_in(ended), exit, "{ended}");
        }
    }

    #[test]
    fn what_is_asked_is_answered_or_says_why_not() {
        assert_eq!(ask("echo", &["one", "two"]).unwrap(), "one two\n");
        // More than a pipe holds.
        let long = ask("sh", &["-c", "head -c 300000 /dev/zero"]).unwrap();
        assert_eq!(long.len(), 300_000);
        let refused = ask("sh", &["-c", "echo stopping; exit 1"]).unwrap_err();
        assert!(matches!(refused, ManagerError::Failed { said, .. } if said == "stopping\n"));
        // Something that is left running keeps nobody waiting.
        assert_eq!(ask("sh", &["-c", "sleep 3 & echo"]).unwrap(), "");
        let missing = ask("no such program", &[]).unwrap_err();
        assert!(matches!(missing, ManagerError::Run { .. }));
    }
}

//! Whether a trial has failed, and whose fault that is.
//!
//! Takes what the binary on trial left as its mark and how it died, gives the ending that its attempt is reported with.
//! The verdict is pure; what is read from the disk for it is untrusted, and changes no more than a word in a report.

mod lock;

use std::io;

use bc_protocol::id::AttemptId;
use bc_protocol::session::Outcome;
use serde::{Deserialize, Serialize};

use super::attempt::{Ending, Exit};
use super::limits::MARK_BYTES_MAX;
use crate::durable::{self, Mode};
use crate::paths::Paths;

pub(crate) use lock::{NotArmed, WatchError, arm, watch};

/// How far a binary on trial came, by its own account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Mark {
    pub(crate) attempt: AttemptId,
    pub(crate) stage: Stage,
}

/// The furthest that it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Stage {
    /// It runs.
    Started,
    /// Every gateway that it reached told it to come back later.
    NotNow,
    /// It was welcomed.
    Welcomed,
}

/// How the last start ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Death {
    pub(crate) exit: Exit,
    /// The last that it wrote.
    pub(crate) log: String,
}

/// Whether a gateway could be reached from this machine, whatever the binary on trial did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// One could, or nobody has tried.
    Assumed,
    /// None could for the last third of the trial.
    None,
}

/// What a verdict rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub(crate) stage: Option<Stage>,
    /// Absent while the binary still runs.
    pub(crate) death: Option<Death>,
    /// The last that a binary which still runs wrote.
    pub(crate) log: String,
    pub(crate) reach: Reach,
}

impl Evidence {
    /// What is known where nobody watched.
    pub(crate) fn none() -> Self {
        Self {
            stage: None,
            death: None,
            log: String::new(),
            reach: Reach::Assumed,
        }
    }
}

/// How a trial ended that is over without a confirmation.
pub(crate) fn verdict(evidence: Evidence) -> Ending {
    let Evidence {
        stage,
        death,
        log,
        reach,
    } = evidence;
    if let Some(Death { exit, log }) = death {
        let message = match exit {
            Exit::Status(status) => {
                format!("expected the new binary to run, found that it ended with status {status}")
            }
            Exit::Signal(signal) => {
                format!("expected the new binary to run, found that signal {signal} ended it")
            }
        };
        return Ending {
            exit: Some(exit),
            log,
            ..Ending::new(Outcome::Crashed, "crashed", message)
        };
    }
    let (outcome, code, message) = match (stage, reach) {
        (Some(Stage::Welcomed), _) => (
            Outcome::Unstable,
            "unstable",
            "expected a session that holds, found that it was lost before the deadline",
        ),
        (Some(Stage::NotNow), _) => (
            Outcome::Environment,
            "environment",
            "expected a gateway that welcomes, found only gateways that put it off",
        ),
        (Some(Stage::Started) | None, Reach::None) => (
            Outcome::Environment,
            "environment",
            "expected a gateway within reach, found none, from the watchdog either",
        ),
        (Some(Stage::Started), Reach::Assumed) => (
            Outcome::NoWelcome,
            "no-welcome",
            "expected a Welcome before the deadline, found none",
        ),
        (None, Reach::Assumed) => (
            Outcome::Hung,
            "hung",
            "expected the new binary to start its work, found that it did nothing",
        ),
    };
    Ending {
        log,
        ..Ending::new(outcome, code, message)
    }
}

/// Keeps how far this process, which is on trial, came.
pub(crate) fn leave_mark(paths: &Paths, mark: &Mark) -> io::Result<()> {
    let bytes = serde_json::to_vec(mark).map_err(io::Error::other)?;
    durable::replace_file(&paths.trial_mark(), &bytes, Mode::Readable)
}

/// How far the binary on trial for `attempt` came.
pub(crate) fn read_stage(paths: &Paths, attempt: &AttemptId) -> Option<Stage> {
    let bytes = durable::read_unlinked(&paths.trial_mark(), MARK_BYTES_MAX).ok()??;
    serde_json::from_slice::<Mark>(&bytes)
        .ok()
        .filter(|mark| mark.attempt == *attempt)
        .map(|mark| mark.stage)
}

/// Forgets an earlier start's mark.
pub(crate) fn clear_mark(paths: &Paths) -> io::Result<()> {
    durable::remove_if_there(&paths.trial_mark())
}

#[cfg(test)]
mod tests {
    use super::{Death, Evidence, Exit, Reach, Stage, verdict};
    use bc_protocol::session::Outcome;

    #[test]
    fn every_trial_that_failed_has_its_word() {
        let death = |exit| {
            Some(Death {
                exit,
                log: "last words".to_owned(),
            })
        };
        for (stage, death, reach, outcome) in [
            (None, None, Reach::Assumed, Outcome::Hung),
            (None, None, Reach::None, Outcome::Environment),
            (
                Some(Stage::Started),
                None,
                Reach::Assumed,
                Outcome::NoWelcome,
            ),
            (
                Some(Stage::Started),
                None,
                Reach::None,
                Outcome::Environment,
            ),
            (
                Some(Stage::NotNow),
                None,
                Reach::Assumed,
                Outcome::Environment,
            ),
            (
                Some(Stage::Welcomed),
                None,
                Reach::Assumed,
                Outcome::Unstable,
            ),
            (Some(Stage::Welcomed), None, Reach::None, Outcome::Unstable),
            (
                None,
                death(Exit::Status(0)),
                Reach::Assumed,
                Outcome::Crashed,
            ),
            (
                Some(Stage::Welcomed),
                death(Exit::Signal(11)),
                Reach::None,
                Outcome::Crashed,
            ),
        ] {
            let dead = death.is_some();
            let ending = verdict(Evidence {
                stage,
                death,
                log: String::new(),
                reach,
            });
            assert_eq!(ending.outcome, outcome);
            assert_eq!(ending.log == "last words", dead);
        }
    }
}

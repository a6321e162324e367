//! One try to bring this node to one release, as the record holds it.
//!
//! Takes what happened, gives the attempt after it: how often it was tried, and whether that was the last time. Pure.

use std::time::Duration;

use bc_protocol::digest::Sha256;
use bc_protocol::id::AttemptId;
use bc_protocol::limits::{LOG_BYTES_MAX, MESSAGE_BYTES_MAX};
use bc_protocol::session::{AttemptFacts, Outcome};
use serde::{Deserialize, Serialize};

use super::limits::{EXCUSED_RETRIES_MAX, RETRIES_MAX, RETRY_AFTER, RETRY_AFTER_MAX};

/// An attempt, and how much patience it has used up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Attempt {
    #[serde(flatten)]
    facts: AttemptFacts,
    /// Tries that say nothing about the release.
    #[serde(default)]
    excused_tries: u32,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Status(i32),
    Signal(i32),
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status(status) => write!(f, "status {status}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// How a try ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) outcome: Outcome,
    /// The reason in one word.
    pub(crate) code: String,
    /// The reason in one sentence.
    pub(crate) message: String,
    pub(crate) exit: Option<Exit>,
    /// The last that a dead binary wrote.
    pub(crate) log: String,
}

impl Ending {
    /// An ending that no process's death explains.
    pub(crate) fn new(
        outcome: Outcome,
        code: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            outcome,
            code: code.into(),
            message: message.into(),
            exit: None,
            log: String::new(),
        }
    }
}

impl Attempt {
    /// An attempt that has just begun.
    pub(crate) fn begun(id: AttemptId, target: impl Into<String>) -> Self {
        Self {
            facts: AttemptFacts {
                id,
                target: target.into(),
                outcome: Outcome::Running,
                is_final: false,
                tries: 0,
                code: String::new(),
                message: String::new(),
                exit_status: None,
                signal: None,
                log: String::new(),
            },
            excused_tries: 0,
        }
    }

    pub(crate) fn id(&self) -> &AttemptId {
        &self.facts.id
    }

    pub(crate) fn facts(&self) -> &AttemptFacts {
        &self.facts
    }

    /// Whether it has ended for good.
    pub(crate) fn is_final(&self) -> bool {
        self.facts.is_final
    }

    /// Whether it has ended for good where its node lost the binary that it had confirmed, and `target` would bring that
    /// back. What it confirmed is gone, and what another target came to says nothing about this one: only a target that
    /// failed here itself is never tried again.
    pub(crate) fn is_final_for_repair(&self, target: &str) -> bool {
        self.is_final() && self.facts.outcome != Outcome::Confirmed && self.facts.target == target
    }

    /// The attempt while another try runs.
    pub(crate) fn running(self) -> Self {
        let begun = Self::begun(self.facts.id, self.facts.target);
        Self {
            facts: AttemptFacts {
                tries: self.facts.tries,
                ..begun.facts
            },
            excused_tries: self.excused_tries,
        }
    }

    /// The attempt after a try that ended so.
    pub(crate) fn ended(self, ending: Ending) -> Self {
        let tries = self.facts.tries.saturating_add(1);
        let excused_tries = self.excused_tries.saturating_add(match ending.outcome {
            Outcome::Environment | Outcome::Cancelled => 1,
            Outcome::Running
            | Outcome::Confirmed
            | Outcome::Refused
            | Outcome::Failed
            | Outcome::Crashed
            | Outcome::Hung
            | Outcome::NoWelcome
            | Outcome::Unstable => 0,
        });
        let is_final = match ending.outcome {
            Outcome::Running => false,
            Outcome::Environment | Outcome::Cancelled => excused_tries > EXCUSED_RETRIES_MAX,
            Outcome::Failed => tries.saturating_sub(excused_tries) > RETRIES_MAX,
            Outcome::Confirmed
            | Outcome::Refused
            | Outcome::Crashed
            | Outcome::Hung
            | Outcome::NoWelcome
            | Outcome::Unstable => true,
        };
        let (exit_status, signal) = match ending.exit {
            Some(Exit::Status(status)) => (Some(status), None),
            Some(Exit::Signal(signal)) => (None, Some(signal)),
            None => (None, None),
        };
        Self {
            facts: AttemptFacts {
                outcome: ending.outcome,
                is_final,
                tries,
                code: ending.code,
                message: first_bytes(ending.message, MESSAGE_BYTES_MAX),
                exit_status,
                signal,
                log: last_bytes(ending.log, LOG_BYTES_MAX),
                ..self.facts
            },
            excused_tries,
        }
    }

    /// The attempt as far as a stranger's words about it are worth keeping: no log, and words of at most `bytes_max`.
    pub(crate) fn shortened(self, bytes_max: usize) -> Self {
        Self {
            facts: AttemptFacts {
                target: first_bytes(self.facts.target, bytes_max),
                code: first_bytes(self.facts.code, bytes_max),
                message: first_bytes(self.facts.message, MESSAGE_BYTES_MAX),
                log: String::new(),
                ..self.facts
            },
            ..self
        }
    }

    /// How long to wait before the next try. Nodes that failed together do not come back together: the attempt's id,
    /// which is every node's own, spreads them over half of the wait.
    pub(crate) fn retry_after(&self) -> Duration {
        let doublings = self.facts.tries.saturating_sub(1).min(16);
        let longest = RETRY_AFTER
            .saturating_mul(1 << doublings)
            .min(RETRY_AFTER_MAX);
        let seed = format!("{} {}", self.facts.id, self.facts.tries);
        let spread = Sha256::of(seed.as_bytes()).as_bytes().first().copied();
        longest / 2 + longest.mul_f64(f64::from(spread.unwrap_or(0)) / 512.0)
    }
}

fn first_bytes(mut text: String, bytes_max: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}

fn last_bytes(text: String, bytes_max: usize) -> String {
    let from = text.ceil_char_boundary(text.len().saturating_sub(bytes_max));
    text.get(from..).unwrap_or_default().to_owned()
}

/// Reads an attempt that a newer agent wrote, perhaps with an outcome that this one does not know: what it must not
/// lose is that the attempt has ended.
pub(super) fn lenient<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Attempt>, D::Error> {
    let Some(mut written) = Option::<serde_json::Value>::deserialize(deserializer)? else {
        return Ok(None);
    };
    if let Ok(attempt) = Attempt::deserialize(&written) {
        return Ok(Some(attempt));
    }
    if let Some(fields) = written.as_object_mut() {
        fields.insert("outcome".to_owned(), "failed".into());
    }
    Attempt::deserialize(&written)
        .map(Some)
        .map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::{Attempt, Ending};
    use bc_protocol::id::AttemptId;
    use bc_protocol::session::Outcome;
    use proptest::prelude::*;
    use std::time::Duration;

    fn begun() -> Attempt {
        Attempt::begun(AttemptId::derived(&[b"one"]), "1.2.0")
    }

    fn ended(outcomes: &[Outcome]) -> Attempt {
        outcomes.iter().fold(begun(), |attempt, outcome| {
            attempt.ended(Ending::new(*outcome, "code", "message"))
        })
    }

    #[test]
    fn a_verdict_about_the_release_is_final_at_once() {
        for outcome in [
            Outcome::Refused,
            Outcome::Crashed,
            Outcome::Hung,
            Outcome::NoWelcome,
            Outcome::Unstable,
            Outcome::Confirmed,
        ] {
            assert!(ended(&[outcome]).is_final(), "{outcome:?}");
        }
    }

    #[test]
    fn a_failed_way_is_retried_five_times() {
        assert!(!ended(&[Outcome::Failed; 5]).is_final());
        assert!(ended(&[Outcome::Failed; 6]).is_final());
    }

    #[test]
    fn a_trial_that_proves_nothing_is_retried_twice_and_costs_no_other_retry() {
        let (failed, excused) = (Outcome::Failed, Outcome::Environment);
        assert!(!ended(&[excused, Outcome::Cancelled]).is_final());
        assert!(ended(&[excused, excused, excused]).is_final());
        assert!(!ended(&[failed, failed, failed, failed, failed, excused]).is_final());
        assert!(!ended(&[excused, excused, failed, failed, failed, failed, failed]).is_final());
    }

    #[test]
    fn only_a_target_that_failed_itself_bars_its_repair() {
        let crashed = ended(&[Outcome::Crashed]);
        assert!(crashed.is_final_for_repair("1.2.0"));
        assert!(!crashed.is_final_for_repair("1.1.0"));
        assert!(!ended(&[Outcome::Confirmed]).is_final_for_repair("1.2.0"));
        assert!(!ended(&[Outcome::Environment]).is_final_for_repair("1.2.0"));
    }

    #[test]
    fn a_log_keeps_its_end_and_stays_text() {
        let mut ending = Ending::new(Outcome::Crashed, "crashed", "é".repeat(1024));
        ending.log = format!("start {}end", "é".repeat(64 << 10));
        let attempt = begun().ended(ending);
        assert!(attempt.facts().log.ends_with("éend"));
        assert!(attempt.facts().log.len() <= 64 << 10);
        assert_eq!(attempt.facts().message.len(), 1024);
    }

    proptest! {
        #[test]
        fn waits_grow_within_their_bounds(tries in 1_usize..100) {
            let wait = ended(&vec![Outcome::Failed; tries]).retry_after();
            prop_assert!(wait >= Duration::from_secs(1));
            prop_assert!(wait <= Duration::from_secs(60));
        }
    }
}

//! What a simulated node does with one attempt, step by step, and how it ends. Pure but for the clock.

use std::time::Duration;

use bc_protocol::{
    digest::Sha256,
    id::AttemptId,
    session::{AttemptFacts, Outcome, Phase, Progress},
    spec::DaemonSection,
};
use tokio::time::Instant;

use crate::fleet::now;

/// How often a node that tells says something, before the end.
pub(super) const STEPS: u32 = 20;

/// The part of the steps, of a hundred, in which it downloads; in the others it is on trial.
const DOWNLOADING: u32 = 80;

/// An attempt under way.
#[derive(Debug)]
pub(super) struct Work {
    section: DaemonSection,
    begun: Instant,
    takes: Duration,
    steps: u32,
    done: u32,
}

impl Work {
    /// Begins with one that takes so long, in so many steps.
    pub(super) fn new(section: DaemonSection, (takes, steps): (Duration, u32)) -> Self {
        Self {
            section,
            begun: Instant::from_std(now()),
            takes,
            steps,
            done: 0,
        }
    }

    /// When the next step is over.
    pub(super) fn due(&self) -> Instant {
        self.begun + self.takes * self.done.saturating_add(1) / self.steps.saturating_add(1)
    }

    /// Does a step: what is to be told of it, or the section when it was the last.
    pub(super) fn go_on(mut self) -> Result<(Self, Progress), Box<DaemonSection>> {
        if self.done >= self.steps {
            return Err(Box::new(self.section));
        }
        self.done += 1;
        let share = self.done * 100 / self.steps;
        let (phase, percent) = if share < DOWNLOADING {
            (Phase::Downloading, share * 100 / DOWNLOADING)
        } else {
            (Phase::OnTrial, 0)
        };
        let progress = Progress {
            attempt: self.section.attempt.clone(),
            phase,
            percent: u8::try_from(percent).unwrap_or(100),
        };
        Ok((self, progress))
    }
}

/// How an attempt goes wrong, if it is one of so many in a hundred that do.
pub(super) fn mishap(attempt: &AttemptId, percent: u8) -> Option<Outcome> {
    let digest = Sha256::of(attempt.as_str().as_bytes()).to_string();
    let drawn = digest
        .get(..8)
        .and_then(|hex| u32::from_str_radix(hex, 16).ok())?;
    if drawn % 100 >= u32::from(percent) {
        return None;
    }
    match drawn / 100 % 3 {
        0 => Some(Outcome::Crashed),
        _ => Some(Outcome::NoWelcome),
    }
}

/// How an attempt has ended, in the words of a real agent.
pub(super) fn ended(section: DaemonSection, outcome: Outcome) -> AttemptFacts {
    let (message, exit_status, log) = match outcome {
        Outcome::Crashed => (
            "expected the new binary to run, found that it ended with status 101",
            Some(101),
            "simulated: this node installs nothing, and says so\n",
        ),
        Outcome::NoWelcome => (
            "expected a Welcome before the deadline, found none",
            None,
            "",
        ),
        Outcome::Confirmed
        | Outcome::Refused
        | Outcome::Running
        | Outcome::Failed
        | Outcome::Hung
        | Outcome::Unstable
        | Outcome::Environment
        | Outcome::Cancelled => ("", None, ""),
    };
    let code = match outcome {
        Outcome::Confirmed => "",
        Outcome::Refused => "rollback",
        Outcome::Running
        | Outcome::Failed
        | Outcome::Crashed
        | Outcome::Hung
        | Outcome::NoWelcome
        | Outcome::Unstable
        | Outcome::Environment
        | Outcome::Cancelled => outcome.name(),
    };
    AttemptFacts {
        id: section.attempt,
        target: section.version.to_string(),
        outcome,
        is_final: true,
        tries: 1,
        code: code.to_owned(),
        message: message.to_owned(),
        exit_status,
        signal: None,
        log: log.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_tells_percents_that_grow_and_then_ends() {
        let section = DaemonSection {
            version: "1.1.0".parse().unwrap(),
            url: String::new(),
            sha256: Sha256::of(b""),
            signature: Vec::new(),
            attempt: AttemptId::derived(&[b"a"]),
        };
        let mut work = Work::new(section, (Duration::from_secs(1), STEPS));
        let mut told = Vec::new();
        let ended = loop {
            match work.go_on() {
                Ok((next, progress)) => {
                    told.push((progress.phase, progress.percent));
                    work = next;
                }
                Err(section) => break section,
            }
        };
        assert_eq!(ended.attempt, AttemptId::derived(&[b"a"]));
        assert_eq!(told.len(), 20);
        assert_eq!(told[0], (Phase::Downloading, 6));
        assert!(told.is_sorted(), "{told:?}");
        assert_eq!(told.last(), Some(&(Phase::OnTrial, 0)));
    }
}

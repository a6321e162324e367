//! What the machine's state looks like to those who report it.

use bc_protocol::session::{AttemptFacts, Phase, Progress, TrialFacts};

use super::trial::Hold;
use super::words::Job;
use super::{Machine, State};

impl Machine {
    /// The trial that this process is.
    pub(crate) fn trial(&self) -> Option<&TrialFacts> {
        match &self.state {
            State::OnTrial(trial) => Some(&trial.facts),
            State::Idle
            | State::Working(..)
            | State::Waiting(..)
            | State::Parked(_)
            | State::Leaving => None,
        }
    }

    /// The newest attempt. What the record does not hold yet has no end.
    pub(crate) fn last_attempt(&self) -> Option<AttemptFacts> {
        match self.job().and_then(Job::section) {
            Some(section) => Some(self.attempt_of(section).facts().clone()),
            None => self.last.as_ref().map(|last| last.facts().clone()),
        }
    }

    /// What is being done now; `percent` is the download's.
    pub(crate) fn progress(&self, percent: u8) -> Option<Progress> {
        if let State::OnTrial(trial) = &self.state {
            let phase = match trial.hold {
                Hold::NoSession => Phase::OnTrial,
                Hold::Since(_) | Hold::Confirming(_) | Hold::ConfirmAgain(_) => Phase::Confirming,
            };
            return Some(Progress {
                attempt: trial.facts.attempt.clone(),
                phase,
                percent: 0,
            });
        }
        let (section, phase, percent) = match self.job()? {
            Job::Admit(section) => (section, Phase::Verifying, 0),
            Job::Download(section) => (section, Phase::Downloading, percent),
            Job::Stage(section) => (section, Phase::Installing, 0),
            Job::Preflight(section) => (section, Phase::Preflight, 0),
            Job::Activate(section) => (section, Phase::Activating, 0),
            Job::Note(_) | Job::Confirm => return None,
        };
        Some(Progress {
            attempt: section.attempt.clone(),
            phase,
            percent,
        })
    }

    fn job(&self) -> Option<&Job> {
        match &self.state {
            State::Working(_, job) | State::Waiting(_, job) | State::Parked(job) => Some(job),
            State::Idle | State::OnTrial(_) | State::Leaving => None,
        }
    }
}

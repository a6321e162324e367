//! A machine whose own process is on trial: the session has to hold, then the record is asked to confirm.

use std::time::Instant;

use bc_protocol::session::TrialFacts;

use super::words::{Done, Effect, Job, JobId, Lost};
use super::{Machine, Session, State};
use crate::updater::limits::CONFIRM_RETRY_AFTER;
use crate::updater::watchdog::Stage;

/// The trial that this process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trial {
    pub(super) facts: TrialFacts,
    pub(super) hold: Hold,
    pub(super) stage: Stage,
}

/// How far the session has held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    NoSession,
    Since(Instant),
    /// The session has held; the record is being written, or written again from this time on.
    Confirming(JobId),
    ConfirmAgain(Instant),
}

impl Machine {
    pub(super) fn on_lost(&mut self, why: Lost) -> Vec<Effect> {
        self.session = Session::Down;
        let State::OnTrial(trial) = &mut self.state else {
            return vec![];
        };
        // What has held long enough has been proven: only the record is still to be written.
        if let Hold::Since(_) = trial.hold {
            trial.hold = Hold::NoSession;
        }
        match why {
            Lost::NotNow => self.mark(Stage::NotNow),
            // One gateway that answers otherwise, and "not now" is not the reason any more.
            Lost::Closed => self.mark(Stage::Started),
            Lost::Unreachable => vec![],
        }
    }

    /// A Welcome is never taken back: a trial that had one is unstable at worst.
    pub(super) fn mark(&mut self, stage: Stage) -> Vec<Effect> {
        let State::OnTrial(trial) = &mut self.state else {
            return vec![];
        };
        if trial.stage == stage || trial.stage == Stage::Welcomed {
            return vec![];
        }
        trial.stage = stage;
        vec![Effect::Mark(stage)]
    }

    pub(super) fn confirm(&mut self, trial: Trial) -> Vec<Effect> {
        self.jobs += 1;
        let id = JobId(self.jobs);
        self.state = State::OnTrial(Trial {
            hold: Hold::Confirming(id),
            ..trial
        });
        vec![Effect::Start(id, Job::Confirm)]
    }

    pub(super) fn on_confirm_done(&mut self, done: Done, now: Instant) -> Vec<Effect> {
        match done {
            Done::Confirmed(attempt) => {
                if let Some(attempt) = &attempt {
                    self.ended.remember(attempt.id().clone());
                }
                self.last = attempt.or(self.last.take());
                self.consider(now)
            }
            // Whoever judged the trial was faster: the other slot's binary is to run.
            Done::NotOnTrial | Done::TrialWaits => {
                self.state = State::Leaving;
                vec![Effect::Leave]
            }
            Done::Failed(_) => {
                if let State::OnTrial(trial) = &mut self.state {
                    trial.hold = Hold::ConfirmAgain(now + CONFIRM_RETRY_AFTER);
                }
                vec![]
            }
            Done::ToDownload
            | Done::InPlace
            | Done::Downloaded
            | Done::Staged
            | Done::Passed
            | Done::Activated
            | Done::Noted(_) => vec![],
        }
    }
}

//! One node's way from a target to a confirmed release.
//!
//! Takes inputs and the time, gives effects. Pure: the caller carries out one job at a time, says how it went, and calls
//! again at [`Machine::next_wakeup`]. It never works on two attempts at once, never tries again what has ended for good,
//! and never confirms before the session has held.

mod trial;
mod view;
mod words;

use std::time::{Duration, Instant};

use bc_protocol::digest::Sha256;
use bc_protocol::session::Outcome;
use bc_protocol::spec::DaemonSection;

use super::attempt::{Attempt, Ending};
use super::limits::RECORD_RETRY_AFTER;
use super::running::Running;
use super::watchdog::Stage;

pub(crate) use words::{Done, Effect, Input, Job, JobId, Lost, Owner, Recorded, Target, Wakeup};

use trial::{Hold, Trial};
use words::Ended;

/// See the module's card.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    running: Running,
    /// The confirmed binary's digest, where no slot holds it any more and the package's own binary runs.
    lost: Option<Sha256>,
    stable_for: Duration,
    target: Target,
    owner: Owner,
    state: State,
    session: Session,
    /// As the record has it.
    last: Option<Attempt>,
    ended: Ended,
    jobs: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Working(JobId, Job),
    /// A job that must not begin before its time.
    Waiting(Instant, Job),
    /// A job that needs a session: without one, a new binary would not get one either.
    Parked(Job),
    OnTrial(Trial),
    Leaving,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Session {
    Up,
    Down,
}

impl Machine {
    /// The machine of a process that has just started, with what the record says of it.
    pub(crate) fn new(
        running: Running,
        recorded: Recorded,
        stable_for: Duration,
    ) -> (Self, Vec<Effect>) {
        let Recorded { trial, last, lost } = recorded;
        let (state, effects) = match trial {
            Some(facts) => (
                State::OnTrial(Trial {
                    facts,
                    hold: Hold::NoSession,
                    stage: Stage::Started,
                }),
                vec![Effect::Mark(Stage::Started)],
            ),
            None => (State::Idle, vec![]),
        };
        let mut ended = Ended::default();
        // Where a binary was lost, it depends on the target whether what has ended may be tried again.
        if let Some(last) = last
            .as_ref()
            .filter(|last| last.is_final() && lost.is_none())
        {
            ended.remember(last.id().clone());
        }
        let machine = Self {
            running,
            lost,
            stable_for,
            target: Target::Anything,
            owner: Owner::Allows,
            state,
            session: Session::Down,
            last,
            ended,
            jobs: 0,
        };
        (machine, effects)
    }

    /// Decides the next state and what must be done to reach it.
    pub(crate) fn step(&mut self, input: Input, now: Instant) -> Vec<Effect> {
        match input {
            Input::Target(target) => self.on_target(target, now),
            Input::Owner(owner) => self.on_owner(owner, now),
            Input::Welcomed => self.on_welcomed(now),
            Input::Lost(why) => self.on_lost(why),
            Input::Done(job, done) => self.on_done(job, done, now),
            Input::Tick => self.on_tick(now),
        }
    }

    /// When to call again, and why.
    pub(crate) fn next_wakeup(&self) -> Option<(Instant, Wakeup)> {
        match &self.state {
            State::Waiting(until, _) => Some((*until, Wakeup::Retry)),
            State::OnTrial(trial) => match trial.hold {
                Hold::Since(since) => Some((since + self.stable_for, Wakeup::SessionHeld)),
                Hold::ConfirmAgain(at) => Some((at, Wakeup::ConfirmAgain)),
                Hold::NoSession | Hold::Confirming(_) => None,
            },
            State::Idle | State::Working(..) | State::Parked(_) | State::Leaving => None,
        }
    }

    fn on_target(&mut self, target: Target, now: Instant) -> Vec<Effect> {
        if target == self.target {
            return vec![];
        }
        self.target = target;
        self.look_again(now)
    }

    fn on_owner(&mut self, owner: Owner, now: Instant) -> Vec<Effect> {
        if owner == self.owner {
            return vec![];
        }
        self.owner = owner;
        self.look_again(now)
    }

    /// The target, or what the owner says to it, has changed.
    fn look_again(&mut self, now: Instant) -> Vec<Effect> {
        match &self.state {
            State::Idle => self.consider(now),
            // Only what is long is stopped in its middle; the rest looks at the target when it is done.
            State::Working(id, Job::Admit(_) | Job::Download(_)) => {
                let mut effects = vec![Effect::Abandon(*id)];
                effects.extend(self.consider(now));
                effects
            }
            State::Waiting(_, job) | State::Parked(job) => match job {
                // The record's word is still owed.
                Job::Note(_) | Job::Confirm => vec![],
                Job::Admit(_)
                | Job::Download(_)
                | Job::Stage(_)
                | Job::Preflight(_)
                | Job::Activate(_) => self.consider(now),
            },
            State::Working(
                _,
                Job::Stage(_) | Job::Preflight(_) | Job::Activate(_) | Job::Note(_) | Job::Confirm,
            )
            | State::OnTrial(_)
            | State::Leaving => vec![],
        }
    }

    /// Looks at the target anew; whatever went on before is over.
    fn consider(&mut self, now: Instant) -> Vec<Effect> {
        self.state = State::Idle;
        match self.target.clone() {
            Target::Anything => vec![],
            Target::Unreadable { attempt, problem } => {
                let ended_before = |last: &Attempt| *last.id() == attempt && last.is_final();
                if self.ended.contains(&attempt) || self.last.as_ref().is_some_and(ended_before) {
                    return vec![];
                }
                let ending = Ending::new(Outcome::Refused, "malformed", problem);
                self.start(Job::Note(Attempt::begun(attempt, "").ended(ending)))
            }
            Target::Release(section) => self.consider_release(section, now),
        }
    }

    fn consider_release(&mut self, section: DaemonSection, now: Instant) -> Vec<Effect> {
        if self.has_ended(&section) {
            return vec![];
        }
        let attempt = self.attempt_of(&section);
        // What runs already is no work. The attempt still has to be answered.
        if self.runs(&section) {
            let ending = Ending::new(Outcome::Confirmed, "", "it runs already");
            return self.start(Job::Note(attempt.ended(ending)));
        }
        match self.owner {
            Owner::Allows => {}
            // Whatever was begun is begun anew under the same attempt once he lets go.
            Owner::Holds => return vec![],
        }
        if attempt.facts().tries > 0 {
            self.state = State::Waiting(now + attempt.retry_after(), Job::Admit(section));
            return vec![];
        }
        self.start_if_it_can(Job::Admit(section))
    }

    /// Whether the section is of an attempt that is never tried again.
    fn has_ended(&self, section: &DaemonSection) -> bool {
        let is_over = |last: &Attempt| {
            if self.lost == Some(section.sha256) {
                last.is_final_for_repair(section.version.as_str())
            } else {
                last.is_final()
            }
        };
        let last = self.last.as_ref();
        self.ended.contains(&section.attempt)
            || last.is_some_and(|last| *last.id() == section.attempt && is_over(last))
    }

    /// Whether a slot runs it. The package's own binary, which runs where the slots are damaged, is no release, though it
    /// may have the same bytes as one.
    fn runs(&self, section: &DaemonSection) -> bool {
        self.lost.is_none()
            && self.running.version == section.version
            && self.running.digest == section.sha256
    }

    fn attempt_of(&self, section: &DaemonSection) -> Attempt {
        self.last
            .clone()
            .filter(|last| *last.id() == section.attempt && !last.is_final())
            .unwrap_or_else(|| Attempt::begun(section.attempt.clone(), section.version.as_str()))
    }

    fn start(&mut self, job: Job) -> Vec<Effect> {
        self.jobs += 1;
        let id = JobId(self.jobs);
        self.state = State::Working(id, job.clone());
        vec![Effect::Start(id, job)]
    }

    /// Starts a job, or parks one that makes no sense without a session: a trial would have none either, and an attempt
    /// that ends badly in an outage says nothing about its release.
    fn start_if_it_can(&mut self, job: Job) -> Vec<Effect> {
        match (&job, self.session) {
            (Job::Admit(_) | Job::Activate(_), Session::Down) => {
                self.state = State::Parked(job);
                vec![]
            }
            (Job::Admit(_) | Job::Activate(_), Session::Up)
            | (
                Job::Download(_) | Job::Stage(_) | Job::Preflight(_) | Job::Note(_) | Job::Confirm,
                Session::Up | Session::Down,
            ) => self.start(job),
        }
    }

    fn on_done(&mut self, id: JobId, done: Done, now: Instant) -> Vec<Effect> {
        let job = match &self.state {
            State::OnTrial(trial) if trial.hold == Hold::Confirming(id) => {
                return self.on_confirm_done(done, now);
            }
            State::Working(current, job) if *current == id => job.clone(),
            // A job that was abandoned.
            State::Idle
            | State::Working(..)
            | State::Waiting(..)
            | State::Parked(_)
            | State::OnTrial(_)
            | State::Leaving => return vec![],
        };
        match (job, done) {
            (job, Done::Failed(ending)) => self.on_failed(job, ending, now),
            (Job::Note(_), Done::Noted(attempt)) => self.on_noted(attempt, now),
            (Job::Admit(section), Done::ToDownload) => self.go_on(section, Job::Download, now),
            (Job::Admit(section), Done::InPlace) => self.go_on(section, Job::Stage, now),
            (Job::Download(section), Done::Downloaded) => self.go_on(section, Job::Stage, now),
            (Job::Stage(section), Done::Staged) => self.go_on(section, Job::Preflight, now),
            (Job::Preflight(section), Done::Passed) => self.go_on(section, Job::Activate, now),
            // However the trial came into the record, perhaps by a write that seemed to fail: it is what starts next.
            (Job::Activate(_), Done::Activated) | (_, Done::TrialWaits) => {
                self.state = State::Leaving;
                vec![Effect::Leave]
            }
            // An answer that fits no question changes nothing.
            (
                Job::Admit(_)
                | Job::Download(_)
                | Job::Stage(_)
                | Job::Preflight(_)
                | Job::Activate(_)
                | Job::Note(_)
                | Job::Confirm,
                _,
            ) => vec![],
        }
    }

    /// The next job, unless the target has changed meanwhile, or the owner holds his node.
    fn go_on(
        &mut self,
        section: DaemonSection,
        next: fn(DaemonSection) -> Job,
        now: Instant,
    ) -> Vec<Effect> {
        let held = self.owner == Owner::Holds;
        if held || self.target != Target::Release(section.clone()) {
            return self.consider(now);
        }
        self.start_if_it_can(next(section))
    }

    fn on_failed(&mut self, job: Job, ending: Ending, now: Instant) -> Vec<Effect> {
        match job.section() {
            Some(section) => {
                let attempt = self.attempt_of(section).ended(ending);
                self.start(Job::Note(attempt))
            }
            // The record could not be written. The attempt's end is reported when it could.
            None => {
                self.state = State::Waiting(now + RECORD_RETRY_AFTER, job);
                vec![]
            }
        }
    }

    fn on_noted(&mut self, attempt: Attempt, now: Instant) -> Vec<Effect> {
        if attempt.is_final() {
            self.ended.remember(attempt.id().clone());
        }
        self.last = Some(attempt);
        self.consider(now)
    }

    fn on_welcomed(&mut self, now: Instant) -> Vec<Effect> {
        self.session = Session::Up;
        match &mut self.state {
            State::OnTrial(trial) => {
                if matches!(trial.hold, Hold::NoSession | Hold::Since(_)) {
                    trial.hold = Hold::Since(now);
                }
                self.mark(Stage::Welcomed)
            }
            State::Parked(job) => {
                let job = job.clone();
                self.start(job)
            }
            State::Idle | State::Working(..) | State::Waiting(..) | State::Leaving => vec![],
        }
    }

    fn on_tick(&mut self, now: Instant) -> Vec<Effect> {
        match (self.next_wakeup(), self.state.clone()) {
            (Some((at, _)), State::Waiting(_, job)) if at <= now => self.start_if_it_can(job),
            (Some((at, _)), State::OnTrial(trial)) if at <= now => self.confirm(trial),
            (
                Some(_) | None,
                State::Idle
                | State::Working(..)
                | State::Waiting(..)
                | State::Parked(_)
                | State::OnTrial(_)
                | State::Leaving,
            ) => vec![],
        }
    }
}

#[cfg(test)]
mod tests;

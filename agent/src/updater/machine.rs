//! One node's way from a target to a confirmed release.
//!
//! Takes inputs and the time, gives effects. Pure: the caller carries out one job at a time, says how it went, and calls
//! again at [`Machine::next_wakeup`]. It never works on two attempts at once, never tries again what has ended for good,
//! and never confirms before the session has held.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use bc_protocol::id::AttemptId;
use bc_protocol::session::{AttemptFacts, Outcome, Phase, Progress, TrialFacts};
use bc_protocol::spec::{DaemonSection, SpecError};

use super::attempt::{Attempt, Ending};
use super::limits::{CONFIRM_RETRY_AFTER, ENDED_ATTEMPTS_MAX, RECORD_RETRY_AFTER};
use super::running::Running;
use super::watchdog::Stage;

/// What the node is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Whatever runs.
    Anything,
    /// This release.
    Release(DaemonSection),
    /// A section that cannot be read; it is refused under its attempt.
    Unreadable { attempt: AttemptId, problem: String },
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// The newest target; it replaces the one before at once.
    Target(Target),
    /// A Welcome to this process's own Hello.
    Welcomed,
    /// The session is gone, or none came about.
    Lost(Lost),
    /// How a job went.
    Done(JobId, Done),
    /// Time has passed.
    Tick,
}

/// Why there is no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It was closed or broke.
    Closed,
    /// The gateway put the node off: 429, 503 or a Goodbye.
    NotNow,
    /// No gateway could be reached.
    Unreachable,
}

/// A number for each job, so that a late answer is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JobId(u64);

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Begin a job. The one before, if it still runs, is of no interest any more.
    Start(JobId, Job),
    /// Stop the download.
    Abandon(JobId),
    /// Leave a mark for whoever judges the trial.
    Mark(Stage),
    /// Close the session and end: the next start is another binary's.
    Leave,
}

/// One piece of work; each says when it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Judge the section, and find out where its bytes come from.
    Admit(DaemonSection),
    /// Fetch the binary.
    Download(DaemonSection),
    /// Put it into its slot.
    Stage(DaemonSection),
    /// Ask it whether it can run here.
    Preflight(DaemonSection),
    /// Begin its trial.
    Activate(DaemonSection),
    /// Put the attempt into the record.
    Note(Attempt),
    /// End the trial well.
    Confirm,
}

/// How a job went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// The section is good; its bytes have to come from elsewhere.
    ToDownload,
    /// The section is good; the spare slot holds its bytes.
    InPlace,
    Downloaded,
    Staged,
    Passed,
    Activated,
    /// The record now says so.
    Noted(Attempt),
    /// The trial is confirmed, and the record says so.
    Confirmed(Option<Attempt>),
    /// The trial had been ended before.
    NotOnTrial,
    Failed(Ending),
}

/// See the module's card.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    running: Running,
    stable_for: Duration,
    target: Target,
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

#[derive(Clone, Debug, PartialEq, Eq)]
struct Trial {
    facts: TrialFacts,
    hold: Hold,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    NoSession,
    Since(Instant),
    /// The session has held; the record is being written, or written again from this time on.
    Confirming(JobId),
    ConfirmAgain(Instant),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Session {
    Up,
    Down,
}

/// Why the machine wants to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wakeup {
    Retry,
    SessionHeld,
    ConfirmAgain,
}

#[derive(Clone, Debug, Default)]
struct Ended {
    order: VecDeque<AttemptId>,
    ids: BTreeSet<AttemptId>,
}

impl Ended {
    fn remember(&mut self, id: AttemptId) {
        if self.ids.insert(id.clone()) {
            self.order.push_back(id);
        }
        while self.order.len() > ENDED_ATTEMPTS_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.ids.remove(&oldest);
            }
        }
    }
}

impl Machine {
    /// The machine of a process that has just started, with the record's word for its trial and its last attempt. The
    /// trial is this process's own: its digest is the image's.
    pub(crate) fn new(
        running: Running,
        trial: Option<TrialFacts>,
        last: Option<Attempt>,
        stable_for: Duration,
    ) -> (Self, Vec<Effect>) {
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
        if let Some(last) = last.as_ref().filter(|last| last.is_final()) {
            ended.remember(last.id().clone());
        }
        let machine = Self {
            running,
            stable_for,
            target: Target::Anything,
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
        let last = self.last.as_ref();
        match self.job().and_then(section_of) {
            Some(section) if last.is_none_or(|last| *last.id() != section.attempt) => {
                let begun = Attempt::begun(section.attempt.clone(), section.version.as_str());
                Some(begun.facts().clone())
            }
            Some(_) | None => last.map(|last| last.facts().clone()),
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

    fn on_target(&mut self, target: Target, now: Instant) -> Vec<Effect> {
        if target == self.target {
            return vec![];
        }
        self.target = target;
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
                if self.ended.ids.contains(&attempt) {
                    return vec![];
                }
                let ending = Ending::new(Outcome::Refused, "malformed", problem);
                self.start(Job::Note(Attempt::begun(attempt, "").ended(ending)))
            }
            Target::Release(section) => self.consider_release(section, now),
        }
    }

    fn consider_release(&mut self, section: DaemonSection, now: Instant) -> Vec<Effect> {
        if self.ended.ids.contains(&section.attempt) {
            return vec![];
        }
        let attempt = self.attempt_of(&section);
        // What runs already is no work. The attempt still has to be answered.
        if self.running.version == section.version && self.running.digest == section.sha256 {
            let ending = Ending::new(Outcome::Confirmed, "", "it runs already");
            return self.start(Job::Note(attempt.ended(ending)));
        }
        if attempt.facts().tries > 0 {
            self.state = State::Waiting(now + attempt.retry_after(), Job::Admit(section));
            return vec![];
        }
        self.start_with_session(Job::Admit(section))
    }

    fn attempt_of(&self, section: &DaemonSection) -> Attempt {
        self.last
            .clone()
            .filter(|last| *last.id() == section.attempt)
            .unwrap_or_else(|| Attempt::begun(section.attempt.clone(), section.version.as_str()))
    }

    fn start(&mut self, job: Job) -> Vec<Effect> {
        self.jobs += 1;
        let id = JobId(self.jobs);
        self.state = State::Working(id, job.clone());
        vec![Effect::Start(id, job)]
    }

    fn start_with_session(&mut self, job: Job) -> Vec<Effect> {
        match self.session {
            Session::Up => self.start(job),
            Session::Down => {
                self.state = State::Parked(job);
                vec![]
            }
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
            (Job::Activate(_), Done::Activated) => {
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

    /// The next job, unless the target has changed meanwhile.
    fn go_on(
        &mut self,
        section: DaemonSection,
        next: fn(DaemonSection) -> Job,
        now: Instant,
    ) -> Vec<Effect> {
        if self.target != Target::Release(section.clone()) {
            return self.consider(now);
        }
        match next(section) {
            job @ Job::Activate(_) => self.start_with_session(job),
            job => self.start(job),
        }
    }

    fn on_failed(&mut self, job: Job, ending: Ending, now: Instant) -> Vec<Effect> {
        match section_of(&job) {
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

    fn on_lost(&mut self, why: Lost) -> Vec<Effect> {
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
    fn mark(&mut self, stage: Stage) -> Vec<Effect> {
        let State::OnTrial(trial) = &mut self.state else {
            return vec![];
        };
        if trial.stage == stage || trial.stage == Stage::Welcomed {
            return vec![];
        }
        trial.stage = stage;
        vec![Effect::Mark(stage)]
    }

    fn on_tick(&mut self, now: Instant) -> Vec<Effect> {
        match (self.next_wakeup(), self.state.clone()) {
            (Some((at, _)), State::Waiting(_, job)) if at <= now => match job {
                job @ Job::Note(_) => self.start(job),
                job @ (Job::Admit(_)
                | Job::Download(_)
                | Job::Stage(_)
                | Job::Preflight(_)
                | Job::Activate(_)
                | Job::Confirm) => self.start_with_session(job),
            },
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

    fn confirm(&mut self, trial: Trial) -> Vec<Effect> {
        self.jobs += 1;
        let id = JobId(self.jobs);
        self.state = State::OnTrial(Trial {
            hold: Hold::Confirming(id),
            ..trial
        });
        vec![Effect::Start(id, Job::Confirm)]
    }

    fn on_confirm_done(&mut self, done: Done, now: Instant) -> Vec<Effect> {
        match done {
            Done::Confirmed(attempt) => {
                if let Some(attempt) = &attempt {
                    self.ended.remember(attempt.id().clone());
                }
                self.last = attempt.or(self.last.take());
                self.consider(now)
            }
            // Whoever judged the trial was faster: the other slot's binary is to run.
            Done::NotOnTrial => {
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

fn section_of(job: &Job) -> Option<&DaemonSection> {
    match job {
        Job::Admit(section)
        | Job::Download(section)
        | Job::Stage(section)
        | Job::Preflight(section)
        | Job::Activate(section) => Some(section),
        Job::Note(_) | Job::Confirm => None,
    }
}

impl Target {
    /// What a spec asks for; nothing can be answered where not even an attempt is named.
    pub(crate) fn of_error(error: SpecError) -> Option<Self> {
        let problem = error.to_string();
        error
            .attempt
            .map(|attempt| Self::Unreadable { attempt, problem })
    }
}

#[cfg(test)]
mod tests;

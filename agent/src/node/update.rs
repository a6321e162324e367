//! Drives the updater beside a session.
//!
//! Takes specs and what becomes of the session, gives what the node reports about itself. One task holds the machine and
//! carries out its jobs one after the other; whoever holds an [`Updates`] never waits for it.

mod jobs;
mod state;

use std::path::PathBuf;
use std::time::Duration;

use bc_protocol::spec::{DaemonSection, NodeSpec, SpecError};
use bc_protocol::version::Version;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep_until;

use crate::clock;
use crate::http::Web;
use crate::updater::machine::{Effect, Input, Machine, Owner, Recorded, Target};
use crate::updater::operations::Operations;
use crate::updater::record::Record;
use crate::updater::running::Running;
use crate::updater::watchdog::{self, Mark, Stage};

use jobs::{Jobs, Report};
use state::described;

pub(crate) use crate::updater::machine::Lost;
pub(crate) use state::UpdateState;

/// What the updater needs of its node.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// Who writes slots and record.
    pub(crate) operations: Operations,
    /// The image of this process.
    pub(crate) running: Running,
    /// The record as this process found it.
    pub(crate) record: Record,
    /// How a session has to hold before a trial is confirmed.
    pub(crate) stable_for: Duration,
    /// What downloads need.
    pub(crate) web: Web,
    /// The configuration that a new binary has to read.
    pub(crate) config: PathBuf,
    /// The generation of the spec that an earlier process has seen.
    pub(crate) observed_generation: u64,
    /// Why the owner holds the node.
    pub(crate) held: Option<String>,
}

/// A handle to the task that keeps this node up to date. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Updates {
    inbox: watch::Sender<Inbox>,
    state: watch::Receiver<UpdateState>,
    leaving: watch::Receiver<Leaving>,
}

/// What the task has not looked at yet: the newest of each kind is enough, so nothing ever queues.
#[derive(Clone, Debug)]
struct Inbox {
    target: Option<Target>,
    held: Option<String>,
    observed_generation: u64,
    welcomes: u64,
    losses: u64,
    session: Session,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Session {
    Up,
    Down(Lost),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    NotYet,
    Now,
}

impl Updates {
    /// Spawns the task. A process on trial leaves its first mark here: it runs.
    pub(crate) fn start(setting: Setting) -> Self {
        let inbox = Inbox {
            target: None,
            held: setting.held.clone(),
            observed_generation: setting.observed_generation,
            welcomes: 0,
            losses: 0,
            session: Session::Down(Lost::Closed),
        };
        let (inbox, arrivals) = watch::channel(inbox);
        let (leave, leaving) = watch::channel(Leaving::NotYet);
        let (driver, effects, state) = Driver::new(setting, leave);
        tokio::spawn(driver.run(effects, arrivals));
        Self {
            inbox,
            state,
            leaving,
        }
    }

    /// The newest spec; it counts at once. One that cannot be read is refused under the attempt that it names.
    pub(crate) fn spec(&self, spec: Result<NodeSpec, SpecError>) {
        self.inbox.send_modify(|inbox| match spec {
            Ok(spec) => {
                inbox.target = Some(spec.daemon.map_or(Target::Anything, Target::Release));
            }
            Err(error) => {
                tracing::warn!(%error, "a spec cannot be read");
                if let Some(target) = Target::of_error(error) {
                    inbox.target = Some(target);
                }
            }
        });
    }

    /// The spec of that generation is on the disk.
    pub(crate) fn kept(&self, generation: u64) {
        self.inbox
            .send_modify(|inbox| inbox.observed_generation = generation);
    }

    /// The section of a command, for a node that gets no specs. What it has seen of those stays as it is.
    pub(crate) fn upgrade(&self, section: DaemonSection) {
        self.inbox
            .send_modify(|inbox| inbox.target = Some(Target::Release(section)));
    }

    /// Why the owner holds the node now, if he does.
    pub(crate) fn held(&self, held: Option<String>) {
        self.inbox.send_if_modified(|inbox| {
            let changed = inbox.held != held;
            inbox.held = held;
            changed
        });
    }

    /// A Welcome to this process's own Hello, of a normal or of an upgrade-only session.
    pub(crate) fn welcomed(&self) {
        self.inbox.send_modify(|inbox| {
            inbox.welcomes += 1;
            inbox.session = Session::Up;
        });
    }

    /// The session is gone, or none came about.
    pub(crate) fn lost(&self, why: Lost) {
        self.inbox.send_modify(|inbox| {
            inbox.losses += 1;
            inbox.session = Session::Down(why);
        });
    }

    /// Whether there is a session.
    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.inbox.borrow().session, Session::Up)
    }

    /// What to report; it changes when the disk has.
    pub(crate) fn state(&self) -> watch::Receiver<UpdateState> {
        self.state.clone()
    }

    /// Whether the next start is another binary's.
    pub(crate) fn is_leaving(&self) -> bool {
        *self.leaving.borrow() == Leaving::Now
    }

    /// Comes back when the next start is another binary's: say goodbye, close, and end with status 0.
    pub(crate) async fn leave(&self) {
        let mut leaving = self.leaving.clone();
        if leaving.wait_for(|now| *now == Leaving::Now).await.is_err() {
            // The task has died. Only the watchdog can tell what that means.
            std::future::pending::<()>().await;
        }
    }
}

struct Driver {
    machine: Machine,
    jobs: Jobs,
    running: Running,
    record: Record,
    operations: Operations,
    state: watch::Sender<UpdateState>,
    leave: watch::Sender<Leaving>,
    seen: Inbox,
    percent: watch::Receiver<u8>,
    helper: watch::Receiver<Option<Version>>,
    marking: Option<JoinHandle<()>>,
}

impl Driver {
    fn new(
        setting: Setting,
        leave: watch::Sender<Leaving>,
    ) -> (Self, Vec<Effect>, watch::Receiver<UpdateState>) {
        let (progress, percent) = watch::channel(0);
        let Setting {
            operations,
            running,
            record,
            ..
        } = setting.clone();
        let own_trial = record
            .trial()
            .filter(|trial| Some(trial.slot) == running.slot && trial.digest == running.digest)
            .map(|trial| trial.facts());
        let recorded = Recorded {
            trial: own_trial,
            last: operations.last_attempt(&record),
            lost: record.lost(),
        };
        let (mut machine, mut effects) =
            Machine::new(running.clone(), recorded, setting.stable_for);
        let owner = Input::Owner(owner(setting.held.as_ref()));
        effects.extend(machine.step(owner, clock::instant()));
        let seen = Inbox {
            target: None,
            held: setting.held.clone(),
            observed_generation: setting.observed_generation,
            welcomes: 0,
            losses: 0,
            session: Session::Down(Lost::Closed),
        };
        let helper = operations.helper();
        let first = described(&machine, (&running, &record), &seen, (0, None));
        let (state, reports) = watch::channel(first);
        let driver = Self {
            machine,
            jobs: Jobs::new(setting, progress),
            running,
            record,
            operations,
            state,
            leave,
            seen,
            percent,
            helper,
            marking: None,
        };
        (driver, effects, reports)
    }

    async fn run(mut self, effects: Vec<Effect>, mut arrivals: watch::Receiver<Inbox>) {
        self.carry_out(effects);
        loop {
            let wakeup = self.machine.next_wakeup().map(|(at, _)| at.into());
            tokio::select! {
                arrived = arrivals.changed() => {
                    if arrived.is_err() {
                        return;
                    }
                    let inbox = arrivals.borrow_and_update().clone();
                    self.look_at(inbox);
                }
                report = self.jobs.next() => self.take(report),
                Ok(()) = self.percent.changed() => {}
                Ok(()) = self.helper.changed() => {}
                () = wait_until(wakeup) => self.step(Input::Tick),
            }
            self.describe();
        }
    }

    fn look_at(&mut self, inbox: Inbox) {
        let seen = std::mem::replace(&mut self.seen, inbox.clone());
        // A session that came and went unseen still breaks the one before: what has to hold begins anew.
        let welcomed = inbox.welcomes != seen.welcomes;
        if welcomed && seen.session == Session::Up {
            self.step(Input::Lost(Lost::Closed));
        }
        if welcomed {
            self.step(Input::Welcomed);
        }
        if let Session::Down(why) = inbox.session
            && inbox.losses != seen.losses
        {
            self.step(Input::Lost(why));
        }
        if inbox.held != seen.held {
            self.step(Input::Owner(owner(inbox.held.as_ref())));
        }
        if let Some(target) = inbox.target
            && seen.target.as_ref() != Some(&target)
        {
            self.step(Input::Target(target));
        }
    }

    fn take(&mut self, report: Report) {
        if let Some(record) = report.record {
            self.record = record;
        }
        self.step(Input::Done(report.id, report.done));
    }

    fn step(&mut self, input: Input) {
        let effects = self.machine.step(input, clock::instant());
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Start(id, job) => self.jobs.start(id, job),
                Effect::Abandon(id) => self.jobs.abandon(id),
                Effect::Mark(stage) => self.mark(stage),
                Effect::Leave => {
                    self.leave.send_replace(Leaving::Now);
                }
            }
        }
    }

    /// Writes the mark beside the loop, after the one before it.
    fn mark(&mut self, stage: Stage) {
        let Some(trial) = self.machine.trial() else {
            return;
        };
        let mark = Mark {
            attempt: trial.attempt.clone(),
            stage,
        };
        let (paths, before) = (self.operations.paths().clone(), self.marking.take());
        self.marking = Some(tokio::spawn(async move {
            if let Some(before) = before
                && let Err(error) = before.await
            {
                tracing::warn!(%error, "an earlier mark was not written");
            }
            match spawn_blocking(move || watchdog::leave_mark(&paths, &mark)).await {
                Ok(Ok(())) => {}
                // It is worth one word in a report, and no more.
                Ok(Err(error)) => tracing::warn!(%error, "the trial's mark cannot be written"),
                Err(error) => tracing::warn!(%error, "the trial's mark was not written"),
            }
        }));
    }

    fn describe(&mut self) {
        let percent = *self.percent.borrow();
        let helper = self.helper.borrow().clone();
        let now = described(
            &self.machine,
            (&self.running, &self.record),
            &self.seen,
            (percent, helper),
        );
        self.state.send_if_modified(|state| {
            let changed = *state != now;
            *state = now;
            changed
        });
    }
}

fn owner(held: Option<&String>) -> Owner {
    match held {
        Some(_) => Owner::Holds,
        None => Owner::Allows,
    }
}

async fn wait_until(wakeup: Option<tokio::time::Instant>) {
    match wakeup {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

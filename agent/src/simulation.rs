//! A node without a machine, for simulators.
//!
//! Takes what happens to a node and the time, gives what it does on its connection. The session and updater machines,
//! the record, the decision of every boot and the watchdog's verdict are the shipped ones; disk, processes, downloads
//! and the journal of commands are made up here, as small as they can be. Every write of the record is held against what
//! must hold of it. Compiled with the feature `simulation`, never into an agent.

mod commands;
mod disk;
mod jobs;
mod process;
mod words;

use std::time::{Duration, Instant};

use bc_protocol::{
    digest::Sha256,
    id::{AttemptId, CommandId},
    sequence::ReleaseFloor,
    session::Facts,
    version::Version,
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use crate::{
    clock::{self, BootId, BootTime, Monotonic},
    node::session::{Ending, Input},
    updater::{
        attempt::Exit,
        boot::{self, Binary, Guard, Health},
        watchdog::{self, Death, Evidence, Reach},
    },
};

pub use words::{Behaviour, Doing, Happening, Planted, Release, Setting, Violation};

use disk::{Disk, Why};
use process::Process;

/// See the module's card.
#[derive(Debug)]
pub struct SimulatedNode {
    setting: Setting,
    disk: Disk,
    process: Option<Process>,
    starts_at: Option<Duration>,
    /// How often the supervisor has had to wait.
    failures: u32,
    death: Option<Death>,
    began: Instant,
    boots: u64,
    starts: u64,
    random: StdRng,
    held: Option<String>,
    unreachable_since: Option<Duration>,
    downloads: bool,
    violations: Vec<Violation>,
    doings: Vec<Doing>,
}

impl SimulatedNode {
    /// A machine with the package, switched on now.
    pub fn new(setting: Setting, at: Duration) -> Self {
        let package = setting.releases.first().map(|release| release.digest);
        let package = package.unwrap_or_else(|| Sha256::of(b""));
        Self {
            disk: Disk::new(package),
            process: None,
            starts_at: Some(at),
            failures: 0,
            death: None,
            began: clock::instant(),
            boots: 1,
            starts: 0,
            random: StdRng::seed_from_u64(setting.seed),
            held: None,
            unreachable_since: None,
            downloads: true,
            violations: Vec::new(),
            doings: Vec::new(),
            setting,
        }
    }

    /// Lets something happen, and gives what the node does about it.
    pub fn step(&mut self, happening: Happening, at: Duration) -> Vec<Doing> {
        match happening {
            Happening::Tick => self.tick(at),
            Happening::Opened => {
                let input = self.opened();
                self.session(input, at);
            }
            Happening::NotOpened(status) => {
                let ending = match status {
                    Some(status) => Ending::Refused {
                        status,
                        retry_after: None,
                    },
                    None => Ending::Unreachable("down".to_owned()),
                };
                self.session(Input::NotOpened(ending), at);
            }
            Happening::Frame(frame) => self.session(Input::Frame(Ok(*frame)), at),
            Happening::Traffic => self.session(Input::Traffic, at),
            Happening::Closed => {
                self.session(Input::Closed(Ending::Closed("closed".to_owned())), at);
            }
            Happening::Killed => self.dies(Exit::Signal(9), at),
            Happening::PowerCut => self.loses_power(at),
            Happening::Held(reason) => {
                self.held = reason;
                self.owner_spoke(at);
            }
            Happening::Network {
                gateways,
                downloads,
            } => {
                self.downloads = downloads;
                self.unreachable_since = match (gateways, self.unreachable_since) {
                    (true, _) => None,
                    (false, since) => Some(since.unwrap_or(at)),
                };
            }
        }
        self.tell_facts(at);
        std::mem::take(&mut self.doings)
    }

    /// When time alone changes something next.
    pub fn next_wakeup(&self) -> Option<Duration> {
        let Some(process) = &self.process else {
            return self.starts_at;
        };
        let own = process.next_wakeup().map(|at| self.since(at));
        own.into_iter()
            .chain(process.next_due())
            .chain(self.trial_ends_at())
            .min()
    }

    /// What was broken since the last look.
    pub fn violations(&mut self) -> Vec<Violation> {
        std::mem::take(&mut self.violations)
    }

    /// The version of what runs; none while nothing does.
    pub fn runs(&self) -> Option<&Version> {
        self.process
            .as_ref()
            .map(|process| &process.running.version)
    }

    /// Whether what runs has proven itself, and is welcome.
    pub fn is_settled(&self) -> bool {
        let welcomed = self
            .process
            .as_ref()
            .is_some_and(|process| process.welcomed_at.is_some());
        welcomed && self.disk.record.trial().is_none()
    }

    /// The oldest release that it accepts.
    pub fn floor(&self) -> ReleaseFloor {
        self.disk.record.floor()
    }

    /// What it says of itself now; nothing while it does not run.
    pub fn facts(&self) -> Option<Facts> {
        let process = self.process.as_ref()?;
        Some(self.facts_of(process))
    }

    /// The attempt that its spec names.
    pub fn told(&self) -> Option<&AttemptId> {
        self.disk.told()
    }

    /// How often a command had its effect.
    pub fn effects_of(&self, command: &CommandId) -> u32 {
        self.disk.effects.get(command).copied().unwrap_or(0)
    }

    fn tick(&mut self, at: Duration) {
        if self.process.is_none() {
            if self.starts_at.is_some_and(|starts_at| starts_at <= at) {
                self.start(at);
            }
            return;
        }
        if self.trial_ends_at().is_some_and(|ends_at| ends_at <= at) {
            return self.trial_is_over(at);
        }
        if let Some(exit) = self
            .process
            .as_mut()
            .and_then(|process| process.death_due(at))
        {
            return self.dies(exit, at);
        }
        self.finish_job(at);
        self.finish_collecting(at);
        self.wake_machines(at);
    }

    /// What `boot` does before every start.
    fn start(&mut self, at: Duration) {
        self.starts_at = None;
        self.starts = self.starts.saturating_add(1);
        let evidence = Evidence {
            stage: self.disk.stage(),
            death: self.death.take(),
            log: String::new(),
            reach: self.reach(at),
        };
        let before = self.disk.record.clone();
        let health = Health {
            confirmed: self.disk.health(before.confirmed()),
            trial: before
                .trial()
                .map_or(Binary::Intact, |trial| self.disk.health(trial.installed())),
            watchdog: Guard::Armed,
        };
        let length = self.setting.watchdog;
        let mut after = boot::decide(
            before.clone(),
            health,
            &self.boot_time(at),
            length,
            evidence,
        );
        if self.plants(Planted::StartsNotCounted)
            && after.trial().is_some()
            && before.trial().is_some_and(|trial| trial.starts > 0)
        {
            after = before.clone();
        }
        self.disk.clear_stage();
        self.write(after, Why::Boot);
        let chosen = self.disk.record.chosen();
        let broken = self.disk.started(chosen);
        self.note(broken);
        let release = self
            .setting
            .releases
            .iter()
            .find(|release| release.digest == chosen.digest);
        let Some(release) = release.cloned() else {
            return self.note(Some((
                "I1",
                format!("slot {} holds what nobody knows", chosen.slot),
            )));
        };
        self.run(&release, chosen, at);
    }

    /// The process ends; its supervisor starts the next.
    fn dies(&mut self, exit: Exit, at: Duration) {
        let Some(process) = self.process.take() else {
            return;
        };
        if process.has_connection {
            self.doings.push(Doing::HangUp);
        }
        let waits = self
            .disk
            .record
            .trial()
            .is_some_and(|trial| trial.starts == 0);
        let planned = exit == Exit::Status(0);
        if self.disk.record.trial().is_some() && !waits {
            self.death = Some(Death {
                exit,
                log: String::new(),
            });
        }
        self.failures = if planned || at.saturating_sub(process.since) > Duration::from_secs(60) {
            0
        } else {
            self.failures.saturating_add(1)
        };
        let wait = Duration::from_millis(100 << self.failures.min(7));
        self.starts_at = Some(
            at + if waits || planned {
                Duration::ZERO
            } else {
                wait
            },
        );
    }

    fn loses_power(&mut self, at: Duration) {
        if self
            .process
            .take()
            .is_some_and(|process| process.has_connection)
        {
            self.doings.push(Doing::HangUp);
        }
        self.death = None;
        self.boots = self.boots.saturating_add(1);
        let away = Duration::from_millis(self.random.random_range(5_000..40_000));
        self.starts_at = Some(at + away);
    }

    /// What the watchdog does when nobody has confirmed in time.
    fn trial_is_over(&mut self, at: Duration) {
        let evidence = Evidence {
            stage: self.disk.stage(),
            death: None,
            log: String::new(),
            reach: self.reach(at),
        };
        let mut record = self
            .disk
            .record
            .clone()
            .going_back(watchdog::verdict(evidence));
        if self.plants(Planted::FloorForgotten) {
            record = self.disk.without_floor(record);
        }
        self.write(record, Why::Back);
        if self
            .process
            .take()
            .is_some_and(|process| process.has_connection)
        {
            self.doings.push(Doing::HangUp);
        }
        self.failures = 0;
        self.starts_at = Some(at);
    }

    /// When the trial that runs is over.
    fn trial_ends_at(&self) -> Option<Duration> {
        self.process.as_ref().filter(|process| process.is_trial)?;
        let trial = self.disk.record.trial()?;
        let watched = !self.plants(Planted::NoWatchdog);
        watched.then(|| Duration::from_millis(trial.deadline.0))
    }

    fn reach(&self, at: Duration) -> Reach {
        let third = self.setting.watchdog / 3;
        match self.unreachable_since {
            Some(since) if since + third <= at => Reach::None,
            Some(_) | None => Reach::Assumed,
        }
    }

    fn boot_time(&self, at: Duration) -> BootTime {
        BootTime {
            boot: BootId(format!("boot {}", self.boots)),
            now: Monotonic(u64::try_from(at.as_millis()).unwrap_or(u64::MAX)),
        }
    }

    fn write(&mut self, record: crate::updater::record::Record, why: Why) {
        let broken = self.disk.write(record, why);
        self.note(broken);
    }

    fn note(&mut self, broken: Option<(&'static str, String)>) {
        self.violations
            .extend(broken.map(|(promise, what)| Violation { promise, what }));
    }

    fn plants(&self, planted: Planted) -> bool {
        self.setting.planted == Some(planted)
    }

    fn instant(&self, at: Duration) -> Instant {
        self.began + at
    }

    fn since(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.began)
    }
}

//! One process of a made-up node: the two machines, and what drives them.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bc_protocol::{
    command::CommandResult,
    id::{AttemptId, CommandId},
    platform::Platform,
    session::{Facts, ProtocolRange, StartId},
};
use rand::RngExt as _;

use super::{Behaviour, Doing, Planted, Release, SimulatedNode};
use crate::{
    node::session::{Beginning, Input, Leaving, Output, RenewalTimes, Session},
    updater::{
        attempt::Exit,
        machine::{self, Effect, Job, JobId, Lost, Machine, Owner, Recorded, Target},
        record::Installed,
        running::Running,
    },
};

/// Long enough that certificates are somebody else's to prove.
const NEVER: Duration = Duration::from_secs(365 * 86_400);

/// See the module's card.
pub(super) struct Process {
    pub(super) running: Running,
    pub(super) is_trial: bool,
    pub(super) since: Duration,
    pub(super) start: u64,
    pub(super) behaviour: Behaviour,
    /// None in a binary that never connects.
    pub(super) session: Option<Session>,
    /// None in a binary that does nothing.
    pub(super) machine: Option<Machine>,
    pub(super) job: Option<(JobId, Job, Duration)>,
    pub(super) confirm_is_proven: bool,
    pub(super) dies_at: Option<(Duration, Exit)>,
    pub(super) has_connection: bool,
    pub(super) welcomed_at: Option<Duration>,
    pub(super) observed_generation: u64,
    /// Control's clock, less this machine's.
    pub(super) server_ahead_ms: i64,
    pub(super) upgrade: Option<(CommandId, AttemptId)>,
    pub(super) collecting: Option<(CommandId, Duration)>,
    pub(super) restarting: bool,
    pub(super) told: Option<Facts>,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} since {:?}", self.running.version, self.since)
    }
}

impl Process {
    pub(super) fn next_wakeup(&self) -> Option<Instant> {
        let session = self.session.as_ref().and_then(Session::next_wakeup);
        let machine = self.machine.as_ref().and_then(Machine::next_wakeup);
        let session = session.map(|(at, _)| at);
        session.into_iter().chain(machine.map(|(at, _)| at)).min()
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        let job = self.job.as_ref().map(|(_, _, due)| *due);
        let death = self.dies_at.map(|(at, _)| at);
        let collecting = self.collecting.as_ref().map(|(_, due)| *due);
        [job, death, collecting].into_iter().flatten().min()
    }

    pub(super) fn death_due(&mut self, at: Duration) -> Option<Exit> {
        self.dies_at
            .filter(|(dies_at, _)| *dies_at <= at)
            .map(|(_, exit)| exit)
    }
}

impl SimulatedNode {
    /// What `exec` and the first lines of the node do.
    pub(super) fn run(&mut self, release: &Release, chosen: Installed, at: Duration) {
        let running = Running {
            version: release.version.clone(),
            slot: Some(chosen.slot),
            sequence: chosen.sequence,
            digest: chosen.digest,
        };
        let trial = self.disk.record.trial().map(|trial| trial.facts());
        let mut process = self.started(running, release.behaviour, at);
        match release.behaviour {
            Behaviour::ExitsAtOnce => {
                process.dies_at = Some((at + Duration::from_millis(50), Exit::Status(1)));
                self.process = Some(process);
                return;
            }
            Behaviour::Hangs => {
                self.process = Some(process);
                return;
            }
            Behaviour::CrashesLater => {
                let lives = Duration::from_secs(self.random.random_range(60..240));
                process.dies_at = Some((at + lives, Exit::Signal(11)));
            }
            Behaviour::Good
            | Behaviour::NeverConnects
            | Behaviour::CrashesWelcomed
            | Behaviour::OldProtocol
            | Behaviour::FailsPreflight
            | Behaviour::Unsigned => {}
        }
        let stable_for = if self.plants(Planted::ConfirmedAtOnce) {
            Duration::ZERO
        } else {
            self.setting.stable_for
        };
        let forgets = self.plants(Planted::EndedForgotten);
        let recorded = Recorded {
            trial,
            last: self
                .disk
                .record
                .last_attempt()
                .filter(|_| !forgets)
                .cloned(),
            lost: self.disk.record.lost(),
        };
        let (machine, effects) = Machine::new(process.running.clone(), recorded, stable_for);
        process.machine = Some(machine);
        self.process = Some(process);
        self.carry_out(effects, at);
        self.owner_spoke(at);
        self.begin_session(release.behaviour, at);
        self.load_journal();
        if let Some(section) = self.disk.spec.clone().and_then(|spec| spec.daemon) {
            self.update(machine::Input::Target(Target::Release(section)), at);
        }
    }

    fn started(&self, running: Running, behaviour: Behaviour, at: Duration) -> Process {
        Process {
            running,
            is_trial: self.disk.record.trial().is_some(),
            since: at,
            start: self.starts,
            behaviour,
            session: None,
            machine: None,
            job: None,
            confirm_is_proven: false,
            dies_at: None,
            has_connection: false,
            welcomed_at: None,
            observed_generation: self.disk.spec.as_ref().map_or(0, |spec| spec.generation),
            server_ahead_ms: 0,
            upgrade: None,
            collecting: None,
            restarting: false,
            told: None,
        }
    }

    fn begin_session(&mut self, behaviour: Behaviour, at: Duration) {
        let Some(process) = &self.process else { return };
        if behaviour == Behaviour::NeverConnects {
            return;
        }
        let beginning = Beginning {
            gateways: (0..self.setting.gateways)
                .map(|gateway| gateway.to_string())
                .collect(),
            connect_seq: self.disk.connect_seq,
            facts: self.facts_of(process),
            protocols: if behaviour == Behaviour::OldProtocol {
                ProtocolRange { min: 1, max: 1 }
            } else {
                ProtocolRange::CURRENT
            },
            seed: self.random.random(),
        };
        let session = Session::new(beginning, self.instant(at));
        if let Some(process) = &mut self.process {
            process.session = Some(session);
        }
    }

    pub(super) fn opened(&mut self) -> Input {
        let mut commands = Vec::new();
        if let Some(process) = &mut self.process {
            process.has_connection = true;
            commands.extend(process.upgrade.iter().map(|(id, _)| id.clone()));
            commands.extend(process.collecting.iter().map(|(id, _)| id.clone()));
        }
        Input::Opened {
            labels: BTreeMap::from([("cpu.arch".to_owned(), "x86_64".to_owned())]),
            commands,
            renewal: RenewalTimes {
                after: NEVER,
                again: NEVER,
            },
        }
    }

    /// Lets the session machine decide, and does what it says.
    pub(super) fn session(&mut self, input: Input, at: Duration) {
        let now = self.instant(at);
        if let (Input::Closed(_) | Input::NotOpened(_), Some(process)) = (&input, &mut self.process)
        {
            process.has_connection = false;
        }
        let session = self
            .process
            .as_mut()
            .and_then(|process| process.session.as_mut());
        let Some(session) = session else { return };
        for output in session.step(input, now) {
            self.follow(output, at);
        }
    }

    fn follow(&mut self, output: Output, at: Duration) {
        match output {
            Output::Open {
                gateway,
                connect_seq,
            } => {
                self.disk.connect_seq = self.disk.connect_seq.max(connect_seq);
                let gateway = gateway.parse().unwrap_or(0);
                self.doings.push(Doing::Open { gateway });
            }
            Output::Send(frame) => self.doings.push(Doing::Send(Box::new(frame))),
            Output::Ping => self.doings.push(Doing::Ping),
            Output::HangUp => {
                if let Some(process) = &mut self.process {
                    process.has_connection = false;
                }
                self.doings.push(Doing::HangUp);
            }
            Output::Spec(Ok(spec)) => {
                if let Some(process) = &mut self.process {
                    process.observed_generation = spec.generation;
                }
                let target = spec
                    .daemon
                    .clone()
                    .map_or(Target::Anything, Target::Release);
                self.disk.spec = Some(spec);
                self.update(machine::Input::Target(target), at);
            }
            Output::Command(Ok(command)) => self.command(command, at),
            Output::Welcomed { server_time_ms, .. } => self.welcomed(server_time_ms, at),
            Output::Lost { ending, .. } => self.lost(ending.lost(), at),
            Output::Over => self.dies(Exit::Status(0), at),
            // The Goodbye is out: the gateway closes, or patience ends.
            Output::Close
            | Output::AskCertificate
            | Output::Certificate(_)
            | Output::Spec(Err(_))
            | Output::Command(Err(_))
            | Output::Ignored(_) => {}
        }
    }

    fn welcomed(&mut self, server_time_ms: i64, at: Duration) {
        let Some(process) = &mut self.process else {
            return;
        };
        let was_up = process.welcomed_at.replace(at).is_some();
        let own = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
        process.server_ahead_ms = server_time_ms.saturating_sub(own);
        if process.behaviour == Behaviour::CrashesWelcomed {
            process.dies_at = Some((at + Duration::from_millis(200), Exit::Signal(11)));
        }
        if was_up {
            self.update(machine::Input::Lost(Lost::Closed), at);
        }
        self.update(machine::Input::Welcomed, at);
    }

    fn lost(&mut self, why: Lost, at: Duration) {
        if let Some(process) = &mut self.process {
            process.welcomed_at = None;
            process.has_connection = false;
        }
        self.update(machine::Input::Lost(why), at);
    }

    pub(super) fn owner_spoke(&mut self, at: Duration) {
        let owner = match self.held {
            Some(_) => Owner::Holds,
            None => Owner::Allows,
        };
        self.update(machine::Input::Owner(owner), at);
    }

    /// Lets the updater's machine decide, and does what it says.
    pub(super) fn update(&mut self, input: machine::Input, at: Duration) {
        let now = self.instant(at);
        let machine = self
            .process
            .as_mut()
            .and_then(|process| process.machine.as_mut());
        let Some(machine) = machine else { return };
        let effects = machine.step(input, now);
        self.carry_out(effects, at);
    }

    fn carry_out(&mut self, effects: Vec<Effect>, at: Duration) {
        for effect in effects {
            match effect {
                Effect::Start(id, job) => self.begin_job(id, job, at),
                Effect::Abandon(id) => {
                    if let Some(process) = &mut self.process {
                        process.job.take_if(|(running, _, _)| *running == id);
                    }
                }
                Effect::Mark(stage) => {
                    if let Some(trial) = self.disk.record.trial() {
                        let attempt = trial.attempt.clone();
                        self.disk.mark(attempt, stage);
                    }
                }
                Effect::Leave => self.session(Input::Leave(Leaving::Updating), at),
            }
        }
    }

    pub(super) fn wake_machines(&mut self, at: Duration) {
        let now = self.instant(at);
        let is_due = |wakeup: Option<Instant>| wakeup.is_some_and(|due| due <= now);
        let Some(process) = &self.process else { return };
        let session = process.session.as_ref().and_then(Session::next_wakeup);
        let machine = process.machine.as_ref().and_then(Machine::next_wakeup);
        if is_due(session.map(|(due, _)| due)) {
            self.session(Input::Tick, at);
        }
        if is_due(machine.map(|(due, _)| due)) {
            self.update(machine::Input::Tick, at);
        }
    }

    /// Tells the session what the node says of itself, if that has changed.
    pub(super) fn tell_facts(&mut self, at: Duration) {
        let Some(process) = &self.process else { return };
        if process.machine.is_none() {
            return;
        }
        let facts = self.facts_of(process);
        if process.told.as_ref() == Some(&facts) {
            return;
        }
        if let Some(process) = &mut self.process {
            process.told = Some(facts.clone());
        }
        self.upgrade_looked_at(&facts, at);
        self.session(Input::Facts(Box::new(facts)), at);
    }

    pub(super) fn facts_of(&self, process: &Process) -> Facts {
        let record = &self.disk.record;
        let start = StartId::from(
            (u128::from(self.setting.seed) << 64 | u128::from(process.start)).to_be_bytes(),
        );
        let machine = process.machine.as_ref();
        Facts {
            version: process.running.version.clone(),
            platform: amd64(),
            boot_id: self.boots.to_string(),
            slot: process.running.slot,
            sequence: process.running.sequence,
            digest: process.running.digest,
            floor: record.floor(),
            trial: record.trial().map(|trial| trial.facts()),
            last_attempt: machine.and_then(Machine::last_attempt),
            progress: machine.and_then(|machine| machine.progress(0)),
            observed_generation: process.observed_generation,
            held: self.held.clone(),
            notice: None,
            helper: None,
            started: (process.behaviour != Behaviour::OldProtocol).then_some(start),
        }
    }

    /// Sends a command's result, if anybody hears it.
    pub(super) fn answer(&mut self, result: CommandResult, at: Duration) {
        self.session(Input::Result(result), at);
    }
}

fn amd64() -> Platform {
    Platform::from_arch_label("x86_64").unwrap_or_else(Platform::host)
}

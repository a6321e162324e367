//! What a made-up node keeps through power cuts, and what must hold of every write.

use std::collections::BTreeMap;

use bc_protocol::{
    command::CommandResult,
    digest::Sha256,
    id::{AttemptId, CommandId},
    sequence::ReleaseFloor,
    session::{Outcome, Slot},
    spec::NodeSpec,
};

use crate::updater::{
    attempt::{Attempt, Ending},
    boot::Binary,
    limits::{EXCUSED_RETRIES_MAX, TRIAL_STARTS_MAX},
    record::{Installed, Record},
    watchdog::Stage,
};

/// By what the record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Boot,
    Back,
    Begin,
    Note,
    /// By a process that was welcomed, whose session has held, and whose digest is this.
    Proven(Sha256),
    /// By a process of which that cannot be said.
    Unproven,
}

/// A command that was begun.
#[derive(Clone, Debug)]
pub(super) struct Begun {
    pub(super) restart: bool,
    /// The start that began it.
    pub(super) start: u64,
    pub(super) ended: Option<CommandResult>,
}

/// See the module's card.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) record: Record,
    pub(super) slots: BTreeMap<Slot, Sha256>,
    pub(super) spec: Option<NodeSpec>,
    pub(super) connect_seq: u64,
    pub(super) journal: BTreeMap<CommandId, Begun>,
    /// How often commands had their effect, whatever the journal says.
    pub(super) effects: BTreeMap<CommandId, u32>,
    mark: Option<(AttemptId, Stage)>,
    highest: ReleaseFloor,
    /// Starts and ways back of trials, counted by somebody who does not believe the record.
    starts: BTreeMap<(AttemptId, u32), u32>,
    backs: BTreeMap<AttemptId, u32>,
    excused: BTreeMap<AttemptId, u32>,
}

type Broken = Option<(&'static str, String)>;

impl Disk {
    pub(super) fn new(package: Sha256) -> Self {
        let record = Record::seeded(Slot::A, package);
        Self {
            highest: record.floor(),
            record,
            slots: BTreeMap::from([(Slot::A, package)]),
            spec: None,
            connect_seq: 0,
            journal: BTreeMap::new(),
            effects: BTreeMap::new(),
            mark: None,
            starts: BTreeMap::new(),
            backs: BTreeMap::new(),
            excused: BTreeMap::new(),
        }
    }

    /// Writes the record, and tells what is broken by that.
    pub(super) fn write(&mut self, record: Record, why: Why) -> Broken {
        let before = std::mem::replace(&mut self.record, record);
        self.lowered()
            .or_else(|| self.raised(&before, why))
            .or_else(|| self.went_back(&before, why))
            .or_else(|| self.names_what_is_there())
    }

    /// I2
    fn lowered(&mut self) -> Broken {
        let (floor, highest) = (self.record.floor(), self.highest);
        self.highest = highest.raised_to(floor.sequence());
        (floor < highest).then(|| ("I2", format!("the floor fell from {highest} to {floor}")))
    }

    /// I3, I4
    fn raised(&self, before: &Record, why: Why) -> Broken {
        let (floor, was) = (self.record.floor(), before.floor());
        let confirmed = self.record.confirmed();
        if !floor.admits(confirmed.sequence) {
            return Some((
                "I4",
                format!(
                    "sequence {} is confirmed under the floor {floor}",
                    confirmed.sequence
                ),
            ));
        }
        if floor <= was {
            return None;
        }
        let proven = match (why, before.trial()) {
            (Why::Proven(digest), Some(trial)) => {
                digest == trial.digest && trial.sequence == floor.sequence()
            }
            (Why::Proven(_), None)
            | (Why::Boot | Why::Back | Why::Begin | Why::Note | Why::Unproven, _) => false,
        };
        (!proven).then(|| {
            (
                "I3",
                format!("the floor rose from {was} to {floor} by {why:?}"),
            )
        })
    }

    /// I7: one way back for each attempt, unless it says nothing about the release.
    fn went_back(&mut self, before: &Record, why: Why) -> Broken {
        let trial = before.trial()?;
        if self.record.trial().is_some() || matches!(why, Why::Proven(_) | Why::Unproven) {
            return None;
        }
        let outcome = self.record.last_attempt().map(|last| last.facts().outcome);
        let (counter, most) = match outcome {
            Some(Outcome::Environment | Outcome::Cancelled) => {
                (&mut self.excused, EXCUSED_RETRIES_MAX + 1)
            }
            Some(_) | None => (&mut self.backs, 1),
        };
        let backs = counter.entry(trial.attempt.clone()).or_insert(0);
        *backs += 1;
        (*backs > most).then(|| {
            (
                "I7",
                format!(
                    "{} went back {backs} times, last by {outcome:?}",
                    trial.attempt
                ),
            )
        })
    }

    /// I1
    fn names_what_is_there(&self) -> Broken {
        let trial = self
            .record
            .trial()
            .map(crate::updater::record::Trial::installed);
        let named = [Some(self.record.confirmed()), trial];
        let missing = named
            .into_iter()
            .flatten()
            .find(|named| self.health(*named) == Binary::Damaged)?;
        Some((
            "I1",
            format!("slot {} does not hold {}", missing.slot, missing.digest),
        ))
    }

    /// Counts a start of what was chosen. I4, I7
    pub(super) fn started(&mut self, chosen: Installed) -> Broken {
        if !self.record.floor().admits(chosen.sequence) {
            return Some((
                "I4",
                format!("sequence {} starts under the floor", chosen.sequence),
            ));
        }
        let trial = self.record.trial()?;
        let backs =
            |counter: &BTreeMap<AttemptId, u32>| counter.get(&trial.attempt).copied().unwrap_or(0);
        let number = backs(&self.backs) + backs(&self.excused);
        let starts = self
            .starts
            .entry((trial.attempt.clone(), number))
            .or_insert(0);
        *starts += 1;
        (*starts > TRIAL_STARTS_MAX + 1).then(|| {
            (
                "I7",
                format!("{} was started {starts} times", trial.attempt),
            )
        })
    }

    /// Puts a binary into a slot. I5
    pub(super) fn put(&mut self, slot: Slot, digest: Sha256) -> Broken {
        self.slots.insert(slot, digest);
        let trial = self.record.trial().map(|trial| trial.slot);
        let named = slot == self.record.confirmed().slot || Some(slot) == trial;
        (named && self.record.confirmed().digest != digest).then(|| {
            (
                "I5",
                format!("slot {slot} is written, and the record names it"),
            )
        })
    }

    pub(super) fn health(&self, named: Installed) -> Binary {
        match self.slots.get(&named.slot) {
            Some(digest) if *digest == named.digest => Binary::Intact,
            Some(_) | None => Binary::Damaged,
        }
    }

    pub(super) fn told(&self) -> Option<&AttemptId> {
        let section = self.spec.as_ref()?.daemon.as_ref()?;
        Some(&section.attempt)
    }

    pub(super) fn mark(&mut self, attempt: AttemptId, stage: Stage) {
        self.mark = Some((attempt, stage));
    }

    pub(super) fn clear_stage(&mut self) {
        self.mark = None;
    }

    /// How far the trial came, by its own account.
    pub(super) fn stage_of(&self, attempt: &AttemptId) -> Option<Stage> {
        let (marked, stage) = self.mark.as_ref()?;
        (marked == attempt).then_some(*stage)
    }

    pub(super) fn stage(&self) -> Option<Stage> {
        self.record
            .trial()
            .and_then(|trial| self.stage_of(&trial.attempt))
    }

    /// A mistake: the same record with no floor to speak of.
    pub(super) fn without_floor(&self, record: Record) -> Record {
        match record.last_attempt() {
            Some(last) => Record::seeded(record.confirmed().slot, record.confirmed().digest)
                .noting(last.clone())
                .unwrap_or(record),
            None => record,
        }
    }

    /// A mistake: the record of an attempt that is begun anew, however it ended.
    pub(super) fn begun_anew(record: Record, attempt: &AttemptId, target: &str) -> Record {
        let ending = Ending::new(Outcome::Environment, "", "");
        let fresh = Attempt::begun(attempt.clone(), target).ended(ending);
        record.clone().noting(fresh).unwrap_or(record)
    }
}

//! The record: which binary runs, which is on trial, and how the last attempt stands.
//!
//! Takes what happened, gives the record after it. Pure: [`store`] keeps it on the disk. The floor has no setter, and a
//! trial ends by being confirmed or by going back, each in one step.

mod file;
mod store;
#[cfg(any(test, feature = "faults"))]
pub(crate) mod strangers;

use std::collections::BTreeMap;

use bc_protocol::digest::Sha256;
use bc_protocol::id::AttemptId;
use bc_protocol::sequence::{ReleaseFloor, Sequence};
use bc_protocol::session::{Outcome, Slot, TrialFacts};
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

use super::attempt::{Attempt, Ending};
use crate::clock::{BootId, BootTime, Monotonic};
use crate::faults::{Fault, planted};

pub(crate) use store::{Found, Locked, Store, StoreError};

/// A node's record. Its format grows only by fields that an older reader may ignore, and hands on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    floor: ReleaseFloor,
    confirmed: Installed,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trial: Option<Trial>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::attempt::lenient"
    )]
    last_attempt: Option<Attempt>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "known_notice"
    )]
    notice: Option<Notice>,
    /// What a newer agent wrote: kept, so that an older one in between loses nothing.
    #[serde(flatten)]
    unknown: BTreeMap<String, serde_json::Value>,
}

/// A binary in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Installed {
    pub(crate) slot: Slot,
    pub(crate) sequence: Sequence,
    pub(crate) digest: Sha256,
}

/// A binary that has not proven itself yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Trial {
    pub(crate) slot: Slot,
    pub(crate) sequence: Sequence,
    pub(crate) digest: Sha256,
    pub(crate) attempt: AttemptId,
    /// How often it was started; counted before it gets control.
    pub(crate) starts: u32,
    /// The boot in which the deadline means something.
    pub(crate) boot_id: BootId,
    /// When the trial is over, on that boot's monotonic clock.
    pub(crate) deadline: Monotonic,
}

/// Something that its owner should know about a node that runs nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Notice {
    /// Both copies of the record were lost, and it was made anew from what the slots hold.
    Recovered,
    /// No slot holds a binary that may run: the package's own one does.
    Rescue,
}

impl Notice {
    /// Its word in JSON and reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Recovered => "recovered",
            Self::Rescue => "rescue",
        }
    }
}

/// Why a trial cannot be what was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum TransitionError {
    #[error("expected no trial, found one in slot {slot}")]
    OnTrial { slot: Slot },
    #[error("expected slot {spare}, which does not run, found slot {slot}")]
    RunningSlot { slot: Slot, spare: Slot },
    #[error("expected a sequence of at least the floor, which is {floor}, found {found}")]
    BelowFloor {
        floor: ReleaseFloor,
        found: Sequence,
    },
    #[error("expected the digest on trial, found {found}")]
    NotOnTrial { found: Sha256 },
    #[error("expected an attempt that goes on, found {id}, which has ended")]
    Ended { id: AttemptId },
}

impl Record {
    /// The record of a new machine: it runs what came with the package.
    pub(crate) fn seeded(slot: Slot, digest: Sha256) -> Self {
        let sequence = Sequence::PACKAGED;
        Self::of(Installed {
            slot,
            sequence,
            digest,
        })
    }

    /// The record made anew after both copies were lost: what the slots prove is all that is left.
    pub(crate) fn recovered(installed: Installed) -> Self {
        Self::of(installed).with_notice(Some(Notice::Recovered))
    }

    fn of(confirmed: Installed) -> Self {
        Self {
            floor: ReleaseFloor::NONE.raised_to(confirmed.sequence),
            confirmed,
            trial: None,
            last_attempt: None,
            notice: None,
            unknown: BTreeMap::new(),
        }
    }

    pub(crate) fn floor(&self) -> ReleaseFloor {
        self.floor
    }

    pub(crate) fn confirmed(&self) -> Installed {
        self.confirmed
    }

    pub(crate) fn trial(&self) -> Option<&Trial> {
        self.trial.as_ref()
    }

    pub(crate) fn last_attempt(&self) -> Option<&Attempt> {
        self.last_attempt.as_ref()
    }

    pub(crate) fn notice(&self) -> Option<Notice> {
        self.notice
    }

    /// The digest of the confirmed binary, where no slot holds it any more. A release that has it may be brought back
    /// under an attempt that has ended.
    pub(crate) fn lost(&self) -> Option<Sha256> {
        match self.notice {
            Some(Notice::Rescue) => Some(self.confirmed.digest),
            Some(Notice::Recovered) | None => None,
        }
    }

    /// The record with the package's binary, which has that digest, in the spare slot, and that slot. None where nothing
    /// is lost, or where that binary is neither what was confirmed nor as good as any.
    pub(crate) fn mended(self, package: Sha256) -> Option<(Slot, Self)> {
        let (lost, slot) = (self.lost()?, self.spare()?);
        let sequence = if package == lost {
            self.confirmed.sequence
        } else {
            Sequence::PACKAGED
        };
        self.floor.admits(sequence).then_some(())?;
        let confirmed = Installed {
            slot,
            sequence,
            digest: package,
        };
        let record = Self {
            confirmed,
            notice: None,
            ..self
        };
        Some((slot, record))
    }

    /// The slot to start.
    pub(crate) fn chosen(&self) -> Installed {
        self.trial.as_ref().map_or(self.confirmed, Trial::installed)
    }

    /// The slot that may be written; none during a trial, when the record names both.
    pub(crate) fn spare(&self) -> Option<Slot> {
        match self.trial {
            Some(_) => None,
            None => Some(self.confirmed.slot.other()),
        }
    }

    pub(crate) fn with_notice(self, notice: Option<Notice>) -> Self {
        Self { notice, ..self }
    }

    /// The record with `attempt` as the last one. During a trial that is the trial's own.
    pub(crate) fn noting(self, attempt: Attempt) -> Result<Self, TransitionError> {
        if let Some(trial) = &self.trial {
            return Err(TransitionError::OnTrial { slot: trial.slot });
        }
        Ok(Self {
            last_attempt: Some(attempt),
            ..self
        })
    }

    /// The record with a trial. The attempt's target is the version to show.
    pub(crate) fn trying(self, trial: Trial, target: &str) -> Result<Self, TransitionError> {
        if let Some(running) = &self.trial {
            return Err(TransitionError::OnTrial { slot: running.slot });
        }
        let spare = self.confirmed.slot.other();
        if trial.slot != spare {
            let slot = trial.slot;
            return Err(TransitionError::RunningSlot { slot, spare });
        }
        if !self.floor.admits(trial.sequence) {
            return Err(TransitionError::BelowFloor {
                floor: self.floor,
                found: trial.sequence,
            });
        }
        let is_repair = self.lost() == Some(trial.digest);
        let attempt = match self.last_attempt {
            Some(last) if *last.id() == trial.attempt && !last.is_final() => last.running(),
            Some(last)
                if *last.id() == trial.attempt
                    && (!is_repair || last.is_final_for_repair(target)) =>
            {
                return Err(TransitionError::Ended { id: trial.attempt });
            }
            Some(_) | None => Attempt::begun(trial.attempt.clone(), target),
        };
        let floor = if planted(Fault::FloorBeforeWelcome) {
            self.floor.raised_to(trial.sequence)
        } else {
            self.floor
        };
        Ok(Self {
            floor,
            trial: Some(trial),
            last_attempt: Some(attempt),
            ..self
        })
    }

    /// The record with one more start of the trial. Under another boot the deadline starts anew.
    pub(crate) fn counting_a_start(self, at: &BootTime, length: std::time::Duration) -> Self {
        let trial = self.trial.map(|trial| {
            let same_boot = trial.boot_id == at.boot;
            Trial {
                starts: trial.starts.saturating_add(1),
                deadline: if same_boot {
                    trial.deadline
                } else {
                    at.now.after(length)
                },
                boot_id: at.boot.clone(),
                ..trial
            }
        });
        Self { trial, ..self }
    }

    /// The record after the binary of that digest proved itself: its slot is confirmed, the floor rises to it, and there
    /// is no trial. What is confirmed already stays so.
    pub(crate) fn confirming(self, digest: Sha256) -> Result<Self, TransitionError> {
        match self.trial {
            Some(trial) if trial.digest == digest || planted(Fault::ConfirmAny) => {
                let message = "welcomed, and the session held";
                let ending = Ending::new(Outcome::Confirmed, "", message);
                Ok(Self {
                    floor: self.floor.raised_to(trial.sequence),
                    confirmed: trial.installed(),
                    trial: None,
                    last_attempt: self.last_attempt.map(|attempt| attempt.ended(ending)),
                    notice: None,
                    unknown: self.unknown,
                })
            }
            None if self.confirmed.digest == digest => Ok(self),
            Some(_) | None => Err(TransitionError::NotOnTrial { found: digest }),
        }
    }

    /// The record with the floor raised to the trial, which goes on: never right.
    pub(crate) fn raised_too_early(self) -> Self {
        let floor = self.floor.raised_to(self.chosen().sequence);
        Self { floor, ..self }
    }

    /// The record after going back: the confirmed slot runs, and the attempt says why. Without a trial nothing changes.
    pub(crate) fn going_back(self, ending: Ending) -> Self {
        if self.trial.is_none() {
            return self;
        }
        let floor = if planted(Fault::FloorForgotten) {
            ReleaseFloor::NONE
        } else {
            self.floor
        };
        Self {
            floor,
            trial: None,
            last_attempt: self.last_attempt.map(|attempt| attempt.ended(ending)),
            ..self
        }
    }

    /// Whether it can be true. A record that cannot is not believed, whatever its checksum.
    fn is_sound(&self) -> bool {
        let trial_is_sound = self.trial.as_ref().is_none_or(|trial| {
            trial.slot != self.confirmed.slot
                && self
                    .last_attempt
                    .as_ref()
                    .is_some_and(|attempt| *attempt.id() == trial.attempt)
        });
        trial_is_sound && self.floor.admits(self.confirmed.sequence)
    }
}

impl Trial {
    pub(crate) fn installed(&self) -> Installed {
        Installed {
            slot: self.slot,
            sequence: self.sequence,
            digest: self.digest,
        }
    }

    /// Whether its time has run out. Under another boot it has not: the next start begins it anew.
    pub(crate) fn is_overdue(&self, at: &BootTime) -> bool {
        self.boot_id == at.boot && self.deadline <= at.now
    }

    pub(crate) fn facts(&self) -> TrialFacts {
        TrialFacts {
            slot: self.slot,
            sequence: self.sequence,
            digest: self.digest,
            attempt: self.attempt.clone(),
            starts: self.starts,
        }
    }
}

/// A notice of a newer agent is none to an older one.
fn known_notice<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Notice>, D::Error> {
    let written = serde_json::Value::deserialize(deserializer)?;
    Ok(Notice::deserialize(&written).ok())
}

#[cfg(test)]
mod tests;

//! What needs the right to write slots and record: status, stage, activate, confirm, cancel.
//!
//! Takes what a node asks for, and trusts none of it: every operation reads the record under its lock and judges the
//! manifest under this host's own pins. Plain functions without session or runtime, so that another process can serve
//! them as they are.

mod receive;
mod stage;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bc_protocol::digest::Sha256;
use bc_protocol::id::AttemptId;
use bc_protocol::platform::Platform;
use bc_protocol::release::sign::Unjudged;
use bc_protocol::release::{Artifact, Trust, VerifiedManifest, verify, verify_installed};
use bc_protocol::session::{Outcome, Slot};
use bc_protocol::spec::DaemonSection;
use bc_protocol::time::Timestamp;
use thiserror::Error;

use super::attempt::{Attempt, Ending};
use super::record::{Found, Installed, Record, Store, StoreError, TransitionError};
use super::refusal::{self, Refused};
use super::watchdog::{self, NotArmed};
use crate::clock::{self, ClockError};
use crate::config::Config;
use crate::faults::{Fault, planted};
use crate::paths::Paths;
use crate::slots::files::Slots;

pub(crate) use stage::Staged;

/// The program whose releases a node installs.
pub(crate) const PRODUCT: &str = "bcd";

/// One node's record and slots, and whom it believes.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    paths: Paths,
    trust: Trust,
    deadline: Duration,
    watchdog_unit: String,
    platform: Platform,
    store: Store,
    slots: Slots,
}

/// A release that may be installed, judged before anything is downloaded.
#[derive(Clone, Debug)]
pub(crate) struct Admitted {
    /// Bytes of the binary.
    pub(crate) size: u64,
    /// Its digest.
    pub(crate) digest: Sha256,
    /// Where its bytes come from.
    pub(crate) source: Source,
    slot: Slot,
    manifest: VerifiedManifest,
    /// What was confirmed then, and the time that counted.
    confirmed: Installed,
    judged_at: Timestamp,
}

/// Where a binary's bytes come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// They have to be downloaded, to this file.
    Download(PathBuf),
    /// The spare slot holds them already.
    InPlace,
}

/// Why an operation was not carried out.
#[derive(Debug, Error)]
pub(crate) enum HostError {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error(transparent)]
    Transition(#[from] TransitionError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Clock(#[from] ClockError),
    #[error("expected to {doing}, found that it cannot be done")]
    Files {
        doing: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("expected a watchdog that would go back if need be, found none")]
    NoWatchdog(#[source] NotArmed),
    #[error("expected the binary in slot {slot} to be the one that was staged, found another")]
    Changed { slot: Slot },
}

impl HostError {
    /// How an attempt that met this ends.
    pub(crate) fn ending(&self) -> Ending {
        let (outcome, code) = match self {
            Self::Refused(refused) => (Outcome::Refused, refused.code()),
            Self::Transition(_) => (Outcome::Failed, "record"),
            Self::Store(_) => (Outcome::Failed, "record"),
            Self::Clock(_) => (Outcome::Failed, "clock"),
            Self::Files { .. } => (Outcome::Failed, "disk"),
            Self::NoWatchdog(_) => (Outcome::Failed, "watchdog"),
            Self::Changed { .. } => (Outcome::Failed, "disk"),
        };
        Ending::new(outcome, code, with_causes(self))
    }
}

/// An error and its causes on one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        said.push_str(": ");
        said.push_str(&error.to_string());
        cause = error.source();
    }
    said
}

pub(super) fn while_trying(doing: &'static str) -> impl Fn(io::Error) -> HostError {
    move |source| HostError::Files { doing, source }
}

impl Host {
    pub(crate) fn new(paths: Paths, config: &Config) -> Self {
        Self {
            trust: config.update.trust.clone(),
            deadline: config.update.watchdog_deadline,
            watchdog_unit: config.node.watchdog_unit.clone(),
            platform: Platform::host(),
            store: Store::new(paths.clone()),
            slots: Slots::new(paths.clone()),
            paths,
        }
    }

    pub(crate) fn paths(&self) -> &Paths {
        &self.paths
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    pub(crate) fn trust(&self) -> &Trust {
        &self.trust
    }

    pub(crate) fn platform(&self) -> &Platform {
        &self.platform
    }

    /// Sees to it that somebody would go back, before a trial begins or goes on.
    pub(super) fn arm(&self) -> Result<(), NotArmed> {
        if planted(Fault::NoWatchdog) {
            return Ok(());
        }
        watchdog::arm(&self.paths, &self.watchdog_unit)
    }

    /// How long a trial may take.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// The record as it is now.
    pub(crate) fn status(&self) -> Result<Record, HostError> {
        match self.store.read() {
            Found::Record(record) => Ok(*record),
            Found::Nothing | Found::Unreadable => Err(StoreError::NoRecord.into()),
        }
    }

    /// Judges a section before anything is downloaded for it.
    pub(crate) fn admit(&self, section: &DaemonSection) -> Result<Admitted, HostError> {
        self.admit_to(section, |slot| self.slots.partial(slot))
    }

    /// As [`Self::admit`], with another place for the download: nothing is written here.
    pub(crate) fn admit_to(
        &self,
        section: &DaemonSection,
        place: impl FnOnce(Slot) -> io::Result<PathBuf>,
    ) -> Result<Admitted, HostError> {
        let record = self.status()?;
        let slot = match planted(Fault::WrongSlot) {
            true => record.confirmed().slot,
            false => spare_of(&record)?,
        };
        let now = self.judging_time(&record);
        let manifest =
            verify(&section.signature, &self.trust, PRODUCT, now).map_err(Refused::from)?;
        let artifact = refusal::admit(section, &manifest, &record, &self.platform)?;
        let (size, digest) = (artifact.size(), artifact.sha256());
        let held = self.slots.has_size(slot, size)
            && !self.is_known_to_hold_another(slot, digest)
            && self.slots.holds(slot, digest);
        let source = if held {
            Source::InPlace
        } else {
            Source::Download(place(slot).map_err(while_trying("make room for the download"))?)
        };
        Ok(Admitted {
            size,
            digest,
            source,
            slot,
            manifest,
            confirmed: record.confirmed(),
            judged_at: now,
        })
    }

    /// Ends the trial well. Only the digest that is on trial can be confirmed; what is confirmed already stays so.
    pub(crate) fn confirm(&self, digest: Sha256) -> Result<Record, HostError> {
        let locked = self.store.lock()?;
        let record = locked.record()?;
        let was_on_trial = record.trial().is_some();
        let early = planted(Fault::ConfirmInTwo).then(|| record.clone().raised_too_early());
        let record = record.confirming(digest)?;
        if let Some(early) = early {
            locked.write(&early)?;
        }
        if was_on_trial {
            locked.write(&record)?;
        }
        Ok(record)
    }

    /// Ends the trial of `attempt` by going back; without such a trial nothing changes.
    pub(crate) fn cancel(&self, attempt: &AttemptId, ending: Ending) -> Result<Record, HostError> {
        let locked = self.store.lock()?;
        let record = locked.record()?;
        if record.trial().is_none_or(|trial| trial.attempt != *attempt) {
            return Ok(record);
        }
        let record = record.going_back(ending);
        locked.write(&record)?;
        Ok(record)
    }

    /// Keeps how an attempt stands that has no trial.
    pub(crate) fn note(&self, attempt: Attempt) -> Result<Record, HostError> {
        let locked = self.store.lock()?;
        let record = locked.record()?.noting(attempt)?;
        locked.write(&record)?;
        Ok(record)
    }

    /// Whether the slot's manifest claims that its binary is another one. It is asked only where it was written after that
    /// binary got its name, and its word costs a download at worst: reading a large binary to find that out takes longer.
    fn is_known_to_hold_another(&self, slot: Slot, digest: Sha256) -> bool {
        let published = self.slots.published_since(slot).unwrap_or_default();
        Unjudged::open(&published)
            .ok()
            .and_then(|claimed| Some(claimed.manifest().artifact_for(&self.platform)?.sha256()))
            .is_some_and(|claimed| claimed != digest)
    }

    /// What this machine is to run of a release that was admitted.
    fn artifact<'a>(&self, admitted: &'a Admitted) -> Result<&'a Artifact, Refused> {
        let artifact = admitted.manifest.artifact_for(&self.platform);
        artifact.ok_or_else(|| Refused::Platform {
            platform: self.platform.clone(),
        })
    }

    /// The time that decides whether a manifest has expired: a clock that was set back must not make an old one valid.
    fn judging_time(&self, record: &Record) -> Timestamp {
        let wall = clock::wall();
        let published = self.slots.published(record.confirmed().slot);
        let published = published.unwrap_or_default();
        // Signatures take time to check, and only a manifest that is from the future can have a say.
        if Unjudged::open(&published).is_ok_and(|claimed| claimed.manifest().issued_at() <= wall) {
            return wall;
        }
        verify_installed(&published, &self.trust, PRODUCT)
            .map_or(wall, |manifest| manifest.issued_at().max(wall))
    }
}

fn spare_of(record: &Record) -> Result<Slot, TransitionError> {
    match (record.spare(), record.trial()) {
        (Some(slot), _) => Ok(slot),
        (None, trial) => Err(TransitionError::OnTrial {
            slot: trial.map_or(record.confirmed().slot, |trial| trial.slot),
        }),
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! Carries out what [`super::boot`] decides, before every start of the node.
//!
//! Takes the host and what is known of the last start, gives the record to run by, which is on the disk by then. Makes
//! the record of a new machine, and makes a lost one anew from what the slots prove.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use bc_protocol::release::verify_installed;
use bc_protocol::session::Slot;
use thiserror::Error;

use super::boot::{self, Binary, Guard, Health};
use super::host::{Host, PRODUCT, with_causes};
use super::record::{Found, Installed, Locked, Notice, Record, StoreError};
use super::watchdog::{self, Evidence};
use crate::clock::{self, ClockError};
use crate::content::content_of;
use crate::durable;
use crate::faults::{Fault, planted};

/// Where the package's binary goes on a new machine.
const SEEDED: Slot = Slot::A;

/// Why nothing can start.
#[derive(Debug, Error)]
pub(crate) enum BootError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Clock(#[from] ClockError),
    #[error("expected to make {path}, found that it cannot be made", path = path.display())]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("expected to read {package}, found that it cannot be read", package = package.display())]
    Package {
        package: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("expected to copy {package} into a slot, found that it cannot be done", package = package.display())]
    Seed {
        package: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Decides what starts, and makes that the record. A start of a trial is on the disk when this comes back.
pub(crate) fn boot(host: &Host, package: &Path, evidence: Evidence) -> Result<Record, BootError> {
    // A healthy binary starts even where the other slot's folder cannot be made: what needs the folder says so itself.
    if let Err(error) = create_folders(host) {
        tracing::error!(error = %with_causes(&error), "a folder is missing");
    }
    let locked = host.store().lock()?;
    let record = match locked.read() {
        Found::Record(record) => decide((host, package), &locked, *record, evidence)?,
        Found::Nothing if !any_release(host) => seed(host, &locked, package)?,
        Found::Nothing | Found::Unreadable => recover(host, &locked, package)?,
    };
    if let Err(error) = host.slots().point_current(record.chosen().slot) {
        tracing::warn!(%error, "the link to the current slot cannot be set");
    }
    Ok(record)
}

fn create_folders(host: &Host) -> Result<(), BootError> {
    let paths = host.paths();
    for (path, mode) in [(paths.root().to_owned(), 0o755), (paths.state(), 0o700)] {
        durable::create_folder(&path, mode).map_err(|source| BootError::Folder { path, source })?;
    }
    let path = paths.root().to_owned();
    host.slots()
        .create()
        .map_err(|source| BootError::Folder { path, source })
}

fn decide(
    (host, package): (&Host, &Path),
    locked: &Locked<'_>,
    record: Record,
    evidence: Evidence,
) -> Result<Record, BootError> {
    let at = clock::boot_time()?;
    let marked = record
        .trial()
        .and_then(|trial| watchdog::read_stage(host.paths(), &trial.attempt));
    let evidence = Evidence {
        stage: evidence.stage.or(marked),
        ..evidence
    };
    let health = Health {
        confirmed: health_of_confirmed(host, record.confirmed()),
        trial: record
            .trial()
            .map_or(Binary::Damaged, |trial| health_of(host, trial.installed())),
        watchdog: record.trial().map_or(Guard::Missing, |_| guard(host)),
    };
    let decided = boot::decide(record.clone(), health, &at, host.deadline(), evidence);
    let decided = match decided.lost() {
        Some(_) => mended(host, package, decided),
        None => decided,
    };
    // Without a trial nothing is written: a node starts on a full or read-only disk too.
    if decided != record {
        locked.write(&decided)?;
    }
    report(&record, &decided);
    if decided.trial().is_some()
        && let Err(error) = watchdog::clear_mark(host.paths())
    {
        tracing::warn!(%error, "an earlier trial's mark cannot be removed");
    }
    Ok(decided)
}

/// What can be mended without anybody's help: the binary that was lost came with the package, or no release was ever
/// confirmed here and the package's own is as good as on a new machine. It goes into the spare slot.
fn mended(host: &Host, package: &Path, rescued: Record) -> Record {
    let mended = |package: &Path| -> io::Result<Option<Record>> {
        let mut binary = File::open(package)?;
        let found = content_of(&mut binary)?.digest;
        let Some((slot, record)) = rescued.clone().mended(found) else {
            return Ok(None);
        };
        let written = host.slots().install_copy(slot, &binary)?;
        // The manifest lies beside what is damaged; without it the slot proves nothing once the record is lost too.
        if let Some(published) = host.slots().published(rescued.confirmed().slot) {
            host.slots().keep_published(slot, &published)?;
        }
        Ok((written == found).then_some(record))
    };
    match mended(package) {
        Ok(Some(record)) => {
            tracing::warn!(slot = %record.confirmed().slot, "both slots were damaged: the package's binary is in one again");
            record
        }
        Ok(None) => rescued,
        Err(error) => {
            tracing::warn!(%error, "the package's binary cannot be put into a slot");
            rescued
        }
    }
}

fn guard(host: &Host) -> Guard {
    match host.arm() {
        Ok(()) => Guard::Armed,
        Err(error) => {
            tracing::error!(error = %with_causes(&error), "nobody watches over the trial");
            Guard::Missing
        }
    }
}

fn health_of(host: &Host, installed: Installed) -> Binary {
    if host.slots().holds(installed.slot, installed.digest) || planted(Fault::BlindBoot) {
        Binary::Intact
    } else {
        Binary::Damaged
    }
}

/// As [`health_of`], for what was confirmed: it could be executed once. One on trial that cannot be has failed.
fn health_of_confirmed(host: &Host, confirmed: Installed) -> Binary {
    match health_of(host, confirmed) {
        Binary::Damaged => Binary::Damaged,
        Binary::Intact => match host.slots().mend_mode(confirmed.slot) {
            Ok(()) => Binary::Intact,
            Err(error) => {
                tracing::error!(slot = %confirmed.slot, %error, "the confirmed binary cannot be executed");
                Binary::Damaged
            }
        },
    }
}

fn report(before: &Record, after: &Record) {
    if let (Some(trial), None, Some(attempt)) =
        (before.trial(), after.trial(), after.last_attempt())
    {
        let facts = attempt.facts();
        tracing::warn!(
            attempt = %facts.id, slot = %trial.slot, outcome = facts.outcome.name(), reason = %facts.message,
            "going back: the trial is over"
        );
    }
    if after.notice() == Some(Notice::Rescue) {
        tracing::error!(
            "no slot holds a binary that may run: the package's own one does, for an upgrade"
        );
    }
    if let Some(trial) = after.trial() {
        tracing::info!(attempt = %trial.attempt, slot = %trial.slot, start = trial.starts, "starting the binary on trial");
    }
}

/// A new machine runs what came with the package.
fn seed(host: &Host, locked: &Locked<'_>, package: &Path) -> Result<Record, BootError> {
    let failed = |source| BootError::Seed {
        package: package.to_owned(),
        source,
    };
    let binary = File::open(package).map_err(failed)?;
    let digest = host.slots().install_copy(SEEDED, &binary).map_err(failed)?;
    let record = Record::seeded(SEEDED, digest);
    locked.write(&record)?;
    tracing::info!(slot = %SEEDED, %digest, "a new machine: it starts with the package's binary");
    Ok(record)
}

fn any_release(host: &Host) -> bool {
    [Slot::A, Slot::B]
        .into_iter()
        .any(|slot| host.slots().published(slot).is_some())
}

/// Both copies of the record are lost. What the slots can prove is all that is left: the newest signed binary runs, and
/// its sequence is the floor. Where neither proves anything, the package's own binary is the only trusted one.
fn recover(host: &Host, locked: &Locked<'_>, package: &Path) -> Result<Record, BootError> {
    let record = match newest_proven(host) {
        Some(installed) => Record::recovered(installed),
        None => match seed(host, locked, package) {
            Ok(record) => record.with_notice(Some(Notice::Recovered)),
            Err(error) => {
                tracing::error!(error = %with_causes(&error), "no slot can be filled: the package's own binary runs where it lies");
                return without_slots(package);
            }
        },
    };
    if let Err(error) = locked.write(&record) {
        // What the slots prove, they prove to whoever starts next too: a disk that takes nothing keeps no node from
        // running.
        tracing::error!(error = %with_causes(&error), "the record cannot be written");
    }
    tracing::error!(
        slot = %record.confirmed().slot, floor = %record.floor(),
        "both copies of the record were lost: it was made anew from what the slots hold"
    );
    Ok(record)
}

/// The record to run by, for whoever cannot write one: what the disk says, or what the slots prove where it says nothing
/// that can be read.
pub(crate) fn to_run_by(host: &Host, package: &Path) -> Result<Record, BootError> {
    match host.store().read() {
        Found::Record(record) => Ok(*record),
        Found::Nothing if !any_release(host) => Err(StoreError::NoRecord.into()),
        Found::Nothing | Found::Unreadable => match newest_proven(host) {
            Some(installed) => Ok(Record::recovered(installed)),
            None => without_slots(package),
        },
    }
}

/// No slot proves anything, and none can be written: the package's own binary runs from where it lies.
fn without_slots(package: &Path) -> Result<Record, BootError> {
    let digest = File::open(package)
        .and_then(|mut binary| content_of(&mut binary))
        .map_err(|source| BootError::Package {
            package: package.to_owned(),
            source,
        })?
        .digest;
    Ok(Record::seeded(SEEDED, digest).with_notice(Some(Notice::Rescue)))
}

fn newest_proven(host: &Host) -> Option<Installed> {
    [Slot::A, Slot::B]
        .into_iter()
        .filter_map(|slot| proven(host, slot))
        .max_by_key(|installed| installed.sequence)
}

fn proven(host: &Host, slot: Slot) -> Option<Installed> {
    let published = host.slots().published(slot)?;
    let manifest = match verify_installed(&published, host.trust(), PRODUCT) {
        Ok(manifest) => manifest,
        Err(refusal) => {
            tracing::warn!(%slot, reason = refusal.code(), "the slot's manifest is not believed");
            return None;
        }
    };
    let digest = manifest.artifact_for(host.platform())?.sha256();
    host.slots().holds(slot, digest).then(|| Installed {
        slot,
        sequence: manifest.sequence(),
        digest,
    })
}

//! The record on the disk: two copies, each replaced whole, one lock around every change.
//!
//! Gives the valid copy with the higher counter. A change goes first to the copy that is older or damaged, so that a
//! good one is there at every instant; the other follows.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use thiserror::Error;

use super::Record;
use super::file::{self, Counted, Damage};
use crate::durable::{self, Coming, Mode};
use crate::faults::{Fault, planted};
use crate::paths::Paths;
use crate::updater::limits::RECORD_BYTES_MAX;

/// Where one node's record is.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    paths: Paths,
}

/// What the two copies say.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found {
    /// The record.
    Record(Box<Record>),
    /// There is no copy at all: a new machine.
    Nothing,
    /// There are copies, and none can be read.
    Unreadable,
}

/// Why the record cannot be read or changed.
#[derive(Debug, Error)]
pub(crate) enum StoreError {
    #[error("expected to lock {path}, found that it cannot be", path = path.display())]
    Lock {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("expected to write {path}, found that it cannot be", path = path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("expected a record that can be written, found one that cannot")]
    Encoding(#[source] serde_json::Error),
    #[error(
        "expected a record that can be read, found none: the first start makes one (`bcd supervise`)"
    )]
    NoRecord,
}

impl Store {
    pub(crate) fn new(paths: Paths) -> Self {
        Self { paths }
    }

    /// What the copies say now. Each is replaced whole, so no lock is needed to read them.
    pub(crate) fn read(&self) -> Found {
        self.copies().found()
    }

    /// Waits until nobody else changes the record.
    pub(crate) fn lock(&self) -> Result<Locked<'_>, StoreError> {
        let file = self.open_lock()?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                tracing::debug!("waiting for the record: somebody else changes it");
                file.lock().map_err(|source| self.lock_error(source))?;
            }
            Err(TryLockError::Error(source)) => return Err(self.lock_error(source)),
        }
        Ok(Locked::new(self, file))
    }

    /// The lock, unless somebody else holds it now.
    pub(crate) fn try_lock(&self) -> Result<Option<Locked<'_>>, StoreError> {
        let file = self.open_lock()?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Locked::new(self, file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(self.lock_error(source)),
        }
    }

    fn open_lock(&self) -> Result<File, StoreError> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
        // Reading is enough to lock, and works on a read-only disk too: a node has to start there.
        match options.open(self.paths.update_lock()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => options
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(self.paths.update_lock()),
            opened => opened,
        }
        .map_err(|source| self.lock_error(source))
    }

    fn lock_error(&self, source: io::Error) -> StoreError {
        StoreError::Lock {
            path: self.paths.update_lock(),
            source,
        }
    }

    fn copies(&self) -> Copies {
        Copies(self.paths.record_copies().map(|path| read_copy(&path)))
    }
}

/// The record, held so that nobody else changes it.
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    store: &'a Store,
    // Dropping it is what unlocks.
    _lock: File,
}

impl<'a> Locked<'a> {
    fn new(store: &'a Store, lock: File) -> Self {
        let locked = Self { store, _lock: lock };
        locked.heal();
        locked
    }

    /// What the copies say.
    pub(crate) fn read(&self) -> Found {
        self.store.read()
    }

    /// The record, where there has to be one.
    pub(crate) fn record(&self) -> Result<Record, StoreError> {
        match self.read() {
            Found::Record(record) => Ok(*record),
            Found::Nothing | Found::Unreadable => Err(StoreError::NoRecord),
        }
    }

    /// Makes `record` the truth. After `Ok` it is on the disk; after `Err` the truth is the old one or the new one, never
    /// a mix: read again.
    pub(crate) fn write(&self, record: &Record) -> Result<(), StoreError> {
        let copies = self.store.copies();
        let bytes = file::encode(&Counted {
            counter: copies.counter().saturating_add(1),
            record: record.clone(),
        })
        .map_err(StoreError::Encoding)?;
        let [first, second] = copies.oldest_first(&self.store.paths);
        let one = begin_copy(&first, &bytes)?;
        // Both are on their way before the first arrives: whatever the disk does for that one helps the other.
        let other = begin_copy(&second, &bytes);
        arrive(one)?;
        if planted(Fault::OneCopy) {
            return Ok(());
        }
        if let Err(error) = other.and_then(arrive) {
            // The change is on the disk once, which is what counts; whoever locks next writes the other copy again.
            tracing::warn!(%error, "one copy of the record is behind");
        }
        Ok(())
    }

    /// Writes the newer copy over one that is behind or damaged, as a power cut between the two leaves them.
    fn heal(&self) {
        let copies = self.store.copies();
        let Some(newest) = copies.newest() else {
            return;
        };
        if planted(Fault::NoHealing) {
            return;
        }
        for (path, copy) in self.store.paths.record_copies().iter().zip(&copies.0) {
            if copy.counted() == Some(newest) {
                continue;
            }
            match file::encode(newest).map(|bytes| write_copy(path, &bytes)) {
                Ok(Ok(())) => {
                    tracing::info!(path = %path.display(), "mended one copy of the record")
                }
                Ok(Err(error)) => tracing::warn!(%error, "one copy of the record is behind"),
                Err(error) => tracing::warn!(%error, "one copy of the record is behind"),
            }
        }
    }
}

fn write_copy(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    begin_copy(path, bytes).and_then(arrive)
}

fn begin_copy<'a>(path: &'a Path, bytes: &[u8]) -> Result<Coming<'a>, StoreError> {
    Coming::begin(path, bytes).map_err(cannot_write(path))
}

fn arrive(copy: Coming<'_>) -> Result<(), StoreError> {
    let path = copy.path();
    copy.arrive(Mode::Readable).map_err(cannot_write(path))
}

fn cannot_write(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    |source| StoreError::Write {
        path: path.to_owned(),
        source,
    }
}

#[derive(Debug)]
enum Copy {
    Valid(Box<Counted>),
    Missing,
    Damaged,
}

impl Copy {
    fn counted(&self) -> Option<&Counted> {
        match self {
            Self::Valid(counted) => Some(counted),
            Self::Missing | Self::Damaged => None,
        }
    }
}

#[derive(Debug)]
struct Copies([Copy; 2]);

impl Copies {
    fn newest(&self) -> Option<&Counted> {
        let mut valid = self.0.iter().filter_map(Copy::counted);
        if planted(Fault::FirstCopy) {
            return valid.next();
        }
        valid.max_by_key(|counted| counted.counter)
    }

    fn counter(&self) -> u64 {
        self.newest().map_or(0, |counted| counted.counter)
    }

    fn found(&self) -> Found {
        match (self.newest(), &self.0) {
            (Some(counted), _) => Found::Record(Box::new(counted.record.clone())),
            (None, [Copy::Missing, Copy::Missing]) => Found::Nothing,
            (None, _) => Found::Unreadable,
        }
    }

    fn oldest_first(&self, paths: &Paths) -> [PathBuf; 2] {
        let [one, other] = paths.record_copies();
        let [age, other_age] = &self.0;
        let age_of = |copy: &Copy| copy.counted().map(|counted| counted.counter);
        if age_of(age) <= age_of(other_age) {
            [one, other]
        } else {
            [other, one]
        }
    }
}

fn read_copy(path: &Path) -> Copy {
    let bytes = match durable::read_unlinked(path, RECORD_BYTES_MAX) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Copy::Missing,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "one copy of the record cannot be read");
            return Copy::Damaged;
        }
    };
    match file::decode(&bytes) {
        Ok(counted) => Copy::Valid(Box::new(counted)),
        Err(damage) => {
            warn_of_damage(path, &damage);
            Copy::Damaged
        }
    }
}

fn warn_of_damage(path: &Path, damage: &Damage) {
    tracing::warn!(path = %path.display(), error = %damage, "one copy of the record is damaged");
}

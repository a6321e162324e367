//! The file that a download fills, and what survives between two tries.
//!
//! Takes bytes in order, gives them back once all are there and their digest is right. Beside the file lies a small one
//! that says which release the bytes belong to and how a server names them: bytes of another release are never built
//! upon. One open file at a time: a try that was given up finishes its last write before the next one begins.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use bc_protocol::digest::{Sha256, Sha256Hasher};
use bytes::Bytes;
use nix::{fcntl::OFlag, sys::statvfs::statvfs};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::mpsc,
    task::{JoinHandle, spawn_blocking},
};

use super::FetchError;
use crate::{
    content::Seen,
    durable::{self, Mode, WriteBehind},
    node::limits::{DISK_MARGIN_BYTES, STATE_FILE_BYTES_MAX, WRITER_QUEUE_CHUNKS_MAX},
};

/// Which bytes, and where.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) size: u64,
    pub(super) digest: Sha256,
}

/// The open file.
pub(super) struct Partial {
    place: Place,
    file: File,
    hasher: Sha256Hasher,
    have: u64,
    behind: WriteBehind,
    validator: Option<String>,
}

/// What is known of the bytes between two tries.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Origin {
    digest: Sha256,
    size: u64,
    validator: String,
}

impl Partial {
    /// Opens the file, and hashes what it holds if that can be built upon. Refuses where the disk has no room for the
    /// download and for a copy of it.
    pub(super) fn open(place: Place) -> Result<Self, FetchError> {
        let file = open(&place.path).map_err(FetchError::Disk)?;
        check_space(&place, length(&file).map_err(FetchError::Disk)?)?;
        Self::resumed(place, file).map_err(FetchError::Disk)
    }

    fn resumed(place: Place, file: File) -> io::Result<Self> {
        let origin = origin(&place);
        let mut partial = Self {
            place,
            file,
            hasher: Sha256::hasher(),
            have: 0,
            behind: WriteBehind::default(),
            validator: None,
        };
        let there = length(&partial.file)?;
        let Some(origin) = origin.filter(|_| (1..=partial.place.size).contains(&there)) else {
            return partial.emptied();
        };
        partial.read_in()?;
        partial.validator = Some(origin.validator);
        // All there and all wrong: nothing to build upon.
        if partial.is_whole() && partial.hasher.clone().finish() != partial.place.digest {
            return partial.emptied();
        }
        Ok(partial)
    }

    /// Bytes that are there.
    pub(super) fn have(&self) -> u64 {
        self.have
    }

    /// Whether all bytes are there.
    pub(super) fn is_whole(&self) -> bool {
        self.have == self.place.size
    }

    /// What to ask for the rest with; None where there is nothing to go on from.
    pub(super) fn validator(&self) -> Option<&str> {
        self.validator.as_deref().filter(|_| self.have > 0)
    }

    /// Forgets what is there.
    pub(super) fn emptied(mut self) -> io::Result<Self> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.hasher = Sha256::hasher();
        self.have = 0;
        self.behind = WriteBehind::default();
        self.validator = None;
        Ok(self)
    }

    /// Begins anew with the bytes that a server knows by this validator.
    fn begun(self, validator: Option<String>) -> io::Result<Self> {
        let mut partial = self.emptied()?;
        let path = origin_path(&partial.place.path);
        match &validator {
            Some(validator) => {
                let origin = Origin {
                    digest: partial.place.digest,
                    size: partial.place.size,
                    validator: validator.clone(),
                };
                let json = serde_json::to_vec(&origin)?;
                durable::replace_note(&path, &json, Mode::Private)?;
            }
            None => durable::remove_if_there(&path)?,
        }
        partial.validator = validator;
        Ok(partial)
    }

    /// The whole file, read-only and at its beginning, if it is the right one.
    pub(super) fn finish(self) -> Result<Seen, FetchError> {
        let found = self.hasher.clone().finish();
        if found != self.place.digest {
            let expected = self.place.digest;
            self.emptied().map_err(FetchError::Disk)?;
            return Err(FetchError::Digest { expected, found });
        }
        self.handed_over().map_err(FetchError::Disk)
    }

    /// A descriptor that can write would keep the file from being executed.
    fn handed_over(self) -> io::Result<Seen> {
        let reader = durable::open_unlinked(&self.place.path)?;
        let (ours, theirs) = (self.file.metadata()?, reader.metadata()?);
        if (ours.dev(), ours.ino()) != (theirs.dev(), theirs.ino()) {
            return Err(io::Error::other(
                "expected the downloaded file, found another in its place",
            ));
        }
        durable::remove_if_there(&origin_path(&self.place.path))?;
        Seen::hashed(reader, self.place.digest)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.have += u64::try_from(bytes.len()).unwrap_or(0);
        self.behind.grown(&self.file, self.have);
        Ok(())
    }

    fn read_in(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = match self.file.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let piece = buffer.get(..count).unwrap_or_default();
            self.hasher.update(piece);
            self.have += u64::try_from(count).unwrap_or(0);
        }
    }
}

/// Writes a partial file behind the session's back: a slow disk may not cost a heartbeat. Hashing a piece takes as long as
/// receiving it did, so it stays on this side while the other one writes.
pub(super) struct Writer {
    queue: mpsc::Sender<Bytes>,
    thread: JoinHandle<io::Result<Partial>>,
    hasher: Sha256Hasher,
    had: u64,
}

impl Writer {
    /// Goes on behind what is there.
    pub(super) fn of_the_rest(partial: Partial) -> Self {
        let (hasher, had) = (partial.hasher.clone(), partial.have);
        Self::start((hasher, had), move || Ok(partial))
    }

    /// Begins anew, with bytes that the server knows by this validator. The first ones need not wait until that is noted.
    pub(super) fn of_the_whole(partial: Partial, validator: Option<String>) -> Self {
        Self::start((Sha256::hasher(), 0), move || partial.begun(validator))
    }

    fn start(
        (hasher, had): (Sha256Hasher, u64),
        begin: impl FnOnce() -> io::Result<Partial> + Send + 'static,
    ) -> Self {
        let (queue, mut chunks) = mpsc::channel::<Bytes>(WRITER_QUEUE_CHUNKS_MAX);
        let thread = spawn_blocking(move || {
            let mut partial = begin()?;
            while let Some(chunk) = chunks.blocking_recv() {
                partial.append(&chunk)?;
            }
            Ok(partial)
        });
        Self {
            queue,
            thread,
            hasher,
            had,
        }
    }

    /// Bytes that were there before.
    pub(super) fn have(&self) -> u64 {
        self.had
    }

    /// Queues bytes; false if the disk has given up, which [`Writer::finish`] tells.
    pub(super) async fn write(&mut self, bytes: Bytes) -> bool {
        if self.queue.send(bytes.clone()).await.is_err() {
            return false;
        }
        self.hasher.update(&bytes);
        true
    }

    /// Gives the file back, with everything written.
    pub(super) async fn finish(self) -> Result<Partial, FetchError> {
        drop(self.queue);
        let mut partial = self.thread.await?.map_err(FetchError::Disk)?;
        // The writer ends well only behind the last piece.
        partial.hasher = self.hasher;
        Ok(partial)
    }
}

fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other(
            "expected a plain file, found another kind",
        ));
    }
    // An earlier try that was given up may still be writing its last bytes.
    file.lock()?;
    Ok(file)
}

fn length(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.len())
}

/// What is known of the bytes, if it is known for this release.
fn origin(place: &Place) -> Option<Origin> {
    let path = origin_path(&place.path);
    let json = durable::read_unlinked(&path, STATE_FILE_BYTES_MAX).ok()??;
    let origin: Origin = serde_json::from_slice(&json).ok()?;
    (origin.digest == place.digest && origin.size == place.size).then_some(origin)
}

fn origin_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".origin");
    name.into()
}

fn check_space(place: &Place, there: u64) -> Result<(), FetchError> {
    let folder = place.path.parent().unwrap_or(Path::new("/"));
    let disk = statvfs(folder).map_err(|error| FetchError::Disk(error.into()))?;
    let available = disk.blocks_available().saturating_mul(disk.fragment_size());
    let need = space_needed(place.size, there);
    if available < need {
        return Err(FetchError::Space {
            folder: folder.to_owned(),
            need,
            available,
        });
    }
    Ok(())
}

/// Twice the size and a margin, less what is there already.
fn space_needed(size: u64, there: u64) -> u64 {
    size.saturating_mul(2)
        .saturating_add(DISK_MARGIN_BYTES)
        .saturating_sub(there.min(size))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn room_for_two_and_a_margin() {
        for (size, there, expected) in [
            (100, 0, 200),
            (100, 60, 140),
            (100, 100, 100),
            (100, 5000, 100),
        ] {
            assert_eq!(space_needed(size, there), expected + DISK_MARGIN_BYTES);
        }
        assert_eq!(space_needed(u64::MAX, 0), u64::MAX);
    }

    #[test]
    fn a_disk_without_room_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("partial");
        let place = Place {
            path: path.clone(),
            size: 1 << 60,
            digest: Sha256::of(b""),
        };
        let refused = Partial::open(place).err().unwrap();
        assert!(matches!(refused, FetchError::Space { .. }), "{refused}");
        assert!(!refused.is_final());
        assert_eq!(fs::metadata(path).unwrap().len(), 0);
    }
}

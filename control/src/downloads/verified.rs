//! Files that have been held against their signed digest.
//!
//! Takes a path and what a release says about it, gives an open file whose bytes were hashed through that very
//! descriptor, once for every state of the file.

use std::{
    collections::BTreeMap,
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use bc_protocol::{digest::Sha256, release::Artifact};
use thiserror::Error;
use tokio::{fs::File, sync::OnceCell};

/// What changes whenever a file's bytes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

type Digest = Arc<OnceCell<Sha256>>;

/// The digests of files as they were when they were last looked at.
#[derive(Debug, Default)]
pub(super) struct Verified {
    digests: Mutex<BTreeMap<PathBuf, (Stamp, Digest)>>,
}

/// Why a file is not served. Operators have to mend the folder.
#[derive(Debug, Error)]
pub(crate) enum FileError {
    /// Nobody has put it there yet.
    #[error("expected a file at {}, found none", path.display())]
    Absent {
        /// The path.
        path: PathBuf,
    },
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is something else than a file.
    #[error("expected a file, found something else at {}", path.display())]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// Its bytes are not those that were signed.
    #[error("expected {} to be {expected}, found {found}", path.display())]
    Differs {
        /// The file.
        path: PathBuf,
        /// Digest and size in the manifest.
        expected: String,
        /// Those of the file.
        found: String,
    },
}

impl Verified {
    /// Opens a file that is what the release says.
    pub(super) async fn open(&self, path: &Path, artifact: &Artifact) -> Result<File, FileError> {
        let io = |source| FileError::Io {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).await.map_err(|source| {
            if source.kind() == io::ErrorKind::NotFound {
                let path = path.to_owned();
                return FileError::Absent { path };
            }
            io(source)
        })?;
        let metadata = file.metadata().await.map_err(io)?;
        if !metadata.is_file() {
            return Err(FileError::NoFile {
                path: path.to_owned(),
            });
        }
        let differs = |found: String| FileError::Differs {
            path: path.to_owned(),
            expected: format!("{} of {} bytes", artifact.sha256(), artifact.size()),
            found,
        };
        if metadata.len() != artifact.size() {
            return Err(differs(format!("{} bytes", metadata.len())));
        }
        let cell = self.cell(path, stamp(&metadata));
        let handle = file.try_clone().await.map_err(io)?.into_std().await;
        // A task of its own: a caller who gives up must not make the next one begin anew with a large file.
        let hashed = tokio::spawn(async move { hashed_once(&cell, handle).await })
            .await
            .map_err(io::Error::other)
            .flatten()
            .map_err(io)?;
        if hashed != artifact.sha256() {
            return Err(differs(hashed.to_string()));
        }
        Ok(file)
    }

    /// Where the digest of a file in this state is kept; callers who come at the same time share one computation.
    fn cell(&self, path: &Path, stamp: Stamp) -> Digest {
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, cell)) = digests.get(path)
            && *known == stamp
        {
            return Arc::clone(cell);
        }
        let cell = Digest::default();
        digests.insert(path.to_owned(), (stamp, Arc::clone(&cell)));
        cell
    }
}

async fn hashed_once(cell: &OnceCell<Sha256>, file: std::fs::File) -> io::Result<Sha256> {
    let hash = || async {
        // It keeps a thread busy: one of those that may be.
        tokio::task::spawn_blocking(move || digest_of(file))
            .await
            .map_err(io::Error::other)?
    };
    cell.get_or_try_init(hash).await.copied()
}

fn stamp(metadata: &std::fs::Metadata) -> Stamp {
    Stamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    }
}

fn digest_of(mut file: std::fs::File) -> io::Result<Sha256> {
    use io::{Read as _, Seek as _};
    file.rewind()?;
    let mut hasher = Sha256::hasher();
    let mut piece = vec![0; 256 << 10];
    loop {
        let read = file.read(&mut piece)?;
        match piece.get(..read) {
            None | Some([]) => break,
            Some(bytes) => hasher.update(bytes),
        }
    }
    Ok(hasher.finish())
}

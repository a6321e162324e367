//! Release binaries, served from a folder or an object store, and put there.
//!
//! Takes a version and a platform, gives the bytes that the registered release lists for them: whole, or the range
//! that a resumed download asks for. A name is made of checked parts alone; a file is held against the signed digest
//! before it is served for the first time, and before it is put anywhere. It never serves what no release lists.

mod answer;
#[cfg(feature = "blob")]
mod blob;
mod folder;
mod incoming;
mod range;
mod verified;

use axum::body::Body;
use bc_protocol::{
    platform::Platform,
    release::{Artifact, Trust},
    version::Version,
};
use thiserror::Error;
use tokio::{
    fs::File,
    io::{AsyncReadExt as _, AsyncSeekExt as _, SeekFrom},
};
use tokio_util::io::ReaderStream;

pub(crate) use answer::answer;
#[cfg(feature = "blob")]
use blob::{Blob, BlobError, Object};
use folder::Folder;
pub(crate) use incoming::UploadError;

use crate::{
    api::error::{Code, ErrorObject},
    config::Source,
    db::Db,
    release::store::{self, ReleaseError},
};
use incoming::Incoming;
use verified::FileError;

/// Large enough that a system call a piece does not matter, small enough for a thousand downloads at once.
const PIECE_BYTES: usize = 64 << 10;

/// Where control keeps what it serves.
#[derive(Debug)]
pub(crate) enum Downloads {
    /// In a folder of this machine.
    Folder(Folder),
    /// In an object store.
    #[cfg(feature = "blob")]
    Store(Blob),
}

/// A file that is what the release says.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Of this machine.
    File(File),
    /// Of an object store.
    #[cfg(feature = "blob")]
    Object(Object),
}

impl Opened {
    async fn part(self, start: u64, length: u64) -> Result<Body, DownloadError> {
        match self {
            Self::File(mut file) => {
                file.seek(SeekFrom::Start(start)).await?;
                let part = ReaderStream::with_capacity(file.take(length), PIECE_BYTES);
                Ok(Body::from_stream(part))
            }
            #[cfg(feature = "blob")]
            Self::Object(object) => Ok(Body::from_stream(object.part(start, length).await?)),
        }
    }
}

impl Downloads {
    /// From where the configuration says.
    pub(crate) fn new(source: &Source) -> Result<Self, DownloadError> {
        match source {
            Source::Folder(dir) => Ok(Self::Folder(Folder::new(dir.clone()))),
            #[cfg(feature = "blob")]
            Source::Store(url) => Ok(Self::Store(Blob::new(url)?)),
            #[cfg(not(feature = "blob"))]
            Source::Store(_) => Err(DownloadError::Elsewhere),
        }
    }

    /// The file of a release's binary for a platform, both still as text.
    pub(crate) async fn open(
        &self,
        db: &Db,
        trust: &Trust,
        named: (&str, &str),
    ) -> Result<(Opened, Artifact), DownloadError> {
        let (version, artifact) = listed(db, trust, named).await?;
        let opened = match self {
            Self::Folder(folder) => Opened::File(folder.open(&version, &artifact).await?),
            #[cfg(feature = "blob")]
            Self::Store(store) => Opened::Object(store.open(&version, &artifact).await?),
        };
        Ok((opened, artifact))
    }

    /// Platforms that a release has a binary for and whose binary nobody has put here. What cannot be looked at is not
    /// among them: whoever fetches it hears why.
    pub(crate) async fn unpublished(
        &self,
        (db, trust): (&Db, &Trust),
        version: &Version,
    ) -> Vec<String> {
        let Ok(release) = store::get(db, version, trust).await else {
            return Vec::new();
        };
        let mut absent = Vec::new();
        for artifact in release.manifest.artifacts() {
            let Some(platform) = artifact.platform() else {
                continue;
            };
            // Archives are of a platform too, and no node fetches them.
            let bare = release.manifest.artifact_for(platform);
            if bare.is_none_or(|bare| bare.name() != artifact.name()) {
                continue;
            }
            let found = match self {
                Self::Folder(folder) => folder.open(version, artifact).await.err().map(Into::into),
                #[cfg(feature = "blob")]
                Self::Store(store) => store.open(version, artifact).await.err().map(Into::into),
            };
            if found.is_some_and(|error: DownloadError| error.is_absence()) {
                absent.push(platform.to_string());
            }
        }
        absent
    }

    /// Puts a binary where it is served from, if it is the one that the registered release lists.
    pub(crate) async fn publish(
        &self,
        db: &Db,
        trust: &Trust,
        named: (&str, &str),
        body: Body,
    ) -> Result<(Version, Artifact), DownloadError> {
        let (version, artifact) = listed(db, trust, named).await?;
        let incoming = Incoming::new(body, artifact.clone());
        match self {
            Self::Folder(folder) => folder.put(&version, incoming).await?,
            #[cfg(feature = "blob")]
            Self::Store(store) => store.put(&version, incoming).await?,
        }
        Ok((version, artifact))
    }
}

async fn listed(
    db: &Db,
    trust: &Trust,
    (version, platform): (&str, &str),
) -> Result<(Version, Artifact), DownloadError> {
    let version: Version = version.parse().map_err(|_| DownloadError::Unknown)?;
    let platform: Platform = platform.parse().map_err(|_| DownloadError::Unknown)?;
    let release = match store::get(db, &version, trust).await {
        Ok(release) => release,
        Err(ReleaseError::NotRegistered { .. }) => return Err(DownloadError::Unknown),
        Err(error) => return Err(error.into()),
    };
    let artifact = release.manifest.artifact_for(&platform);
    let artifact = artifact.ok_or(DownloadError::Unknown)?.clone();
    Ok((version, artifact))
}

/// Why there are no bytes, or none were taken.
#[derive(Debug, Error)]
pub(crate) enum DownloadError {
    /// No registered release lists such a file, or control serves none.
    #[error("expected a version and a platform of a registered release, found none of them")]
    Unknown,
    /// Binaries are somebody else's.
    #[error("expected a control that serves binaries, found one that sends nodes elsewhere")]
    Elsewhere,
    /// The registry failed.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// The folder does not hold what the release lists.
    #[error(transparent)]
    File(#[from] FileError),
    /// Nor does the store.
    #[cfg(feature = "blob")]
    #[error(transparent)]
    Store(#[from] BlobError),
    /// What was sent is not what the release lists.
    #[error(transparent)]
    Upload(#[from] UploadError),
    /// Reading or writing failed in the middle.
    #[error("a release's file cannot be read or written")]
    Io(#[from] std::io::Error),
}

impl From<DownloadError> for ErrorObject {
    fn from(error: DownloadError) -> Self {
        match error {
            DownloadError::Unknown => Self::new(Code::NotFound, error),
            DownloadError::Elsewhere => Self::new(Code::Unsupported, error),
            DownloadError::Release(error) => error.into(),
            DownloadError::Upload(error) => Self::invalid("body", error),
            // A release is registered before its files are put there: that is no fault of anybody's yet.
            DownloadError::File(FileError::Absent { .. }) => Self::absent(),
            #[cfg(feature = "blob")]
            DownloadError::Store(BlobError::Absent { .. }) => Self::absent(),
            #[cfg(feature = "blob")]
            DownloadError::Store(_) => Self::internal(&error),
            DownloadError::File(_) | DownloadError::Io(_) => Self::internal(&error),
        }
    }
}

impl ErrorObject {
    /// The release lists the file, and control does not have it. Where control keeps files is nobody else's business.
    fn absent() -> Self {
        let sentence = "expected a file that somebody has published here, found none yet";
        Self::new(Code::NotFound, sentence).with("reason", "absent")
    }
}

impl DownloadError {
    /// Whether the file is one that the release lists and that nobody has put there.
    pub(crate) fn is_absence(&self) -> bool {
        match self {
            Self::File(FileError::Absent { .. }) => true,
            #[cfg(feature = "blob")]
            Self::Store(BlobError::Absent { .. }) => true,
            #[cfg(feature = "blob")]
            Self::Store(_) => false,
            Self::File(_)
            | Self::Unknown
            | Self::Elsewhere
            | Self::Release(_)
            | Self::Upload(_)
            | Self::Io(_) => false,
        }
    }
}

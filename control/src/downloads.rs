//! Release binaries, served from a folder of release folders.
//!
//! Takes a version and a platform, gives the bytes that the registered release lists for them: whole, or the range
//! that a resumed download asks for. A path is made of checked names alone; a file is held against the signed digest
//! before it is served for the first time. It never serves what no release lists.

mod range;
mod verified;

use std::path::PathBuf;

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use bc_protocol::{
    platform::Platform,
    release::{Artifact, Trust},
    version::Version,
};
use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, SeekFrom};
use tokio_util::io::ReaderStream;

use crate::{
    api::error::{Code, ErrorObject},
    db::Db,
    release::store::{self, ReleaseError},
};
use range::Wanted;
use verified::{FileError, Verified};

/// Large enough that a system call a piece does not matter, small enough for a thousand downloads at once.
const PIECE_BYTES: usize = 64 << 10;

/// The folder that control serves.
#[derive(Debug)]
pub(crate) struct Folder {
    dir: PathBuf,
    verified: Verified,
}

impl Folder {
    /// Serves `dir`, which holds a folder a version, each as `release sign` leaves it.
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            verified: Verified::default(),
        }
    }

    /// The file of a release's binary for a platform, both still as text.
    pub(crate) async fn find(
        &self,
        db: &Db,
        trust: &Trust,
        (version, platform): (&str, &str),
    ) -> Result<(tokio::fs::File, Artifact), DownloadError> {
        let version: Version = version.parse().map_err(|_| DownloadError::Unknown)?;
        let platform: Platform = platform.parse().map_err(|_| DownloadError::Unknown)?;
        let release = match store::get(db, &version, trust).await {
            Ok(release) => release,
            Err(ReleaseError::NotRegistered { .. }) => return Err(DownloadError::Unknown),
            Err(error) => return Err(error.into()),
        };
        let artifact = release
            .manifest
            .artifact_for(&platform)
            .ok_or(DownloadError::Unknown)?
            .clone();
        let path = self.dir.join(version.as_str()).join(artifact.name());
        let file = self.verified.open(&path, &artifact).await?;
        Ok((file, artifact))
    }
}

/// Why there are no bytes.
#[derive(Debug, Error)]
pub(crate) enum DownloadError {
    /// No registered release lists such a file, or control serves none.
    #[error("expected a version and a platform of a registered release, found none of them")]
    Unknown,
    /// The registry failed.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// The folder does not hold what the release lists.
    #[error(transparent)]
    File(#[from] FileError),
    /// Reading failed in the middle.
    #[error("a release's file cannot be read")]
    Io(#[from] std::io::Error),
}

impl From<DownloadError> for ErrorObject {
    fn from(error: DownloadError) -> Self {
        match error {
            DownloadError::Unknown => Self::new(Code::NotFound, error),
            DownloadError::Release(error) => error.into(),
            DownloadError::File(_) | DownloadError::Io(_) => Self::internal(&error),
        }
    }
}

/// Whole, the part that was asked for, or word that nothing has changed.
pub(crate) async fn answer(
    mut file: tokio::fs::File,
    artifact: &Artifact,
    headers: &HeaderMap,
) -> Result<Response, DownloadError> {
    let size = artifact.size();
    let etag = format!("\"{}\"", artifact.sha256());
    let shared = [
        (header::ETAG, etag.clone()),
        (header::ACCEPT_RANGES, "bytes".to_owned()),
        (
            header::CACHE_CONTROL,
            "public, max-age=31536000, immutable".to_owned(),
        ),
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
    ];
    let (status, start, length) = match range::wanted(headers, &etag, size) {
        Wanted::Unchanged => return Ok((StatusCode::NOT_MODIFIED, shared).into_response()),
        Wanted::Nothing => {
            let of = [(header::CONTENT_RANGE, format!("bytes */{size}"))];
            return Ok((StatusCode::RANGE_NOT_SATISFIABLE, shared, of).into_response());
        }
        Wanted::Whole => (StatusCode::OK, 0, size),
        Wanted::Part { start, length } => (StatusCode::PARTIAL_CONTENT, start, length),
    };
    file.seek(SeekFrom::Start(start)).await?;
    let body = Body::from_stream(ReaderStream::with_capacity(file.take(length), PIECE_BYTES));
    let sized = [(header::CONTENT_LENGTH, length.to_string())];
    let mut response = (status, shared, sized, body).into_response();
    if status == StatusCode::PARTIAL_CONTENT {
        let last = start + length - 1;
        let of = format!("bytes {start}-{last}/{size}");
        if let Ok(of) = of.try_into() {
            response.headers_mut().insert(header::CONTENT_RANGE, of);
        }
    }
    Ok(response)
}

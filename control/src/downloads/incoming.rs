//! A binary on its way in.
//!
//! Takes a request's body and what a release says of it, gives pieces, and in the end whether they were that binary. It
//! reads no more than the signed size, and waits for no piece for ever.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use bc_protocol::{
    digest::{Sha256, Sha256Hasher},
    release::Artifact,
};
use bytes::Bytes;
use futures_util::StreamExt as _;
use thiserror::Error;
use tokio::time::timeout;

/// For the next piece. A line that is slower carries no binary.
const PIECE_TIMEOUT: Duration = Duration::from_secs(30);

/// Why an upload was not taken.
#[derive(Debug, Error)]
pub(crate) enum UploadError {
    /// The caller went away in the middle.
    #[error("expected a whole file, found its beginning only")]
    Cut,
    /// The caller stopped in the middle.
    #[error("expected the next bytes within {PIECE_TIMEOUT:?}, found none")]
    Stalled,
    /// It is another file.
    #[error("expected {expected}, found {found}")]
    Differs {
        /// Digest and size in the manifest.
        expected: String,
        /// What was sent.
        found: String,
    },
}

/// The pieces of an upload, counted and hashed.
pub(super) struct Incoming {
    pieces: BodyDataStream,
    artifact: Artifact,
    hasher: Sha256Hasher,
    size: u64,
}

impl Incoming {
    pub(super) fn new(body: Body, artifact: Artifact) -> Self {
        Self {
            pieces: body.into_data_stream(),
            artifact,
            hasher: Sha256::hasher(),
            size: 0,
        }
    }

    /// The name that the release gives it.
    pub(super) fn name(&self) -> &str {
        self.artifact.name()
    }

    /// The next piece; nothing where all have come.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, UploadError> {
        let piece = timeout(PIECE_TIMEOUT, self.pieces.next()).await;
        let Some(piece) = piece.map_err(|_| UploadError::Stalled)? else {
            return Ok(None);
        };
        let piece = piece.map_err(|_| UploadError::Cut)?;
        let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        self.size = self.size.saturating_add(length);
        if self.size > self.artifact.size() {
            return Err(self.differs("more".to_owned()));
        }
        self.hasher.update(&piece);
        Ok(Some(piece))
    }

    /// Whether it was what the release lists. Nothing may be served before this says so.
    pub(super) fn finish(self) -> Result<(), UploadError> {
        if self.size != self.artifact.size() {
            return Err(self.differs(format!("{} bytes", self.size)));
        }
        let expected = self.artifact.sha256();
        let found = self.hasher.finish();
        if found == expected {
            return Ok(());
        }
        Err(UploadError::Differs {
            expected: expected.to_string(),
            found: found.to_string(),
        })
    }

    fn differs(&self, found: String) -> UploadError {
        UploadError::Differs {
            expected: format!("{} bytes", self.artifact.size()),
            found,
        }
    }
}

//! Why a download gave no file, and whether another try could.

use std::{io, path::PathBuf, time::Duration};

use bc_protocol::digest::Sha256;
use thiserror::Error;
use tokio::task::JoinError;

use super::pace::Slow;
use crate::{http::HttpError, tls::TlsError};

/// Why there is no file.
#[derive(Debug, Error)]
pub(crate) enum FetchError {
    /// The address is not one to fetch from.
    #[error("the download's address: {0}")]
    Url(HttpError),
    /// The server could not be asked.
    #[error(transparent)]
    Http(HttpError),
    /// It answered with another status.
    #[error("expected the file from {server}, found status {status}")]
    Status {
        /// Who answered.
        server: String,
        /// With what.
        status: u16,
    },
    /// It sent us somewhere that we do not go.
    #[error("expected {expected}, found a redirect to {found}")]
    Redirect {
        /// What a redirect may be.
        expected: &'static str,
        /// What this one was.
        found: String,
    },
    /// It changed the bytes on the way.
    #[error("expected the file's own bytes, found content encoding {0}")]
    Encoding(String),
    /// It has another file.
    #[error("expected {expected} bytes, found {found}")]
    Size {
        /// By the manifest.
        expected: u64,
        /// By the server.
        found: String,
    },
    /// The bytes are not the signed ones.
    #[error("expected a file with digest {expected}, found {found}")]
    Digest {
        /// By the manifest.
        expected: Sha256,
        /// Of the bytes.
        found: Sha256,
    },
    /// The line broke.
    #[error("expected {expected} bytes, found an end after {received}: {found}")]
    Cut {
        /// By the manifest.
        expected: u64,
        /// On disk now.
        received: u64,
        /// What ended it.
        found: String,
    },
    /// The bytes come too slowly.
    #[error(transparent)]
    Slow(#[from] Slow),
    /// The download as a whole took too long.
    #[error("expected the download to end within {} s", .0.as_secs())]
    Overdue(Duration),
    /// It would not fit.
    #[error("expected {need} free bytes in {}, found {available}", folder.display())]
    Space {
        /// Where.
        folder: PathBuf,
        /// How many it takes.
        need: u64,
        /// How many there are.
        available: u64,
    },
    /// The disk does not take it.
    #[error("the file cannot be kept: {0}")]
    Disk(io::Error),
}

impl FetchError {
    /// The reason as a word.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Url(_) => "url",
            Self::Size { .. } => "size",
            Self::Digest { .. } => "digest",
            Self::Space { .. } | Self::Disk(_) => "disk",
            Self::Http(_)
            | Self::Status { .. }
            | Self::Redirect { .. }
            | Self::Encoding(_)
            | Self::Cut { .. }
            | Self::Slow(_)
            | Self::Overdue(_) => "download",
        }
    }

    /// Whether another try would end in the same way: what the section or the bytes are to blame for.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Url(_) | Self::Size { .. } | Self::Digest { .. } => true,
            Self::Http(_)
            | Self::Status { .. }
            | Self::Redirect { .. }
            | Self::Encoding(_)
            | Self::Cut { .. }
            | Self::Slow(_)
            | Self::Overdue(_)
            | Self::Space { .. }
            | Self::Disk(_) => false,
        }
    }
}

impl From<HttpError> for FetchError {
    fn from(error: HttpError) -> Self {
        Self::Http(error)
    }
}

impl From<TlsError> for FetchError {
    fn from(error: TlsError) -> Self {
        Self::Http(error.into())
    }
}

impl From<JoinError> for FetchError {
    fn from(error: JoinError) -> Self {
        Self::Disk(io::Error::other(error))
    }
}

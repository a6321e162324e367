//! How the offline tools fail.
//!
//! Takes what went wrong, gives a reason in one word and a sentence. The words of a refused manifest are the
//! verifier's own.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;

use bc_protocol::digest::Sha256;
use bc_protocol::release::manifest::ArtifactError;
use bc_protocol::release::sign::{KeyError, SignError};
use bc_protocol::release::signature::PublicKeyError;
use bc_protocol::release::{Refusal, TrustError};
use bc_protocol::sequence::{ReleaseFloor, Sequence};
use bc_protocol::time::TimestampError;

use super::Format;
use crate::cli::sheet::printable;

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    NotSigned(#[from] SignError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    #[error("expected a sequence of at least {floor}, found {found}")]
    Rollback {
        floor: ReleaseFloor,
        found: Sequence,
    },
    #[error("expected an expiry within the years that can be written")]
    Expiry(#[source] TimestampError),
    #[error("cannot use the private key {path}", path = path.display())]
    Key { path: PathBuf, source: KeyError },
    #[error("cannot use the public key {path}", path = path.display())]
    PublicKey {
        path: PathBuf,
        source: PublicKeyError,
    },
    #[error("expected no file at {path}, found one: a key is never overwritten", path = path.display())]
    Exists { path: PathBuf },
    #[error("cannot {verb} {path}", path = path.display())]
    File {
        verb: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("expected only files, found {path}", path = path.display())]
    NotAFile { path: PathBuf },
    #[error("expected at least one file in {path}, found none", path = path.display())]
    NoFiles { path: PathBuf },
    #[error("expected file names in UTF-8, found {path}", path = path.display())]
    Name { path: PathBuf },
    #[error("expected a file that the manifest lists at {path}, found none", path = path.display())]
    Missing { path: PathBuf },
    #[error("expected {expected} bytes in {path}, found {found}", path = path.display())]
    Size {
        path: PathBuf,
        expected: u64,
        found: u64,
    },
    #[error("expected the digest {expected} of {path}, found {found}", path = path.display())]
    Digest {
        path: PathBuf,
        expected: Sha256,
        found: Sha256,
    },
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
}

impl Failure {
    pub(super) fn file(
        verb: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { verb, path, source }
    }

    pub(super) const fn output(source: io::Error) -> Self {
        Self::Output(source)
    }

    /// The reason in one word.
    pub(super) const fn code(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::NotSigned(error) => error.code(),
            Self::Trust(_) => "trust",
            Self::Artifact(_) => "artifact",
            Self::Rollback { .. } => "rollback",
            Self::Expiry(_) => "expiry",
            Self::Key { .. } | Self::PublicKey { .. } => "key",
            Self::Exists { .. } => "exists",
            Self::File { .. } | Self::Output(_) => "io",
            Self::NotAFile { .. } | Self::NoFiles { .. } | Self::Name { .. } => "file",
            Self::Missing { .. } => "missing",
            Self::Size { .. } => "size",
            Self::Digest { .. } => "digest",
        }
    }

    /// Tells whoever asked, in the form that they asked for.
    pub(super) fn print(&self, format: Format, to: &mut dyn Write) -> io::Result<()> {
        let (code, message) = (self.code(), self.sentence());
        match format {
            Format::Text => writeln!(to, "error[{code}]: {message}"),
            Format::Json => {
                let error = serde_json::json!({ "error": { "code": code, "message": message } });
                writeln!(to, "{error}")
            }
        }
    }

    /// The message and, behind it, what caused it.
    fn sentence(&self) -> String {
        let mut sentence = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            sentence = format!("{sentence}: {error}");
            cause = error.source();
        }
        printable(&sentence)
    }
}

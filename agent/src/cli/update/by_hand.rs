//! The steps of an update by hand: for those who stop them in the middle and look at what is left.
//!
//! Each step is the node's own, under the same lock, pins and floor. Only builds with faults know them: a node that is
//! shipped confirms nothing without a Welcome, whoever asks.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use bc_protocol::digest::Sha256;
use bc_protocol::id::AttemptId;
use bc_protocol::session::Outcome;
use bc_protocol::spec::{DaemonSection, NodeSpec};
use clap::Subcommand;
use thiserror::Error;

use crate::content::Seen;
use crate::durable;
use crate::node::limits::STATE_FILE_BYTES_MAX;
use crate::updater::attempt::Ending;
use crate::updater::host::{Host, HostError, Source};

#[derive(Debug, Subcommand)]
pub(super) enum Step {
    /// Put a release into the slot that does not run
    Stage {
        /// The spec that names the release, instead of the node's last one
        #[arg(long, value_name = "FILE")]
        spec: Option<PathBuf>,
        /// The release's binary; without it, the slot has to hold it already
        #[arg(long, value_name = "FILE")]
        binary: Option<PathBuf>,
    },
    /// Begin the trial of what was staged
    Activate {
        /// The spec that names the release, instead of the node's last one
        #[arg(long, value_name = "FILE")]
        spec: Option<PathBuf>,
    },
    /// End a trial well, and raise the floor to it: there is no way back below
    Confirm {
        /// The digest that is on trial
        #[arg(long, value_name = "SHA256")]
        digest: Sha256,
    },
    /// End a trial by going back
    Cancel {
        /// The trial's attempt
        #[arg(long, value_name = "ID")]
        attempt: AttemptId,
    },
}

/// Why a step was not carried out.
#[derive(Debug, Error)]
pub(in crate::cli) enum ByHandError {
    #[error("expected a spec in {path}, found that it cannot be read", path = path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("expected a spec in {path}, found none", path = path.display())]
    NoSpec { path: PathBuf },
    #[error("expected a spec in {path}, found other bytes", path = path.display())]
    NotASpec {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("expected a spec that names a release, found one that names none")]
    NoRelease,
    #[error(
        "expected --binary with the release's binary, found that the slot does not hold it either"
    )]
    NoBinary,
    #[error("expected to copy {path} to the node's folder, found that it cannot be done", path = path.display())]
    Copy {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Host(#[from] HostError),
}

impl Step {
    pub(super) fn carry_out(self, host: &Host) -> Result<(), ByHandError> {
        match self {
            Self::Stage { spec, binary } => {
                let section = section(host, spec)?;
                let file = match (host.admit(&section)?.source, binary) {
                    (Source::InPlace, _) => None,
                    (Source::Download(partial), Some(binary)) => {
                        let copied = copy(&binary, &partial);
                        Some(copied.map_err(|source| ByHandError::Copy {
                            path: binary,
                            source,
                        })?)
                    }
                    (Source::Download(_), None) => return Err(ByHandError::NoBinary),
                };
                host.stage(&section, file)?;
            }
            Self::Activate { spec } => {
                let section = section(host, spec)?;
                // Judged anew: nobody knows how long ago it was staged.
                let staged = host.stage(&section, None)?;
                host.activate(&section, &staged)?;
            }
            Self::Confirm { digest } => {
                host.confirm(digest)?;
            }
            Self::Cancel { attempt } => {
                let message = "an operator ended the trial by hand";
                let ending = Ending::new(Outcome::Cancelled, "cancelled", message);
                host.cancel(&attempt, ending)?;
            }
        }
        Ok(())
    }
}

fn section(host: &Host, spec: Option<PathBuf>) -> Result<DaemonSection, ByHandError> {
    let path = spec.unwrap_or_else(|| host.paths().node_spec());
    let json = match durable::read_unlinked(&path, STATE_FILE_BYTES_MAX) {
        Ok(Some(json)) => json,
        Ok(None) => return Err(ByHandError::NoSpec { path }),
        Err(source) => return Err(ByHandError::Unreadable { path, source }),
    };
    let spec: NodeSpec =
        serde_json::from_slice(&json).map_err(|source| ByHandError::NotASpec { path, source })?;
    spec.daemon.ok_or(ByHandError::NoRelease)
}

/// Copies the binary to where a download would gather; the host looks at every byte of it afterwards.
fn copy(binary: &Path, partial: &Path) -> io::Result<Seen> {
    let mut copied = durable::create_new(partial)?;
    let bytes_max = bc_protocol::limits::ARTIFACT_BYTES_MAX.saturating_add(1);
    io::copy(&mut File::open(binary)?.take(bytes_max), &mut copied)?;
    Seen::reading(copied)
}

//! What a node refuses beyond what every reader of a manifest does.
//!
//! Takes the section, the manifest that enough pinned keys signed, and the record; gives the artifact to install or the
//! first reason why not. Pure. The section selects a release, it never defines one.

use bc_protocol::digest::Sha256;
use bc_protocol::platform::Platform;
use bc_protocol::release::{Artifact, Manifest, Refusal};
use bc_protocol::sequence::{ReleaseFloor, Sequence};
use bc_protocol::spec::DaemonSection;
use bc_protocol::version::Version;
use thiserror::Error;

use super::record::Record;
use crate::content::Content;
use crate::faults::{Fault, planted};
use crate::slots::elf::{self, ElfError};

/// Why a node does not install a release. Nothing has changed then, and the attempt has ended for good.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Refused {
    #[error(transparent)]
    Manifest(#[from] Refusal),
    #[error("expected a sequence of at least the floor, which is {floor}, found {found}")]
    Rollback {
        floor: ReleaseFloor,
        found: Sequence,
    },
    #[error(
        "expected the release of sequence {sequence} to be {confirmed}, as confirmed, found {found}"
    )]
    Replaced {
        sequence: Sequence,
        confirmed: Sha256,
        found: Sha256,
    },
    #[error("expected a manifest of version {expected}, as the section says, found one of {found}")]
    Version { expected: Version, found: Version },
    #[error("expected one bare binary for {platform} in the manifest, found none or several")]
    Platform { platform: Platform },
    #[error(transparent)]
    Elf(#[from] ElfError),
    #[error("expected the digest {expected}, as signed, found {found}")]
    Digest { expected: Sha256, found: Sha256 },
    #[error("expected {expected} bytes, as signed, found {found}")]
    Size { expected: u64, found: u64 },
    #[error("expected a file to copy from, found {found}")]
    Descriptor { found: &'static str },
}

impl Refused {
    /// The reason in one word.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Manifest(refusal) => refusal.code(),
            Self::Rollback { .. } | Self::Replaced { .. } => "rollback",
            Self::Version { .. } => "version",
            Self::Platform { .. } | Self::Elf(_) => "platform",
            Self::Digest { .. } => "digest",
            Self::Size { .. } => "size",
            Self::Descriptor { .. } => "descriptor",
        }
    }
}

/// The artifact that this node is to install.
pub(crate) fn admit<'a>(
    section: &DaemonSection,
    manifest: &'a Manifest,
    record: &Record,
    platform: &Platform,
) -> Result<&'a Artifact, Refused> {
    // The floor is checked before the download: an old release must not cost bandwidth.
    if !record.floor().admits(manifest.sequence()) && !planted(Fault::NoFloor) {
        return Err(Refused::Rollback {
            floor: record.floor(),
            found: manifest.sequence(),
        });
    }
    let artifact = manifest.artifact_for(platform);
    let confirmed = record.confirmed();
    if let Some(artifact) = artifact
        && manifest.sequence() == confirmed.sequence
        && artifact.sha256() != confirmed.digest
    {
        return Err(Refused::Replaced {
            sequence: confirmed.sequence,
            confirmed: confirmed.digest,
            found: artifact.sha256(),
        });
    }
    if *manifest.version() != section.version {
        return Err(Refused::Version {
            expected: section.version.clone(),
            found: manifest.version().clone(),
        });
    }
    let artifact = artifact.ok_or_else(|| Refused::Platform {
        platform: platform.clone(),
    })?;
    if artifact.sha256() != section.sha256 {
        return Err(Refused::Digest {
            expected: artifact.sha256(),
            found: section.sha256,
        });
    }
    Ok(artifact)
}

/// Whether a file is the artifact, and made for the platform.
pub(crate) fn admit_content(
    content: &Content,
    artifact: &Artifact,
    platform: &Platform,
) -> Result<(), Refused> {
    if content.size != artifact.size() {
        return Err(Refused::Size {
            expected: artifact.size(),
            found: content.size,
        });
    }
    if content.digest != artifact.sha256() {
        return Err(Refused::Digest {
            expected: artifact.sha256(),
            found: content.digest,
        });
    }
    Ok(elf::check(&content.header, platform)?)
}

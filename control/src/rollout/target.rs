//! What a rollout's release offers to one node.
//!
//! Takes a believed manifest, and what a node said of itself; gives the digest of the binary that it would run, or why
//! there is none. The planner asks before it starts a node, and the spec asks whenever it is computed: one answer.

use std::collections::BTreeMap;

use bc_protocol::{
    digest::Sha256,
    platform::Platform,
    release::Manifest,
    sequence::{ReleaseFloor, Sequence},
    version::Version,
};
use thiserror::Error;

/// The parts of a registered release that decide who can run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    sequence: Sequence,
    binaries: BTreeMap<Platform, Sha256>,
}

impl Target {
    /// Of a manifest that was verified.
    pub(crate) fn of(manifest: &Manifest) -> Self {
        let binaries = manifest
            .artifacts()
            .iter()
            .filter_map(|artifact| artifact.platform())
            .filter_map(|platform| {
                let binary = manifest.artifact_for(platform)?;
                Some((platform.clone(), binary.sha256()))
            })
            .collect();
        Self {
            sequence: manifest.sequence(),
            binaries,
        }
    }

    /// With these binaries.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn new(sequence: Sequence, binaries: BTreeMap<Platform, Sha256>) -> Self {
        Self { sequence, binaries }
    }

    /// The release's sequence.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// The binary for a node with this `cpu.arch` label and floor.
    pub(crate) fn binary_for(
        &self,
        arch: Option<&str>,
        floor: ReleaseFloor,
    ) -> Result<(Platform, Sha256), Unfit> {
        let arch = arch.ok_or(Unfit::NoArch)?;
        let platform = Platform::from_arch_label(arch).ok_or_else(|| Unfit::UnknownArch {
            arch: arch.to_owned(),
        })?;
        let Some(sha256) = self.binaries.get(&platform) else {
            return Err(Unfit::NoBinary { platform });
        };
        if !floor.admits(self.sequence) {
            return Err(Unfit::BelowFloor {
                sequence: self.sequence,
                floor,
            });
        }
        Ok((platform, *sha256))
    }
}

/// Why a node cannot be told to run a release.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Unfit {
    /// Nobody registered it.
    #[error("expected a registered release, found none of version {version}")]
    NotRegistered {
        /// The version asked for.
        version: Version,
    },
    /// The node does not say what processor it has.
    #[error("expected the label cpu.arch, found none")]
    NoArch,
    /// Nothing is built for its processor.
    #[error("expected x86_64 or aarch64 in the label cpu.arch, found \"{arch}\"")]
    UnknownArch {
        /// The label.
        arch: String,
    },
    /// This release has nothing for its platform.
    #[error("expected a bare binary for {platform} in the release, found none")]
    NoBinary {
        /// The node's platform.
        platform: Platform,
    },
    /// The node would refuse it.
    #[error("expected a sequence of at least the node's floor {floor}, found {sequence}")]
    BelowFloor {
        /// The release's sequence.
        sequence: Sequence,
        /// What the node accepts.
        floor: ReleaseFloor,
    },
}

impl Unfit {
    /// The reason in one word.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::NotRegistered { .. } => "not-registered",
            Self::NoArch | Self::UnknownArch { .. } | Self::NoBinary { .. } => "platform",
            Self::BelowFloor { .. } => "floor",
        }
    }
}

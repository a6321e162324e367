//! Whether a release has what nodes need.
//!
//! Takes a signed manifest, gives nothing or the rule that it breaks. Pure; it says nothing about who signed.

use std::collections::BTreeSet;

use bc_protocol::{platform::Platform, release::Manifest};
use thiserror::Error;

/// Holds a manifest to: at most one bare binary a platform, and at least one for Linux.
pub(crate) fn check(manifest: &Manifest) -> Result<(), ArtifactError> {
    let mut platforms = BTreeSet::new();
    for artifact in manifest.artifacts() {
        let Some(platform) = artifact.platform().filter(|_| artifact.is_bare_binary()) else {
            continue;
        };
        if !platforms.insert(platform) {
            return Err(ArtifactError::Ambiguous {
                platform: platform.clone(),
                name: artifact.name().to_owned(),
            });
        }
    }
    if platforms.into_iter().any(Platform::is_linux) {
        return Ok(());
    }
    Err(ArtifactError::NoLinux)
}

/// Why nodes could not use a release.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum ArtifactError {
    /// Two binaries, and no way to choose.
    #[error("expected at most one binary for {platform}, found another one in {name}")]
    Ambiguous {
        /// For this platform.
        platform: Platform,
        /// The second.
        name: String,
    },
    /// Nothing that a node of the fleet runs.
    #[error("expected a binary for Linux, found none among the artifacts")]
    NoLinux,
}

//! Whether a verified manifest enters the registry, and as what.
//!
//! Takes the manifest and what the registry knows, gives a verdict or the first reason against it. Pure: whoever
//! calls it holds the registry's row lock and writes the verdict in the same transaction.

use bc_protocol::{
    release::{InstalledManifest, SignedManifest},
    sequence::Sequence,
};
use thiserror::Error;

use super::artifact::{self, ArtifactError};

/// What the registry knows that matters for one manifest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    /// The release that is registered under the same version.
    pub same_version: Option<&'a InstalledManifest>,
    /// The highest sequence of all.
    pub highest: Option<Sequence>,
}

/// What becomes of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is there already; nothing is written.
    Stored,
    /// It replaces the stored one, and is served from now on.
    Renewal,
    /// It is a new release.
    New,
}

/// Decides about one manifest.
pub(crate) fn decide(
    candidate: &SignedManifest,
    known: Known<'_>,
) -> Result<Verdict, AdmitRefusal> {
    if let Some(stored) = known.same_version {
        return beside(candidate, stored);
    }
    if let Some(highest) = known.highest
        && candidate.sequence() <= highest
    {
        return Err(AdmitRefusal::Rollback {
            highest,
            found: candidate.sequence(),
        });
    }
    artifact::check(candidate)?;
    Ok(Verdict::New)
}

/// The version is taken: the same release again, a newer edition of it, or something that must not be.
fn beside(candidate: &SignedManifest, stored: &InstalledManifest) -> Result<Verdict, AdmitRefusal> {
    if candidate.body() == stored.body() {
        // A signature more is worth serving: a node's threshold may be higher than control's. One less is not.
        return Ok(if candidate.signers().is_subset(stored.signers()) {
            Verdict::Stored
        } else {
            Verdict::Renewal
        });
    }
    if !candidate.is_same_release_as(stored) {
        return Err(AdmitRefusal::OtherContent {
            stored: stored.sequence(),
            found: candidate.sequence(),
        });
    }
    if candidate.issued_at() > stored.issued_at() {
        return Ok(Verdict::Renewal);
    }
    Err(AdmitRefusal::NotNewer {
        stored: stored.issued_at(),
        found: candidate.issued_at(),
    })
}

/// Why a manifest does not enter.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum AdmitRefusal {
    /// One version is one content for ever.
    #[error(
        "expected the content that is registered under this version (sequence {stored}), found another one (sequence {found})"
    )]
    OtherContent {
        /// The registered sequence.
        stored: Sequence,
        /// The manifest's.
        found: Sequence,
    },
    /// An older edition must not replace a newer one.
    #[error(
        "expected a renewal that was issued after the registered manifest ({stored}), found one of {found}"
    )]
    NotNewer {
        /// When the registered one was signed.
        stored: bc_protocol::time::Timestamp,
        /// When this one was.
        found: bc_protocol::time::Timestamp,
    },
    /// Sequences only grow.
    #[error("expected a sequence above {highest}, the highest that is registered, found {found}")]
    Rollback {
        /// The highest registered sequence.
        highest: Sequence,
        /// The manifest's.
        found: Sequence,
    },
    /// Nodes could not use it.
    #[error(transparent)]
    Artifacts(#[from] ArtifactError),
}

#[cfg(test)]
mod tests;

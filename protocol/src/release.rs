//! Signed releases: what a manifest says, and the one place that decides whether to believe it.
//!
//! Takes published bytes, gives a [`VerifiedManifest`] or exactly one [`Refusal`]. Control, the nodes and the offline
//! tools all judge here; nothing else in the project reads a manifest.

pub mod manifest;
pub mod refusal;
pub mod sign;
pub mod signature;
pub mod trust;
pub mod verify;

mod canonical;
mod envelope;
mod strict;

pub use manifest::{Artifact, Manifest};
pub use refusal::{Malformed, NotCanonical, Refusal};
pub use signature::PublicKey;
pub use trust::{Trust, TrustError};
pub use verify::{InstalledManifest, SignedManifest, VerifiedManifest, verify, verify_installed};

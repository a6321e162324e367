//! Releases: which signed manifests this control has registered.

pub(crate) mod admit;
pub(crate) mod artifact;
pub(crate) mod store;
pub(crate) mod verified;

/// The one program that this service moves through a fleet.
pub(crate) const PRODUCT: &str = "bcd";

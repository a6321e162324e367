//! The one byte form of a body: RFC 8785, with artifacts sorted by name.
//!
//! Takes a manifest that parsed, gives its canonical bytes, or says where other bytes differ from them. Every integer
//! of a manifest is bounded before it gets here: the canonical form would round one past 2^53 without a word.

use super::manifest::Manifest;
use super::refusal::NotCanonical;

/// The bytes that are signed for `manifest`.
pub(super) fn bytes_of(manifest: &Manifest) -> Result<Vec<u8>, serde_json::Error> {
    serde_json_canonicalizer::to_vec(manifest)
}

/// Accepts `body`, which parsed as `manifest`, only if no other bytes could mean the same.
pub(super) fn check(body: &[u8], manifest: &Manifest) -> Result<(), NotCanonical> {
    let unsorted = manifest.artifacts().windows(2).find_map(|pair| match pair {
        [earlier, later] if earlier.name() >= later.name() => Some(later.name().to_owned()),
        _ => None,
    });
    if let Some(name) = unsorted {
        return Err(NotCanonical::Unsorted { name });
    }
    let canonical = bytes_of(manifest).map_err(|_| NotCanonical::Form { offset: 0 })?;
    if canonical == body {
        return Ok(());
    }
    // One may be the other's beginning; then they differ where the shorter ends.
    let offset = canonical
        .iter()
        .zip(body)
        .position(|(canonical, found)| canonical != found)
        .unwrap_or_else(|| canonical.len().min(body.len()));
    Err(NotCanonical::Form { offset })
}

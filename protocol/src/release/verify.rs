//! The judgement on a published manifest. There is no other in the project.
//!
//! Takes published bytes, a [`Trust`], the product and, for a new install, the time; gives a manifest that carries the
//! proof in its type, or exactly one [`Refusal`]. The reasons come in a fixed order, so that everybody names the same.

use std::collections::BTreeSet;
use std::ops::Deref;

use super::canonical;
use super::envelope::Envelope;
use super::manifest::Manifest;
use super::refusal::Refusal;
use super::trust::Trust;
use crate::digest::Pin;
use crate::time::Timestamp;

/// Believes `published` if enough keys of `trust` signed it as a release of `product` that has not expired at `now`.
pub fn verify(
    published: &[u8],
    trust: &Trust,
    product: &str,
    now: Timestamp,
) -> Result<VerifiedManifest, Refusal> {
    let signed = check(published, trust, product)?;
    if now >= signed.expires_at() {
        return Err(Refusal::Expired {
            expired_at: signed.expires_at(),
            now,
        });
    }
    Ok(VerifiedManifest(signed))
}

/// Believes `published` as [`verify`] does, whatever the time: for what was admitted before and is only looked at again.
/// Expiry stops new installs, so the type that comes back is none that an install takes.
pub fn verify_installed(
    published: &[u8],
    trust: &Trust,
    product: &str,
) -> Result<InstalledManifest, Refusal> {
    check(published, trust, product).map(InstalledManifest)
}

fn check(published: &[u8], trust: &Trust, product: &str) -> Result<SignedManifest, Refusal> {
    let envelope = Envelope::parse(published)?;
    let manifest = Manifest::parse(&envelope.body)?;
    let signers = pinned_signers(&envelope, &manifest, trust);
    if signers.len() < trust.threshold().get() {
        return Err(Refusal::Threshold {
            need: trust.threshold(),
            have: signers.len(),
        });
    }
    canonical::check(&envelope.body, &manifest)?;
    if manifest.product() != product {
        return Err(Refusal::Product {
            expected: product.to_owned(),
            found: manifest.product().to_owned(),
        });
    }
    Ok(SignedManifest {
        manifest,
        signers,
        body: envelope.body,
        published: published.to_vec(),
    })
}

/// The pinned keys that signed: a set, not a count, so that one key that signs twice is one signer. A `kid` only says
/// which listed key to ask; what is counted is the pin that was computed from that key.
fn pinned_signers(envelope: &Envelope, manifest: &Manifest, trust: &Trust) -> BTreeSet<Pin> {
    let mut signers = BTreeSet::new();
    for signature in &envelope.signatures {
        let Some(key) = manifest.key(signature.kid) else {
            continue;
        };
        // What cannot change the answer is not computed: a check on the curve is the dearest step here.
        let counts = trust.pins().contains(&key.pin()) && !signers.contains(&key.pin());
        if counts && key.verifies(&envelope.body, &signature.sig.0) {
            signers.insert(key.pin());
        }
    }
    signers
}

/// A manifest that enough pinned keys signed, and that had not expired when it was judged. Only [`verify`] makes one,
/// so holding it is the proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedManifest(SignedManifest);

/// A manifest that enough pinned keys signed, possibly expired since. Good for what is already there: going back,
/// starting a slot, serving what was registered. Only [`verify_installed`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledManifest(SignedManifest);

/// What the two have in common. It reads as the [`Manifest`] that it proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedManifest {
    manifest: Manifest,
    signers: BTreeSet<Pin>,
    body: Vec<u8>,
    published: Vec<u8>,
}

impl SignedManifest {
    /// The pinned keys that signed.
    #[must_use]
    pub const fn signers(&self) -> &BTreeSet<Pin> {
        &self.signers
    }

    /// The bytes that were signed.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The bytes that were judged, to be kept and handed on as they are.
    #[must_use]
    pub fn published(&self) -> &[u8] {
        &self.published
    }
}

impl Deref for VerifiedManifest {
    type Target = SignedManifest;

    fn deref(&self) -> &SignedManifest {
        &self.0
    }
}

impl Deref for InstalledManifest {
    type Target = SignedManifest;

    fn deref(&self) -> &SignedManifest {
        &self.0
    }
}

impl Deref for SignedManifest {
    type Target = Manifest;

    fn deref(&self) -> &Manifest {
        &self.manifest
    }
}

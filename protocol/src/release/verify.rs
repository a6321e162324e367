//! The judgement on a published manifest. There is no other in the project.
//!
//! Takes published bytes, a [`Trust`], the product and, for a new install, the time; gives a manifest that carries the
//! proof in its type, or exactly one [`Refusal`]. The reasons come in a fixed order, so that everybody names the same.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::Deref;

use thiserror::Error;

use super::canonical;
use super::envelope::Envelope;
use super::manifest::Manifest;
use super::trust::Trust;
use crate::digest::Pin;
use crate::limits::{BODY_BYTES_MAX, PUBLISHED_BYTES_MAX};
use crate::text::excerpt;
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

/// Why a manifest is not believed. The first that holds, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It does not parse, or breaks a limit.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Too few of the pinned keys signed.
    #[error("expected valid signatures of {need} pinned keys, found {have}")]
    Threshold {
        /// How many are needed.
        need: NonZeroUsize,
        /// How many distinct pinned keys signed.
        have: usize,
    },
    /// Other bytes would mean the same.
    #[error(transparent)]
    NotCanonical(#[from] NotCanonical),
    /// It is a release of something else.
    #[error(
        "expected a release of {expected}, found one of \"{}\"",
        excerpt(found)
    )]
    Product {
        /// The product asked for.
        expected: String,
        /// The product that the manifest names.
        found: String,
    },
    /// Its time is over.
    #[error(
        "expected a manifest that has not expired by {now}, found one that expired at {expired_at}"
    )]
    Expired {
        /// When it expired.
        expired_at: Timestamp,
        /// When it was judged.
        now: Timestamp,
    },
}

impl Refusal {
    /// The reason in one word, as commands, errors and reports name it.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::Threshold { .. } => "threshold",
            Self::NotCanonical(_) => "not-canonical",
            Self::Product { .. } => "product",
            Self::Expired { .. } => "expired",
        }
    }
}

/// What keeps bytes from being a manifest at all.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// Too large to be looked at.
    #[error("expected a file of at most {PUBLISHED_BYTES_MAX} bytes, found {found}")]
    FileSize {
        /// Its size.
        found: usize,
    },
    /// The file is not of the published form.
    #[error("the file does not read as a published manifest: {problem}")]
    File {
        /// What the reader stopped at.
        problem: String,
    },
    /// The body is not in the one base64 form.
    #[error("the body is not in standard base64: {problem}")]
    BodyEncoding {
        /// What the decoder stopped at.
        problem: String,
    },
    /// The body is too large to be parsed.
    #[error("expected a body of at most {BODY_BYTES_MAX} bytes, found {found}")]
    BodySize {
        /// Its size.
        found: usize,
    },
    /// The body is not of the manifest's form.
    #[error("the body does not read as a manifest: {problem}")]
    Body {
        /// What the reader stopped at.
        problem: String,
    },
}

/// How a body that parses differs from its canonical form.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotCanonical {
    /// Another spelling of the same.
    #[error("expected the body in its canonical form, found other bytes from offset {offset} on")]
    Form {
        /// The first byte that differs.
        offset: usize,
    },
    /// Artifacts in another order.
    #[error(
        "expected artifacts in the order of their names, found \"{}\" too late",
        excerpt(name)
    )]
    Unsorted {
        /// The first artifact that should have come earlier.
        name: String,
    },
}

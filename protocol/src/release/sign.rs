//! Making and signing manifests, for the offline tools alone.
//!
//! Takes a draft and private keys, gives published bytes. What it gives it has read back through the parser that
//! judges, so it never signs what readers would refuse to read. Draws no randomness: signatures are deterministic.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use p256::ecdsa::signature::Signer as _;
use p256::pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _, EncodePublicKey as _, LineEnding};
use thiserror::Error;
use zeroize::Zeroizing;

use super::canonical;
use super::envelope::Envelope;
use super::manifest::{Artifact, DocumentType, Manifest, SpecNumber};
use super::refusal::{Malformed, NotCanonical};
use super::signature::{PublicKey, PublicKeyError, RawSignature, Signature};
use crate::digest::Pin;
use crate::limits::{BODY_BYTES_MAX, PUBLISHED_BYTES_MAX, SIGNATURES_MAX};
use crate::sequence::Sequence;
use crate::time::Timestamp;
use crate::version::Version;

/// A private P-256 key. Its memory is overwritten when it goes.
pub struct SigningKey {
    private: p256::ecdsa::SigningKey,
    public: PublicKey,
}

impl SigningKey {
    /// The key of this secret number, drawn by the caller. About one number in 2^32 is refused: draw another.
    pub fn from_scalar(scalar: &[u8; 32]) -> Result<Self, KeyError> {
        let private = p256::ecdsa::SigningKey::from_slice(scalar).map_err(|_| KeyError::Scalar)?;
        Self::with_private(private)
    }

    /// Reads a PKCS#8 `PRIVATE KEY` in PEM.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let private = p256::ecdsa::SigningKey::from_pkcs8_pem(pem).map_err(|_| KeyError::NotPem)?;
        Self::with_private(private)
    }

    fn with_private(private: p256::ecdsa::SigningKey) -> Result<Self, KeyError> {
        let spki = private
            .verifying_key()
            .to_public_key_der()
            .map_err(|_| KeyError::Encoding)?;
        let public = PublicKey::from_spki(spki.as_bytes())?;
        Ok(Self { private, public })
    }

    /// The key as PKCS#8 in PEM; the text is overwritten when it goes.
    pub fn to_pem(&self) -> Result<Zeroizing<String>, KeyError> {
        self.private
            .to_pkcs8_pem(LineEnding::LF)
            .map_err(|_| KeyError::Encoding)
    }

    /// Its public half.
    #[must_use]
    pub const fn public(&self) -> &PublicKey {
        &self.public
    }

    /// What trust names this key by.
    #[must_use]
    pub const fn pin(&self) -> Pin {
        self.public.pin()
    }

    fn sign(&self, body: &[u8]) -> Signature {
        let signature: p256::ecdsa::Signature = self.private.sign(body);
        Signature {
            kid: self.pin(),
            sig: RawSignature(signature.to_bytes().into()),
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SigningKey({})", self.pin())
    }
}

/// Why something is no private key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// Zero, or not below the order of the curve.
    #[error("expected a secret number of the curve P-256, found one out of its range")]
    Scalar,
    /// Another format, another curve, or encrypted.
    #[error("expected an unencrypted PKCS#8 P-256 private key in PEM, found something else")]
    NotPem,
    /// The key cannot be written.
    #[error("expected a key that can be encoded, found one that cannot")]
    Encoding,
    /// Its public half is none of ours.
    #[error(transparent)]
    Public(#[from] PublicKeyError),
}

/// What is to become a manifest.
#[derive(Clone, Debug)]
pub struct ManifestDraft {
    /// The program that it is a release of.
    pub product: String,
    /// The version, as people name it.
    pub version: Version,
    /// The place among all releases of the product; at least 1.
    pub sequence: Sequence,
    /// Now.
    pub issued_at: Timestamp,
    /// From when on it must not be installed anew.
    pub expires_at: Timestamp,
    /// The keys that may sign it.
    pub keys: Vec<PublicKey>,
    /// Further facts; left out where there are none.
    pub extensions: BTreeMap<String, String>,
    /// The files, in any order.
    pub artifacts: Vec<Artifact>,
}

impl ManifestDraft {
    /// The bytes to sign: canonical, and read back as every reader will read them.
    pub fn into_body(mut self) -> Result<Vec<u8>, SignError> {
        if self.expires_at <= self.issued_at {
            return Err(SignError::NeverValid {
                issued_at: self.issued_at,
                expires_at: self.expires_at,
            });
        }
        self.artifacts
            .sort_by(|one, other| one.name().cmp(other.name()));
        let manifest = Manifest {
            kind: DocumentType,
            spec: SpecNumber,
            product: self.product,
            version: self.version,
            sequence: self.sequence,
            issued_at: self.issued_at,
            expires_at: self.expires_at,
            keys: self.keys,
            ext: Some(self.extensions).filter(|extensions| !extensions.is_empty()),
            artifacts: self.artifacts,
        };
        let body = canonical::bytes_of(&manifest).map_err(|_| SignError::Encoding)?;
        if body.len() > BODY_BYTES_MAX {
            return Err(Malformed::BodySize { found: body.len() }.into());
        }
        Manifest::parse(&body)?;
        Ok(body)
    }
}

/// Publishes `body` with one signature.
pub fn sign(body: Vec<u8>, key: &SigningKey) -> Result<Vec<u8>, SignError> {
    Unjudged::new(Envelope {
        body,
        signatures: Vec::new(),
    })?
    .signed_by(key)
}

/// A published manifest that nobody has judged: what a further signer looks at before signing.
#[derive(Clone, Debug)]
pub struct Unjudged {
    envelope: Envelope,
    manifest: Manifest,
}

impl Unjudged {
    /// Opens a published file. It must parse and be canonical; no signature is looked at.
    pub fn open(published: &[u8]) -> Result<Self, SignError> {
        Self::new(Envelope::parse(published)?)
    }

    fn new(envelope: Envelope) -> Result<Self, SignError> {
        let manifest = Manifest::parse(&envelope.body)?;
        canonical::check(&envelope.body, &manifest)?;
        Ok(Self { envelope, manifest })
    }

    /// What it claims to be.
    #[must_use]
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The keys whose signatures over it are good, among those that it lists itself. Nobody has said that they are
    /// anybody's: that is for [`verify`](super::verify()) to judge.
    #[must_use]
    pub fn signers(&self) -> BTreeSet<Pin> {
        let body = &self.envelope.body;
        let signatures = self.envelope.signatures.iter();
        let good = signatures.filter_map(|signature| {
            let key = self.manifest.key(signature.kid)?;
            key.verifies(body, &signature.sig.0).then(|| key.pin())
        });
        good.collect()
    }

    /// The published file with `key`'s signature added. Signing again with the same key changes nothing.
    pub fn signed_by(mut self, key: &SigningKey) -> Result<Vec<u8>, SignError> {
        if self.manifest.key(key.pin()).is_none() {
            return Err(SignError::Unlisted { pin: key.pin() });
        }
        let signatures = &mut self.envelope.signatures;
        signatures.retain(|signature| signature.kid != key.pin());
        if signatures.len() >= SIGNATURES_MAX {
            return Err(SignError::TooManySignatures);
        }
        signatures.push(key.sign(&self.envelope.body));
        let published = self
            .envelope
            .to_published()
            .map_err(|_| SignError::Encoding)?;
        if published.len() > PUBLISHED_BYTES_MAX {
            return Err(Malformed::FileSize {
                found: published.len(),
            }
            .into());
        }
        Ok(published)
    }
}

/// Adds `key`'s signature to a published manifest.
pub fn cosign(published: &[u8], key: &SigningKey) -> Result<Vec<u8>, SignError> {
    Unjudged::open(published)?.signed_by(key)
}

/// Why a manifest is not signed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SignError {
    /// No reader would read it.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// No reader would accept its form.
    #[error(transparent)]
    NotCanonical(#[from] NotCanonical),
    /// The body does not say that this key may sign it.
    #[error(
        "expected a key that the manifest lists, found {pin}: whoever signs first names it with --cosigners"
    )]
    Unlisted {
        /// The key that wanted to sign.
        pin: Pin,
    },
    /// It would have expired before it was issued.
    #[error("expected an expiry after {issued_at}, found {expires_at}")]
    NeverValid {
        /// When it is issued.
        issued_at: Timestamp,
        /// When it would expire.
        expires_at: Timestamp,
    },
    /// A reader stops at the limit.
    #[error("expected fewer than {SIGNATURES_MAX} other signatures, found as many")]
    TooManySignatures,
    /// The manifest cannot be written.
    #[error("expected a manifest that can be encoded, found one that cannot")]
    Encoding,
}

impl SignError {
    /// The reason in one word, as the offline tools print it.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::NotCanonical(_) => "not-canonical",
            Self::Unlisted { .. } => "unlisted-key",
            Self::NeverValid { .. } => "never-valid",
            Self::TooManySignatures => "too-many-signatures",
            Self::Encoding => "encoding",
        }
    }
}

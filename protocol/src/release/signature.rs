//! Public keys and the signatures they check.
//!
//! Takes SPKI DER and raw `r‖s`, gives yes or no. A key has one encoding here, so that it has one pin.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use p256::ecdsa::VerifyingKey;
use p256::ecdsa::signature::Verifier as _;
use p256::pkcs8::{Document, EncodePublicKey as _, LineEnding};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::digest::Pin;
use crate::text::excerpt;

/// How the SPKI DER of every uncompressed P-256 key begins; 64 bytes of coordinates follow.
const SPKI_PREFIX: [u8; 27] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04,
];
const SPKI_BYTES: usize = 91;

/// A P-256 key that can check signatures.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    pin: Pin,
    spki: [u8; SPKI_BYTES],
    key: VerifyingKey,
}

impl PublicKey {
    /// Accepts the 91 bytes of an uncompressed P-256 key, and nothing else that decodes to the same key.
    pub fn from_spki(spki: &[u8]) -> Result<Self, PublicKeyError> {
        let spki: [u8; SPKI_BYTES] = spki
            .try_into()
            .map_err(|_| PublicKeyError::Length { found: spki.len() })?;
        let coordinates = spki
            .strip_prefix(&SPKI_PREFIX)
            .ok_or(PublicKeyError::Form)?;
        let mut point = vec![0x04];
        point.extend_from_slice(coordinates);
        let key = VerifyingKey::from_sec1_bytes(&point).map_err(|_| PublicKeyError::NotOnCurve)?;
        Ok(Self {
            pin: Pin::of_spki(&spki),
            spki,
            key,
        })
    }

    /// Accepts a `PUBLIC KEY` in PEM that holds such a key.
    pub fn from_pem(pem: &str) -> Result<Self, PublicKeyError> {
        let (label, der) = Document::from_pem(pem).map_err(|_| PublicKeyError::NotPem)?;
        if label != "PUBLIC KEY" {
            return Err(PublicKeyError::Label {
                found: label.to_owned(),
            });
        }
        Self::from_spki(der.as_bytes())
    }

    /// The key in PEM.
    pub fn to_pem(&self) -> Result<String, PublicKeyError> {
        self.key
            .to_public_key_pem(LineEnding::LF)
            .map_err(|_| PublicKeyError::Form)
    }

    /// What trust names this key by.
    #[must_use]
    pub const fn pin(&self) -> Pin {
        self.pin
    }

    /// The key as SPKI DER.
    #[must_use]
    pub const fn spki(&self) -> &[u8; SPKI_BYTES] {
        &self.spki
    }

    /// Whether this key made `signature` over `message`. For each valid `(r, s)`, `(r, n-s)` is valid too.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        p256::ecdsa::Signature::from_slice(signature)
            .is_ok_and(|parsed| self.key.verify(message, &parsed).is_ok())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PublicKey({})", self.pin)
    }
}

/// Why bytes are no key of ours.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PublicKeyError {
    /// Compressed, of another curve, or no key at all.
    #[error(
        "expected the {SPKI_BYTES} bytes of an uncompressed P-256 public key, found {found} bytes"
    )]
    Length {
        /// How many bytes were given.
        found: usize,
    },
    /// The right length, but another algorithm, curve or point form.
    #[error("expected the DER of an uncompressed P-256 public key, found another structure")]
    Form,
    /// The coordinates are no point of the curve.
    #[error("expected a point on the curve P-256, found coordinates beside it")]
    NotOnCurve,
    /// No PEM.
    #[error("expected a public key in PEM, found something else")]
    NotPem,
    /// PEM of something else.
    #[error("expected a PEM of label PUBLIC KEY, found {}", excerpt(found))]
    Label {
        /// The label given.
        found: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyEntry {
    kid: Pin,
    alg: String,
    spki: String,
}

const ALGORITHM: &str = "ES256";

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        KeyEntry {
            kid: self.pin,
            alg: ALGORITHM.to_owned(),
            spki: STANDARD.encode(self.spki),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entry = KeyEntry::deserialize(deserializer)?;
        if entry.alg != ALGORITHM {
            let found = excerpt(&entry.alg);
            return Err(D::Error::custom(format_args!(
                "expected a key for {ALGORITHM}, found {found}"
            )));
        }
        let spki = STANDARD.decode(&entry.spki).map_err(D::Error::custom)?;
        let key = Self::from_spki(&spki).map_err(D::Error::custom)?;
        if key.pin != entry.kid {
            let (pin, kid) = (key.pin, entry.kid);
            return Err(D::Error::custom(format_args!(
                "expected the key's own pin {pin} as its kid, found {kid}"
            )));
        }
        Ok(key)
    }
}

/// One signature of a published manifest. Which key made it is a claim until that key has checked it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Signature {
    pub(super) kid: Pin,
    pub(super) sig: RawSignature,
}

/// The 64 bytes of `r‖s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawSignature(pub(super) [u8; 64]);

impl Serialize for RawSignature {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(self.0))
    }
}

impl<'de> Deserialize<'de> for RawSignature {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD.decode(&text).map_err(D::Error::custom)?;
        let found = bytes.len();
        let raw = bytes.try_into().map_err(|_| {
            D::Error::custom(format_args!(
                "expected a signature of 64 bytes, found {found}"
            ))
        })?;
        Ok(Self(raw))
    }
}

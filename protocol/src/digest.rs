//! Digests of bytes, and pins of public keys.
//!
//! Takes bytes or their text, gives [`Sha256`] and [`Pin`]. Accepts one spelling of each: lower-case hex, and standard
//! base64 with its padding.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::Digest as _;
use thiserror::Error;

use crate::text::{excerpt, serde_as_text};

/// A SHA-256 digest; its text is 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256([u8; 32]);

impl Sha256 {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// A digest in the making, for what comes in pieces.
    #[must_use]
    pub fn hasher() -> Sha256Hasher {
        Sha256Hasher(sha2::Sha256::new())
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Digests a stream piece by piece.
#[derive(Clone, Debug)]
pub struct Sha256Hasher(sha2::Sha256);

impl Sha256Hasher {
    /// Adds the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The digest of all pieces in order.
    #[must_use]
    pub fn finish(self) -> Sha256 {
        Sha256(self.0.finalize().into())
    }
}

/// The name of a public key: the SHA-256 digest of its SPKI DER. Its text is `sha256/` and 44 characters of base64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pin([u8; 32]);

impl Pin {
    const PREFIX: &str = "sha256/";

    /// The pin of a key, given as SPKI DER.
    #[must_use]
    pub fn of_spki(spki: &[u8]) -> Self {
        Self(Sha256::of(spki).0)
    }

    /// The 32 bytes of the digest.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Why a text is no digest or pin.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DigestError {
    /// A digest has one spelling.
    #[error(
        "expected 64 lower-case hexadecimal digits, found \"{}\"",
        excerpt(found)
    )]
    Hex {
        /// The text given.
        found: String,
    },
    /// A pin has one spelling.
    #[error(
        "expected \"sha256/\" and 44 characters of standard base64, found \"{}\"",
        excerpt(found)
    )]
    Pin {
        /// The text given.
        found: String,
    },
}

impl From<[u8; 32]> for Sha256 {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl FromStr for Sha256 {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let refused = || DigestError::Hex {
            found: text.to_owned(),
        };
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(refused());
        }
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| refused())?;
        Ok(Self(bytes))
    }
}

impl FromStr for Pin {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        text.strip_prefix(Self::PREFIX)
            .and_then(|encoded| STANDARD.decode(encoded).ok())
            .and_then(|bytes| bytes.try_into().ok())
            .map(Self)
            .ok_or_else(|| DigestError::Pin {
                found: text.to_owned(),
            })
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&hex::encode(self.0))
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&format!("{}{}", Self::PREFIX, STANDARD.encode(self.0)))
    }
}

// Logs show digests and pins through `Debug` of what holds them: the text is what a person can compare.
impl fmt::Debug for Sha256 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Sha256({self})")
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Pin({self})")
    }
}

serde_as_text!(Sha256);
serde_as_text!(Pin);

#[cfg(test)]
mod tests {
    use super::{Pin, Sha256};

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const EMPTY_PIN: &str = "sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";

    #[test]
    fn the_digest_of_nothing_is_the_known_one() {
        assert_eq!(Sha256::of(b"").to_string(), EMPTY);
        assert_eq!(Pin::of_spki(b"").to_string(), EMPTY_PIN);
        assert_eq!(EMPTY.parse::<Sha256>().unwrap(), Sha256::of(b""));
        assert_eq!(EMPTY_PIN.parse::<Pin>().unwrap(), Pin::of_spki(b""));
    }

    #[test]
    fn pieces_make_the_digest_of_the_whole() {
        let mut hasher = Sha256::hasher();
        hasher.update(b"one ");
        hasher.update(b"");
        hasher.update(b"release");
        assert_eq!(hasher.finish(), Sha256::of(b"one release"));
    }

    #[test]
    fn a_digest_has_one_spelling() {
        let upper = EMPTY.to_uppercase();
        let long = format!("{EMPTY}00");
        for text in [
            "",
            upper.as_str(),
            &EMPTY[1..],
            &EMPTY[2..],
            long.as_str(),
            &EMPTY.replace('e', "g"),
        ] {
            assert!(text.parse::<Sha256>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_pin_has_one_spelling() {
        for text in [
            "",
            "sha256/",
            "sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU",
            "sha256/47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU=",
            "sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFV=",
            "sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n",
            "SHA256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
            "sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuA==",
            "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
        ] {
            assert!(text.parse::<Pin>().is_err(), "{text:?}");
        }
    }
}

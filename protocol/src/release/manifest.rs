//! What a manifest says.
//!
//! Takes the bytes of a body, gives a [`Manifest`]: everything it may hold and no more, within its limits. That a
//! manifest parses says nothing about who wrote it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

use super::refusal::Malformed;
use super::signature::PublicKey;
use super::strict;
use crate::digest::{Pin, Sha256};
use crate::limits::{
    ARTIFACT_BYTES_MAX, ARTIFACT_NAME_BYTES_MAX, ARTIFACTS_MAX, EXTENSIONS_MAX, KEYS_MAX,
};
use crate::platform::{Platform, is_bare_binary};
use crate::sequence::Sequence;
use crate::text::excerpt;
use crate::time::Timestamp;
use crate::version::Version;

/// One version's files, as a body lists them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    #[serde(rename = "type")]
    pub(super) kind: DocumentType,
    pub(super) spec: SpecNumber,
    pub(super) product: String,
    #[serde(deserialize_with = "stored_version")]
    pub(super) version: Version,
    pub(super) sequence: Sequence,
    pub(super) issued_at: Timestamp,
    pub(super) expires_at: Timestamp,
    #[serde(deserialize_with = "strict::objects::<_, _, KEYS_MAX>")]
    pub(super) keys: Vec<PublicKey>,
    #[serde(
        default,
        deserialize_with = "strict::present_texts::<_, EXTENSIONS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) ext: Option<BTreeMap<String, String>>,
    #[serde(deserialize_with = "strict::objects::<_, _, ARTIFACTS_MAX>")]
    pub(super) artifacts: Vec<Artifact>,
}

impl Manifest {
    /// Reads a body, and holds it to every rule that does not need trust, canonical form or the time.
    pub(super) fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let manifest: Self = strict::object_from_slice(body).map_err(|error| Malformed::Body {
            problem: excerpt(&error.to_string()),
        })?;
        manifest
            .check_contents()
            .map_err(|problem| Malformed::Body { problem })?;
        Ok(manifest)
    }

    /// The rules that concern more than one field, or that a field's type does not hold.
    fn check_contents(&self) -> Result<(), String> {
        if self.sequence == Sequence::PACKAGED {
            return Err("expected a sequence of at least 1, found 0".to_owned());
        }
        if let Some(pin) = repeated(self.keys.iter().map(PublicKey::pin)) {
            return Err(format!("expected each key once, found {pin} twice"));
        }
        if let Some(name) = repeated(self.artifacts.iter().map(Artifact::name)) {
            return Err(format!(
                "expected each artifact's name once, found \"{}\" twice",
                excerpt(name)
            ));
        }
        if let Some(key) = self
            .ext
            .iter()
            .flatten()
            .map(|(key, _)| key)
            .find(|key| key.starts_with('!'))
        {
            return Err(format!(
                "expected no extension that must be understood, found \"{}\"",
                excerpt(key)
            ));
        }
        Ok(())
    }

    /// The program that this is a release of.
    #[must_use]
    pub fn product(&self) -> &str {
        &self.product
    }

    /// The version, as people name it.
    #[must_use]
    pub const fn version(&self) -> &Version {
        &self.version
    }

    /// The place among all releases of the product.
    #[must_use]
    pub const fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// When it was signed, by its signer's clock.
    #[must_use]
    pub const fn issued_at(&self) -> Timestamp {
        self.issued_at
    }

    /// From when on it must not be installed anew.
    #[must_use]
    pub const fn expires_at(&self) -> Timestamp {
        self.expires_at
    }

    /// The keys that may sign it. That a key is listed is its own claim: only pins make one count.
    #[must_use]
    pub fn keys(&self) -> &[PublicKey] {
        &self.keys
    }

    /// The listed key of that name.
    #[must_use]
    pub fn key(&self, pin: Pin) -> Option<&PublicKey> {
        self.keys.iter().find(|key| key.pin() == pin)
    }

    /// Further facts, for readers that know them.
    pub fn extensions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.ext
            .iter()
            .flatten()
            .map(|(key, text)| (key.as_str(), text.as_str()))
    }

    /// The files, by name.
    #[must_use]
    pub fn artifacts(&self) -> &[Artifact] {
        &self.artifacts
    }

    /// The bare binary for `platform`. None where there are two: a choice between them is nobody's to make.
    #[must_use]
    pub fn artifact_for(&self, platform: &Platform) -> Option<&Artifact> {
        let mut candidates = self
            .artifacts
            .iter()
            .filter(|artifact| artifact.platform() == Some(platform) && artifact.is_bare_binary());
        match (candidates.next(), candidates.next()) {
            (Some(only), None) => Some(only),
            (None | Some(_), _) => None,
        }
    }

    /// Whether the two are one release, apart from what a renewal may change: the dates and the keys.
    #[must_use]
    pub fn is_same_release_as(&self, other: &Self) -> bool {
        let dated_like_other = Self {
            issued_at: other.issued_at,
            expires_at: other.expires_at,
            keys: other.keys.clone(),
            ..self.clone()
        };
        dated_like_other == *other
    }
}

fn repeated<T: Ord + Copy>(items: impl IntoIterator<Item = T>) -> Option<T> {
    let mut seen = BTreeSet::new();
    items.into_iter().find(|item| !seen.insert(*item))
}

/// A leading `v` is for people to type; in a body it would be a second spelling.
fn stored_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Version, D::Error> {
    let text = String::deserialize(deserializer)?;
    let version: Version = text.parse().map_err(serde::de::Error::custom)?;
    if version.as_str() != text {
        return Err(serde::de::Error::custom(
            "expected a version without a leading v",
        ));
    }
    Ok(version)
}

/// The one type of document that this parser reads. Keys that sign releases may sign other documents too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct DocumentType;

impl DocumentType {
    const TEXT: &str = "bettercompute.release";
}

impl TryFrom<String> for DocumentType {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text != Self::TEXT {
            return Err(format!(
                "expected the type \"{}\", found \"{}\"",
                Self::TEXT,
                excerpt(&text)
            ));
        }
        Ok(Self)
    }
}

impl From<DocumentType> for String {
    fn from(_: DocumentType) -> Self {
        DocumentType::TEXT.to_owned()
    }
}

/// The one edition of the manifest that this parser reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub(super) struct SpecNumber;

impl SpecNumber {
    const NUMBER: u64 = 1;
}

impl TryFrom<u64> for SpecNumber {
    type Error = String;

    fn try_from(number: u64) -> Result<Self, String> {
        if number != Self::NUMBER {
            return Err(format!("expected spec {}, found {number}", Self::NUMBER));
        }
        Ok(Self)
    }
}

impl From<SpecNumber> for u64 {
    fn from(_: SpecNumber) -> Self {
        SpecNumber::NUMBER
    }
}

/// One file of a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ArtifactEntry")]
pub struct Artifact {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    platform: Option<Platform>,
    sha256: Sha256,
    size: u64,
}

impl Artifact {
    /// Accepts a name that is one component of a path, and a size from 1 byte to 512 MiB.
    pub fn new(
        name: String,
        platform: Option<Platform>,
        sha256: Sha256,
        size: u64,
    ) -> Result<Self, ArtifactError> {
        if !is_file_name(&name) {
            return Err(ArtifactError::Name { found: name });
        }
        if !(1..=ARTIFACT_BYTES_MAX).contains(&size) {
            return Err(ArtifactError::Size { name, found: size });
        }
        Ok(Self {
            name,
            platform,
            sha256,
            size,
        })
    }

    /// The file's name; safe as one component of a path.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it runs on, if it runs.
    #[must_use]
    pub const fn platform(&self) -> Option<&Platform> {
        self.platform.as_ref()
    }

    /// The digest of its bytes.
    #[must_use]
    pub const fn sha256(&self) -> Sha256 {
        self.sha256
    }

    /// How many bytes it has.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Whether it is the program itself, ready to run.
    #[must_use]
    pub fn is_bare_binary(&self) -> bool {
        is_bare_binary(&self.name, self.platform.as_ref())
    }
}

fn is_file_name(name: &str) -> bool {
    let length = 1..=ARTIFACT_NAME_BYTES_MAX;
    let unsafe_char = |found: char| found == '/' || found == '\\' || found.is_control();
    length.contains(&name.len()) && name != "." && name != ".." && !name.contains(unsafe_char)
}

/// Why a file can be no part of a release.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArtifactError {
    /// It would not stay in its folder, or not on its line.
    #[error(
        "expected a plain file name of at most {ARTIFACT_NAME_BYTES_MAX} bytes, found \"{}\"",
        excerpt(found)
    )]
    Name {
        /// The name given.
        found: String,
    },
    /// Empty, or more than a node keeps room for.
    #[error(
        "expected {} to have 1 to {ARTIFACT_BYTES_MAX} bytes, found {found}",
        excerpt(name)
    )]
    Size {
        /// The file.
        name: String,
        /// Its size.
        found: u64,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArtifactEntry {
    name: String,
    #[serde(default, deserialize_with = "strict::present")]
    platform: Option<Platform>,
    sha256: Sha256,
    size: u64,
}

impl TryFrom<ArtifactEntry> for Artifact {
    type Error = ArtifactError;

    fn try_from(entry: ArtifactEntry) -> Result<Self, ArtifactError> {
        Self::new(entry.name, entry.platform, entry.sha256, entry.size)
    }
}

//! A node's desired state, as it travels from control to the node.
//!
//! Takes wire messages, gives checked ones. It decides nothing: which version a node should run is control's
//! computation, and whether to believe it is the node's.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    digest::Sha256,
    id::AttemptId,
    limits::{PUBLISHED_BYTES_MAX, URL_BYTES_MAX},
    text::excerpt,
    version::Version,
    wire::node as wire,
};

/// What one node should be like. An order to nobody: a node that was away reads it when it returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeSpec {
    /// 1 when the node joins; grows whenever version, digest or attempt change.
    pub generation: u64,
    /// The release to run; absent where the node is to be left alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub daemon: Option<DaemonSection>,
}

/// The release that a node should run. It selects a signed release, it never defines one: the node holds every
/// field against the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DaemonSection {
    /// The release's version.
    pub version: Version,
    /// Where the bare binary for the node's platform can be fetched.
    pub url: String,
    /// The bare binary's digest.
    pub sha256: Sha256,
    /// The published manifest, byte for byte as it was registered; base64 in JSON.
    #[serde(with = "published")]
    pub signature: Vec<u8>,
    /// The attempt that reports are to name.
    pub attempt: AttemptId,
}

/// Why a spec from the wire cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("spec field {field}: expected {expected}, found {found}")]
pub struct SpecError {
    /// The attempt that the spec named, if that much could be read: the refusal is reported under it.
    pub attempt: Option<AttemptId>,
    /// The field that is wrong.
    pub field: &'static str,
    /// What it should have been.
    pub expected: &'static str,
    /// What it was; of a text, its beginning.
    pub found: String,
}

impl TryFrom<wire::NodeSpec> for NodeSpec {
    type Error = SpecError;

    fn try_from(spec: wire::NodeSpec) -> Result<Self, SpecError> {
        let daemon = spec.daemon.map(DaemonSection::try_from).transpose()?;
        Ok(Self {
            generation: spec.generation,
            daemon,
        })
    }
}

impl From<NodeSpec> for wire::NodeSpec {
    fn from(spec: NodeSpec) -> Self {
        Self {
            generation: spec.generation,
            daemon: spec.daemon.map(Into::into),
        }
    }
}

impl TryFrom<wire::DaemonSection> for DaemonSection {
    type Error = SpecError;

    fn try_from(section: wire::DaemonSection) -> Result<Self, SpecError> {
        let named = section.attempt.parse::<AttemptId>().ok();
        let wrong = |field, expected, found: String| SpecError {
            attempt: named.clone(),
            field,
            expected,
            found,
        };
        let attempt = named
            .clone()
            .ok_or_else(|| wrong("attempt", "an attempt id", excerpt(&section.attempt)))?;
        let version = section
            .version
            .parse()
            .map_err(|_| wrong("version", "MAJOR.MINOR.PATCH", excerpt(&section.version)))?;
        let sha256 = <[u8; 32]>::try_from(section.sha256.as_ref()).map_err(|_| {
            wrong(
                "sha256",
                "32 bytes",
                format!("{} bytes", section.sha256.len()),
            )
        })?;
        if section.url.len() > URL_BYTES_MAX {
            return Err(wrong(
                "url",
                "at most 2048 bytes",
                format!("{} bytes", section.url.len()),
            ));
        }
        if section.signature.len() > PUBLISHED_BYTES_MAX {
            let found = format!("{} bytes", section.signature.len());
            return Err(wrong("signature", "at most 128 KiB", found));
        }
        Ok(Self {
            version,
            url: section.url,
            sha256: Sha256::from(sha256),
            signature: section.signature.to_vec(),
            attempt,
        })
    }
}

impl From<DaemonSection> for wire::DaemonSection {
    fn from(section: DaemonSection) -> Self {
        Self {
            version: section.version.to_string(),
            url: section.url,
            sha256: section.sha256.as_bytes().to_vec().into(),
            signature: section.signature.into(),
            attempt: section.attempt.to_string(),
        }
    }
}

mod published {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD.decode(text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(attempt: &str, version: &str) -> String {
        let section = wire::DaemonSection {
            version: version.to_owned(),
            attempt: attempt.to_owned(),
            sha256: vec![0; 32].into(),
            ..Default::default()
        };
        DaemonSection::try_from(section).unwrap_err().to_string()
    }

    /// Whoever sends specs has a say in what a node logs of them, and none in how much.
    #[test]
    fn a_refusal_is_short_whatever_the_spec_holds() {
        let attempt = AttemptId::derived(&[b"one"]);
        for text in ["x".repeat(900_000), "\u{1}".repeat(900_000)] {
            for refusal in [refusal(&text, "1.0.0"), refusal(attempt.as_str(), &text)] {
                assert!(refusal.starts_with("spec field "), "{refusal}");
                assert!(refusal.len() < 2000, "{} bytes", refusal.len());
            }
        }
    }
}

//! The published file: a body and the signatures over it.
//!
//! Takes and gives JSON bytes. Says nothing about whether a signature holds, or whose it is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::refusal::Malformed;
use super::signature::Signature;
use super::strict;
use crate::limits::{BODY_BYTES_MAX, PUBLISHED_BYTES_MAX, SIGNATURES_MAX};
use crate::text::excerpt;

/// A published manifest, opened but not judged.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    /// The bytes that signatures cover.
    pub(super) body: Vec<u8>,
    pub(super) signatures: Vec<Signature>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    manifest: String,
    #[serde(deserialize_with = "strict::objects::<_, _, SIGNATURES_MAX>")]
    signatures: Vec<Signature>,
}

impl Envelope {
    pub(super) fn parse(published: &[u8]) -> Result<Self, Malformed> {
        if published.len() > PUBLISHED_BYTES_MAX {
            return Err(Malformed::FileSize {
                found: published.len(),
            });
        }
        let file: File = strict::object_from_slice(published).map_err(|error| Malformed::File {
            problem: excerpt(&error.to_string()),
        })?;
        let body = STANDARD
            .decode(&file.manifest)
            .map_err(|error| Malformed::BodyEncoding {
                problem: error.to_string(),
            })?;
        if body.len() > BODY_BYTES_MAX {
            return Err(Malformed::BodySize { found: body.len() });
        }
        Ok(Self {
            body,
            signatures: file.signatures,
        })
    }

    pub(super) fn to_published(&self) -> Result<Vec<u8>, serde_json::Error> {
        let file = File {
            manifest: STANDARD.encode(&self.body),
            signatures: self.signatures.clone(),
        };
        serde_json::to_vec(&file)
    }
}

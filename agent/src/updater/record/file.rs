//! One copy of the record as bytes.
//!
//! Takes a record and its counter, gives JSON with a checksum over the record's own text; and the way back, where
//! anything but what was written is refused.

use bc_protocol::digest::Sha256;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use super::Record;
use crate::faults::{Fault, planted};

/// A record and how new it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Counted {
    pub(super) counter: u64,
    #[serde(flatten)]
    pub(super) record: Record,
}

/// Why bytes are no record.
#[derive(Debug, Error)]
pub(super) enum Damage {
    #[error("expected a record with its checksum, found other bytes")]
    Form(#[source] serde_json::Error),
    #[error("expected a record with the checksum {expected}, found one with {found}")]
    Checksum { expected: Sha256, found: Sha256 },
    #[error("expected the fields of a record, found others")]
    Fields(#[source] serde_json::Error),
    #[error("expected a record that can be true, found one that contradicts itself")]
    Unsound,
}

#[derive(Serialize, Deserialize)]
struct Copy<'a> {
    sha256: Sha256,
    #[serde(borrow)]
    record: &'a RawValue,
}

pub(super) fn encode(counted: &Counted) -> Result<Vec<u8>, serde_json::Error> {
    let record = serde_json::value::to_raw_value(counted)?;
    let mut bytes = serde_json::to_vec(&Copy {
        sha256: Sha256::of(record.get().as_bytes()),
        record: &record,
    })?;
    bytes.push(b'\n');
    Ok(bytes)
}

pub(super) fn decode(bytes: &[u8]) -> Result<Counted, Damage> {
    let copy: Copy<'_> = serde_json::from_slice(bytes).map_err(Damage::Form)?;
    let found = Sha256::of(copy.record.get().as_bytes());
    if found != copy.sha256 && !planted(Fault::NoChecksum) {
        let expected = copy.sha256;
        return Err(Damage::Checksum { expected, found });
    }
    let counted: Counted = serde_json::from_str(copy.record.get()).map_err(Damage::Fields)?;
    if !counted.record.is_sound() {
        return Err(Damage::Unsound);
    }
    Ok(counted)
}

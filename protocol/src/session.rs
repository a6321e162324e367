//! What a node and a gateway say to each other, once it has been checked.
//!
//! Takes frames from the wire, gives messages whose every field holds; and the way back. It keeps no state: the
//! machines on both sides of a session live with their processes.

mod certificate;
mod facts;
mod frames;
mod negotiate;
mod pace;

pub(crate) use certificate::check_request;
pub(crate) use frames::{check_labels, decode};

pub use facts::{AttemptFacts, Facts, Outcome, Phase, Progress, Slot, StartId, TrialFacts};
pub use frames::{
    Certificate, FromGateway, FromNode, Goodbye, GoodbyeReason, Hello, Nonce, StatusReport, Welcome,
};
pub use negotiate::{Agreement, Negotiation, ProtocolRange, negotiate};
pub use pace::Pace;

use thiserror::Error;

use crate::text::excerpt;

/// Why a frame cannot be read. The session that carried it ends.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// More bytes than a frame may have.
    #[error("frame: expected at most {max} bytes, found {found}")]
    TooLarge {
        /// Bytes found.
        found: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// Not a message of the schema.
    #[error("frame: expected a message of the schema, found other bytes: {0}")]
    Undecodable(String),
    /// A message without a body, or with one that this build does not know.
    #[error("frame: expected a body that this build knows, found none")]
    Empty,
    /// A field with a value that it must not have.
    #[error("field {field}: expected {expected}, found {found}")]
    Field {
        /// The field's name in the schema.
        field: &'static str,
        /// What it should have been.
        expected: &'static str,
        /// What it was.
        found: String,
    },
}

impl FrameError {
    /// A field with a wrong value. What was found is a stranger's text, and goes to logs: it is kept short, on one line.
    pub fn field(field: &'static str, expected: &'static str, found: impl ToString) -> Self {
        Self::Field {
            field,
            expected,
            found: excerpt(&found.to_string()),
        }
    }
}

//! What a node and its helper say to each other.
//!
//! Takes bytes, gives requests and replies, and the other way round. Pure. The version comes first: what an older helper
//! does not know it can still name. Nothing unknown is passed over.

use bc_protocol::digest::Sha256;
use bc_protocol::sequence::ReleaseFloor;
use bc_protocol::session::{Outcome, TrialFacts};
use bc_protocol::spec::DaemonSection;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use thiserror::Error;

use crate::updater::attempt::{Attempt, Ending};
use crate::updater::operations::Verdict;
use crate::updater::record::Installed;

/// What both sides have to speak.
const VERSION: u32 = 1;

/// What a node asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// What runs, and what is on trial.
    Status,
    /// Judge this release, take its binary, and try it out.
    Stage(Stage),
    /// Begin the trial of what was staged.
    Activate(Activate),
    /// Confirm the binary on trial.
    Confirm(Confirm),
    /// Give up this attempt: its trial, or the try that came to nothing before one.
    Cancel(Cancel),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stage {
    pub(super) section: DaemonSection,
    pub(super) binary: Binary,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Activate {
    pub(super) section: DaemonSection,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Confirm {
    pub(super) digest: Sha256,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cancel {
    pub(super) attempt: Attempt,
}

/// Where the binary to stage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Binary {
    /// In the one descriptor that comes with the request.
    Descriptor,
    /// In the spare slot.
    InPlace,
}

/// What a helper answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Answer {
    /// It is done, and on the disk.
    Done {},
    /// What the record says.
    Standing {
        floor: ReleaseFloor,
        confirmed: Installed,
        trial: Option<TrialFacts>,
    },
    /// Another binary's trial is to begin first.
    TrialWaits {},
    /// What was to be confirmed is not on trial.
    NotOnTrial {},
    /// The try has ended.
    Ended {
        outcome: Outcome,
        code: String,
        message: String,
    },
    /// Only the node's user may ask.
    Denied {},
    /// This helper does not know what was asked.
    Unsupported {},
    /// The request cannot be read.
    Malformed { problem: String },
    /// Too much is under way.
    Busy {},
}

/// An answer, and who gave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reply {
    version: u32,
    /// The helper's own version.
    pub(super) helper: String,
    pub(super) answer: Answer,
}

/// Why bytes are no request or reply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum WireError {
    #[error("expected a request of version {VERSION}, found another one")]
    Unsupported,
    #[error("expected what node and helper agreed on, found {problem}")]
    Malformed { problem: String },
}

/// All that every version has in common.
#[derive(Deserialize)]
struct Peek {
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    version: u32,
    operation: String,
    arguments: Box<RawValue>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

impl Request {
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        check_version(bytes)?;
        let head: Head = read(bytes)?;
        let arguments = head.arguments.get().as_bytes();
        match head.operation.as_str() {
            "update.status" => read(arguments).map(|NoArguments {}| Self::Status),
            "update.stage" => read(arguments).map(Self::Stage),
            "update.activate" => read(arguments).map(Self::Activate),
            "update.confirm" => read(arguments).map(Self::Confirm),
            "update.cancel" => read(arguments).map(Self::Cancel),
            _ => Err(WireError::Unsupported),
        }
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        let (operation, arguments) = match self {
            Self::Status => ("update.status", to_raw_value(&NoArguments {})?),
            Self::Stage(arguments) => ("update.stage", to_raw_value(arguments)?),
            Self::Activate(arguments) => ("update.activate", to_raw_value(arguments)?),
            Self::Confirm(arguments) => ("update.confirm", to_raw_value(arguments)?),
            Self::Cancel(arguments) => ("update.cancel", to_raw_value(arguments)?),
        };
        serde_json::to_vec(&Head {
            version: VERSION,
            operation: operation.to_owned(),
            arguments,
        })
    }

    /// How many descriptors have to come with it: neither fewer nor more.
    pub(super) fn descriptors(&self) -> usize {
        match self {
            Self::Stage(Stage {
                binary: Binary::Descriptor,
                ..
            }) => 1,
            Self::Stage(Stage {
                binary: Binary::InPlace,
                ..
            })
            | Self::Status
            | Self::Activate(_)
            | Self::Confirm(_)
            | Self::Cancel(_) => 0,
        }
    }
}

impl Reply {
    pub(super) fn new(helper: &str, answer: Answer) -> Self {
        Self {
            version: VERSION,
            helper: helper.to_owned(),
            answer,
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        check_version(bytes)?;
        read(bytes)
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }
}

impl From<WireError> for Answer {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Unsupported => Self::Unsupported {},
            WireError::Malformed { problem } => Self::Malformed { problem },
        }
    }
}

impl From<Verdict> for Answer {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::TrialWaits => Self::TrialWaits {},
            Verdict::NotOnTrial => Self::NotOnTrial {},
            Verdict::Ended(Ending {
                outcome,
                code,
                message,
                ..
            }) => Self::Ended {
                outcome,
                code,
                // A reply has a bound, and an error may quote what a new binary said.
                message: message
                    .get(..message.floor_char_boundary(2048))
                    .unwrap_or_default()
                    .to_owned(),
            },
        }
    }
}

fn check_version(bytes: &[u8]) -> Result<(), WireError> {
    let Peek { version } = read(bytes)?;
    if version == VERSION {
        Ok(())
    } else {
        Err(WireError::Unsupported)
    }
}

fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, WireError> {
    serde_json::from_slice(bytes).map_err(|error| {
        let mut problem = error.to_string();
        problem.truncate(problem.floor_char_boundary(256));
        WireError::Malformed { problem }
    })
}

//! Why a call has no answer.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::Value;
use url::Url;

use crate::{
    api::error::{Code, ErrorObject},
    cli::limits::ANSWER_BYTES_MAX,
};

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum CallError {
    /// Control said no.
    #[error("{}", refusal.object.message)]
    Refused { refusal: Box<Refusal> },
    /// Nobody there.
    #[error("control was not reached at {base}")]
    NotReached { base: Url, source: reqwest::Error },
    /// Somebody is there and says nothing.
    #[error("no answer from {base} within {}", humantime::format_duration(*within))]
    Silent { base: Url, within: Duration },
    /// The call may or may not have been carried out.
    #[error("the answer from {base} was lost on the way")]
    Lost { base: Url, source: reqwest::Error },
    /// A proxy that finds no control behind it.
    #[error("expected control at {base}, found a server that says {status}")]
    Gateway { base: Url, status: StatusCode },
    /// The address is not control's.
    #[error("expected control at {base}, found a redirect to {to}")]
    Redirected { base: Url, to: String },
    /// Something else speaks HTTP there.
    #[error("expected control's answer from {base}, found {status} and {found}")]
    Foreign {
        base: Url,
        status: StatusCode,
        found: String,
    },
    /// Control's, but not as this version knows it.
    #[error("expected an answer that this version understands from {base}")]
    Misunderstood {
        base: Url,
        source: serde_json::Error,
    },
    /// More than anybody could have asked for.
    #[error("expected an answer of at most {ANSWER_BYTES_MAX} bytes from {base}")]
    TooLong { base: Url },
}

/// A no from control.
#[derive(Debug)]
pub(in crate::cli) struct Refusal {
    /// What was called, as in `rollouts/get`.
    pub method: &'static str,
    /// The reason.
    pub object: ErrorObject,
    /// The answer as it came.
    pub raw: Value,
    /// What the request is called in control's log.
    pub request: Option<String>,
}

impl CallError {
    /// Whether the same call may well be answered a little later.
    pub(in crate::cli) fn is_passing(&self) -> bool {
        match self {
            Self::NotReached { .. }
            | Self::Silent { .. }
            | Self::Lost { .. }
            | Self::Gateway { .. } => true,
            Self::Refused { refusal } => refusal.object.code == Code::Unavailable,
            Self::Redirected { .. }
            | Self::Foreign { .. }
            | Self::Misunderstood { .. }
            | Self::TooLong { .. } => false,
        }
    }
}

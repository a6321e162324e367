//! The error object of the API.

use std::{error::Error, fmt::Display};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::db::away;

/// A database that is started again is there in seconds.
const RETRY_AFTER_SECONDS: u32 = 5;

/// What went wrong, as a word that programs can decide by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum Code {
    /// The request breaks a rule; the details name the field and the rule.
    InvalidInput,
    /// No token, or one that is not known.
    Unauthenticated,
    /// A known token that may not do this.
    AccessDenied,
    /// Nothing of this name is visible to the caller.
    NotFound,
    /// Something else stands in the way; the details say what.
    Conflict,
    /// The thing exists, but not in a state that allows this.
    InvalidState,
    /// Too many calls.
    QuotaExceeded,
    /// This server cannot do that.
    Unsupported,
    /// The server's own fault.
    Internal,
    /// The database does not answer just now; the details say when to come again.
    Unavailable,
}

impl Code {
    /// The HTTP status that carries this code.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::InvalidInput => 400,
            Self::Unauthenticated => 401,
            Self::AccessDenied => 403,
            Self::NotFound => 404,
            Self::Conflict | Self::InvalidState => 409,
            Self::QuotaExceeded => 429,
            Self::Internal => 500,
            Self::Unsupported => 501,
            Self::Unavailable => 503,
        }
    }

    /// The code as it stands in JSON.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::InvalidInput => "INVALID_INPUT",
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::AccessDenied => "ACCESS_DENIED",
            Self::NotFound => "NOT_FOUND",
            Self::Conflict => "CONFLICT",
            Self::InvalidState => "INVALID_STATE",
            Self::QuotaExceeded => "QUOTA_EXCEEDED",
            Self::Unsupported => "UNSUPPORTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
        }
    }
}

/// The body of every answer that is not a success.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ErrorBody {
    /// The error.
    pub error: ErrorObject,
}

/// What went wrong, for programs and for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorObject {
    /// The word.
    pub code: Code,
    /// The sentence.
    pub message: String,
    /// The numbers and names: `field` and `rule` for bad input, `reason`, `rolloutId`, `requestId`, …
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Object)]
    pub details: Value,
}

impl ErrorObject {
    /// An error with a sentence and no details.
    pub(crate) fn new(code: Code, message: impl Display) -> Self {
        Self {
            code,
            message: message.to_string(),
            details: Value::Null,
        }
    }

    /// A field that breaks a rule. The problem is a sentence of ours: expected …, found ….
    pub(crate) fn invalid(field: &str, problem: impl Display) -> Self {
        let message = problem.to_string();
        let rule = message.strip_prefix("expected ").unwrap_or(&message);
        let rule = rule.rsplit_once(", found").map_or(rule, |(rule, _)| rule);
        let details = json!({ "field": field, "rule": rule });
        Self {
            code: Code::InvalidInput,
            message: format!("{field}: {message}"),
            details,
        }
    }

    /// The same with one more detail.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Serialize) -> Self {
        if self.details.is_null() {
            self.details = json!({});
        }
        if let Some(details) = self.details.as_object_mut() {
            details.insert(name.to_owned(), json!(value));
        }
        self
    }

    /// The server's own fault, or its database's. What it was goes to the log; the caller gets the request's id to quote.
    pub(crate) fn internal(error: &(dyn Error + 'static)) -> Self {
        tracing::error!(error, "a request failed");
        if away::is_away(error) {
            return Self::unavailable();
        }
        Self::new(
            Code::Internal,
            "the server failed to answer; its log tells more under this request's id",
        )
    }

    /// The database does not answer. Nothing that was asked for is done.
    pub(crate) fn unavailable() -> Self {
        Self::new(
            Code::Unavailable,
            "control's database does not answer just now",
        )
        .with("retryAfterSeconds", RETRY_AFTER_SECONDS)
    }
}

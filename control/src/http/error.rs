//! Every refusal of every area, as the API's one error object.

use std::any::Any;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::Value;

use crate::{
    access::{decide::Denied, token::TokenError},
    api::error::{Code, ErrorBody, ErrorObject},
    command::store::CommandError,
    event::webhook::WebhookError,
    fleet::{
        gateway::GatewayError, join::JoinError, node::NodeError, pool::PoolError, renew::RenewError,
    },
    release::{admit::AdmitRefusal, store::ReleaseError},
};

/// What a handler gives when the answer is no.
#[derive(Debug, PartialEq)]
pub(crate) struct Refusal(ErrorObject);

/// A refusal on its way out; its body is written where the request's id is known.
#[derive(Clone, Debug)]
pub(super) struct Refused(pub(super) ErrorObject);

impl Refusal {
    /// The body that carries an error.
    pub(super) fn body(mut error: ErrorObject, request_id: &str) -> Vec<u8> {
        if matches!(error.code, Code::Internal | Code::Unavailable) {
            error = error.with("requestId", request_id);
        }
        // An error object of texts and numbers always has a JSON form.
        serde_json::to_vec(&ErrorBody { error }).unwrap_or_default()
    }
}

impl<E: Into<ErrorObject>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.0.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let json = (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        let mut response = (status, [json]).into_response();
        if self.0.code == Code::Unauthenticated {
            let scheme = HeaderValue::from_static("Bearer");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, scheme);
        }
        let wait = self.0.details.get("retryAfterSeconds");
        if let Some(seconds) = wait.and_then(Value::as_u64) {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, seconds.into());
        }
        response.extensions_mut().insert(Refused(self.0));
        response
    }
}

/// A bug of ours, which must not take the connection with it.
pub(super) fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let found = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("something that is no text");
    let error = std::io::Error::other(format!("a handler panicked: {found}"));
    Refusal(ErrorObject::internal(&error)).into_response()
}

/// The answer did not come in time.
pub(super) fn overdue() -> Refusal {
    let error = std::io::Error::other("the answer took too long");
    Refusal(ErrorObject::internal(&error))
}

impl From<TokenError> for ErrorObject {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Sql(_) | TokenError::File { .. } => Self::internal(&error),
            TokenError::Unknown => Self::new(Code::Unauthenticated, error),
            TokenError::Expired { .. } => {
                Self::new(Code::Unauthenticated, error).with("reason", "expired")
            }
            TokenError::NotFound => Self::new(Code::NotFound, error),
            TokenError::LastAdministrator => Self::new(Code::InvalidState, error),
            TokenError::Subject { .. } | TokenError::Reserved => Self::invalid("subject", error),
            TokenError::Life { .. } => Self::invalid("expiresInSeconds", error),
            TokenError::Permission { .. } => Self::invalid("permissions", error),
        }
    }
}

impl From<Denied> for ErrorObject {
    fn from(denied: Denied) -> Self {
        Self::new(Code::AccessDenied, denied)
    }
}

impl From<PoolError> for ErrorObject {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Sql(_) => Self::internal(&error),
            PoolError::Name => Self::invalid("name", error),
            PoolError::Taken { .. } => Self::new(Code::Conflict, error).with("field", "name"),
            PoolError::TakenArchived { ref id, .. } => {
                let id = id.clone();
                Self::new(Code::Conflict, error)
                    .with("field", "name")
                    .with("poolId", id)
            }
            PoolError::NotFound => Self::new(Code::NotFound, error),
            PoolError::Archived => Self::new(Code::InvalidState, error),
        }
    }
}

impl From<NodeError> for ErrorObject {
    fn from(error: NodeError) -> Self {
        match error {
            NodeError::Sql(_) => Self::internal(&error),
            NodeError::Pool(error) => error.into(),
            NodeError::Limit { .. } => Self::invalid("limit", error),
            NodeError::Labels => Self::invalid("labels", error),
            NodeError::NotFound => Self::new(Code::NotFound, error),
        }
    }
}

impl From<JoinError> for ErrorObject {
    fn from(error: JoinError) -> Self {
        match error {
            JoinError::Sql(_) | JoinError::Authority(_) => Self::internal(&error),
            JoinError::Pool(error) => error.into(),
            JoinError::Request(error) => Self::invalid("csr", error),
            JoinError::Uses { .. } => Self::invalid("uses", error),
            JoinError::Expiry { .. } => Self::invalid("expiresInSeconds", error),
            JoinError::Labels => Self::invalid("labels", error),
            JoinError::NotFound => Self::new(Code::NotFound, error),
            JoinError::UnknownToken => Self::new(Code::Unauthenticated, error),
            JoinError::Expired { .. } => denied(&error, "expired"),
            JoinError::Revoked => denied(&error, "revoked"),
            JoinError::UsedUp { .. } => denied(&error, "used-up"),
            JoinError::Archived => denied(&error, "archived"),
            JoinError::Removed => denied(&error, "removed"),
        }
    }
}

impl From<WebhookError> for ErrorObject {
    fn from(error: WebhookError) -> Self {
        match error {
            WebhookError::Sql(_) => Self::internal(&error),
            WebhookError::Url(error) => Self::invalid("url", error),
            WebhookError::Types(error) => Self::invalid("types", error),
            WebhookError::TooMany => Self::new(Code::QuotaExceeded, error),
            WebhookError::NotFound => Self::new(Code::NotFound, error),
        }
    }
}

impl From<RenewError> for ErrorObject {
    fn from(error: RenewError) -> Self {
        match error {
            RenewError::Sql(_) | RenewError::Authority(_) | RenewError::Gateway(_) => {
                Self::internal(&error)
            }
            RenewError::Request(error) => Self::invalid("csr", error),
            RenewError::Unknown => denied(&error, "key"),
            RenewError::Removed => denied(&error, "removed"),
        }
    }
}

impl From<GatewayError> for ErrorObject {
    fn from(error: GatewayError) -> Self {
        match error {
            GatewayError::Sql(_) | GatewayError::Authority(_) | GatewayError::Facts(_) => {
                Self::internal(&error)
            }
            GatewayError::NotFound => Self::new(Code::NotFound, error),
            GatewayError::Request(error) => Self::invalid("csr", error),
            GatewayError::Name => Self::invalid("name", error),
            GatewayError::Url => Self::invalid("url", error),
            GatewayError::Taken { .. } => Self::new(Code::Conflict, error).with("field", "name"),
            GatewayError::UnknownToken => Self::new(Code::Unauthenticated, error),
            GatewayError::Expired { .. } => denied(&error, "expired"),
            GatewayError::Redeemed => denied(&error, "used-up"),
        }
    }
}

impl From<CommandError> for ErrorObject {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Sql(_) => Self::internal(&error),
            CommandError::NoNode | CommandError::NotFound => Self::new(Code::NotFound, error),
            CommandError::Upgrade => Self::invalid("kind", error),
            CommandError::Payload { .. } => Self::invalid("payload", error),
            CommandError::Parts => Self::invalid("payload.collect", error),
            CommandError::Key | CommandError::ReservedKey => Self::invalid("idempotencyKey", error),
            CommandError::Expiry { .. } => Self::invalid("expiresInSeconds", error),
            CommandError::Taken { ref id } => {
                let id = id.clone();
                Self::new(Code::Conflict, error).with("commandId", id)
            }
            CommandError::TooMany => Self::new(Code::QuotaExceeded, error),
        }
    }
}

impl From<ReleaseError> for ErrorObject {
    fn from(error: ReleaseError) -> Self {
        match error {
            ReleaseError::Sql(_) | ReleaseError::Clock { .. } => Self::internal(&error),
            ReleaseError::Distrusted { .. } => {
                Self::new(Code::Conflict, error).with("reason", "distrusted")
            }

            ReleaseError::NotRegistered { .. } => Self::new(Code::NotFound, error),
            ReleaseError::Refused(refusal) => {
                Self::invalid("manifest", &refusal).with("reason", refusal.code())
            }
            ReleaseError::Admit { version, refusal } => match refusal {
                AdmitRefusal::OtherContent { .. } | AdmitRefusal::NotNewer { .. } => {
                    Self::new(Code::Conflict, refusal).with("version", version)
                }
                AdmitRefusal::Rollback { .. } => {
                    Self::invalid("manifest", refusal).with("reason", "rollback")
                }
                AdmitRefusal::Artifacts(refusal) => {
                    Self::invalid("manifest", refusal).with("reason", "artifacts")
                }
            },
        }
    }
}

fn denied(error: &impl std::fmt::Display, reason: &str) -> ErrorObject {
    ErrorObject::new(Code::AccessDenied, error).with("reason", reason)
}

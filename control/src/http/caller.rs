//! Who calls, and whether he may.

use axum::{
    extract::FromRequestParts,
    http::{header, request::Parts},
};

use super::{Shared, error::Refusal};
use crate::{
    access::{
        action::Action,
        decide::{Question, Resource},
        token::{self, Subject},
    },
    api::error::{Code, ErrorObject},
};

/// The holder of a valid API token. Extracted before the body: strangers' bodies are not read.
pub(super) struct Caller {
    subject: Subject,
    app: Shared,
}

impl Caller {
    /// The actor in events.
    pub(super) fn name(&self) -> &str {
        &self.subject.name
    }

    /// Goes on only if the caller may.
    pub(super) async fn may(&self, action: Action, resource: Resource<'_>) -> Result<(), Refusal> {
        let question = Question {
            subject: &self.subject,
            action,
            resource,
        };
        Ok(self.app.decider.decide(question).await?)
    }
}

impl FromRequestParts<Shared> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Refusal> {
        let BearerText(text) = BearerText::from_request_parts(parts, app).await?;
        let subject = token::authenticate(&app.services.db, &text).await?;
        Ok(Self {
            subject,
            app: Shared::clone(app),
        })
    }
}

/// The text of a bearer token, whatever kind it is.
pub(super) struct BearerText(pub(super) String);

impl<S: Sync> FromRequestParts<S> for BearerText {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Refusal> {
        parts
            .headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| Self(token.trim().to_owned()))
            .ok_or_else(|| {
                ErrorObject::new(
                    Code::Unauthenticated,
                    "expected the header Authorization: Bearer with a token, found none",
                )
                .into()
            })
    }
}

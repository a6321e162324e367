//! Who calls, and whether he may.

use std::{marker::PhantomData, time::Duration};

use axum::{
    extract::FromRequestParts,
    http::{header, request::Parts},
};

use zeroize::Zeroizing;

use super::{Shared, error::Refusal, permit::Permit, quota::Origin};
use crate::{
    access::{
        action::Action,
        decide::{Denied, Resource},
        token::{self, Subject, TokenError},
    },
    api::error::{Code, ErrorObject},
    clock::Moment,
    metrics::Quota,
};

/// How long a call waits for the database's first word. A look at one row takes a millisecond; a database that is down
/// keeps its callers for much longer.
pub(super) const DATABASE_PATIENCE: Duration = Duration::from_secs(3);

/// The holder of a valid API token, who wants to do what `P` permits. Extracted before the body: strangers' bodies are
/// not read.
pub(super) struct Caller<P> {
    subject: Subject,
    token: Zeroizing<String>,
    app: Shared,
    permit: PhantomData<P>,
}

impl<P: Permit> Caller<P> {
    /// The actor in events.
    pub(super) fn name(&self) -> &str {
        &self.subject.name
    }

    /// Whoever calls, as decisions take him.
    pub(super) fn subject(&self) -> &Subject {
        &self.subject
    }

    /// What the service can do.
    pub(super) fn app(&self) -> &Shared {
        &self.app
    }

    /// Whether the token is still the one that it was: for connections that last.
    pub(super) async fn is_still_known(&self) -> bool {
        let subject = token::authenticate(&self.app.services.db, &self.token, Moment::now()).await;
        subject.is_ok_and(|subject| subject == self.subject)
    }

    /// Goes on only if the caller may do this to the resource.
    pub(super) async fn may(&self, resource: Resource<'_>) -> Result<(), Refusal> {
        self.may_one(|_| resource).await.map(drop)
    }

    /// Goes on only if the caller may do one of these things, each to its resource; gives the first that he may.
    pub(super) async fn may_one<'a>(
        &self,
        on: impl Fn(Action) -> Resource<'a>,
    ) -> Result<Action, Refusal> {
        let mut refused = Denied::Undecided;
        for &action in P::ANY_OF {
            match self.app.may(&self.subject, action, on(action)).await {
                Ok(()) => return Ok(action),
                Err(denied) => refused = denied,
            }
        }
        Err(refused.into())
    }

    /// Goes on only if the caller may do something else besides, which the call hands on.
    pub(super) async fn may_also(
        &self,
        action: Action,
        resource: Resource<'_>,
    ) -> Result<(), Refusal> {
        Ok(self.app.may(&self.subject, action, resource).await?)
    }
}

impl<P: Permit> FromRequestParts<Shared> for Caller<P> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Refusal> {
        let BearerText(text) = BearerText::from_request_parts(parts, app).await?;
        let known = token::authenticate(&app.services.db, &text, Moment::now());
        // Every call of the API begins here, so that this bounds how long one waits for a database that is away.
        let Ok(known) = tokio::time::timeout(DATABASE_PATIENCE, known).await else {
            return Err(ErrorObject::unavailable().into());
        };
        match known {
            Ok(subject) => Ok(Self {
                subject,
                token: text.into(),
                app: Shared::clone(app),
                permit: PhantomData,
            }),
            Err(error @ TokenError::Unknown) => {
                let Ok(from) = Origin::from_request_parts(parts, app).await;
                app.count_wrong_token(from, &text)?;
                Err(error.into())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The text of a token that was made for this one call. Whoever comes too often is refused before it is looked up.
pub(super) struct OneUse(pub(super) String);

impl FromRequestParts<Shared> for OneUse {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Refusal> {
        let BearerText(text) = BearerText::from_request_parts(parts, app).await?;
        count_join(parts, app, &text).await?;
        Ok(Self(text))
    }
}

/// Somebody without a token, whose request speaks for itself. He too comes only so often.
pub(super) struct Visitor;

impl FromRequestParts<Shared> for Visitor {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Refusal> {
        count_join(parts, app, "").await?;
        Ok(Self)
    }
}

async fn count_join(parts: &mut Parts, app: &Shared, token: &str) -> Result<(), Refusal> {
    let Ok(from) = Origin::from_request_parts(parts, app).await;
    let counted = app.quotas.join(from, token);
    if counted.is_err() {
        app.metrics()
            .quota_exceeded
            .get_or_create(&Quota::JOIN)
            .inc();
    }
    Ok(counted?)
}

/// The text of a bearer token, whatever kind it is.
struct BearerText(String);

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

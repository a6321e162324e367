//! Who looks, and whether he may; and what he sends.
//!
//! Takes a request of a browser, gives the session's holder. Session and permission are looked up anew for every
//! request: nothing that a browser keeps says what somebody may do.

use axum::{
    extract::{FromRequest, FromRequestParts, Path, Request},
    http::{HeaderMap, header, request::Parts},
};
use http_body_util::{BodyExt as _, Limited};
use serde::de::DeserializeOwned;

use super::{
    failure::{Failure, Way},
    fields::Fields,
    guard::{self, Forged},
};
use crate::{
    access::{
        action::Action,
        decide::Resource,
        session::{self, Secret, Session},
    },
    api::error::{Code, ErrorObject},
    clock::Moment,
    event::sight::Sight,
    http::{
        Shared,
        sight::{Wish, sight},
    },
};

/// What the browser keeps. Its prefix has the browser see to it that it came from this host, over TLS, for every path:
/// `/api` does not read it.
pub(super) const COOKIE: &str = "__Host-better-compute";

/// A form with a reason of 500 characters, each of four bytes that are escaped, fits.
const FORM_BYTES_MAX: usize = 16 << 10;

/// The header of requests that the script makes: they get no page to sign in.
pub(super) const BY_SCRIPT: &str = "x-console-script";

/// Somebody who has signed in and may operate the fleet.
pub(super) struct Operator {
    secret: Secret,
    session: Session,
    app: Shared,
}

impl Operator {
    /// The actor in events.
    pub(super) fn name(&self) -> &str {
        &self.session.subject.name
    }

    /// What the session's forms carry.
    pub(super) fn form_token(&self) -> String {
        self.secret.form_token()
    }

    /// What the service can do.
    pub(super) fn app(&self) -> &Shared {
        &self.app
    }

    /// Goes on only if he may.
    pub(super) async fn may(
        &self,
        action: Action,
        resource: Resource<'_>,
    ) -> Result<(), ErrorObject> {
        let asked = self.app.may(&self.session.subject, action, resource);
        Ok(asked.await?)
    }

    /// What he sees of events.
    pub(super) async fn sight(&self, wish: Wish<'_>) -> Result<Sight, ErrorObject> {
        sight(&self.app, &self.session.subject, wish).await
    }

    /// Whether he is still signed in and may still look: for connections that last.
    pub(super) async fn is_still_known(&self) -> bool {
        let db = &self.app.services.db;
        let found = session::find(db, &self.secret, Moment::now()).await;
        let is_same = found.is_ok_and(|found| found.as_ref() == Some(&self.session));
        is_same && self.may(Action::FleetAdmin, Resource::Fleet).await.is_ok()
    }

    /// Ends his session.
    pub(super) async fn sign_out(&self) -> Result<(), ErrorObject> {
        let ended = session::end(&self.app.services.db, &self.secret).await;
        ended.map_err(|error| ErrorObject::internal(&error))
    }

    async fn of(parts: &Parts, app: &Shared) -> Result<Self, Failure> {
        let way = Way::of(parts);
        let Some(secret) = kept(&parts.headers) else {
            return Err(Failure::SignIn(way));
        };
        let found = session::find(&app.services.db, &secret, Moment::now()).await;
        let found = found.map_err(|error| ErrorObject::internal(&error))?;
        let Some(session) = found else {
            return Err(Failure::SignIn(way));
        };
        let operator = Self {
            secret,
            session,
            app: Shared::clone(app),
        };
        operator.may(Action::FleetAdmin, Resource::Fleet).await?;
        Ok(operator)
    }
}

impl FromRequestParts<Shared> for Operator {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Failure> {
        Self::of(parts, app).await
    }
}

/// A form that the console itself has shown to whoever sends it.
pub(super) struct Signed {
    pub(super) operator: Operator,
    pub(super) fields: Fields,
}

impl FromRequest<Shared> for Signed {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Failure> {
        let (parts, body) = request.into_parts();
        sent_by_us(&parts, app)?;
        let operator = Operator::of(&parts, app).await?;
        let fields = form(&parts, body).await?;
        if !operator.secret.made_form(fields.text("form")) {
            return Err(Failure::Forged(Forged::Token));
        }
        Ok(Self { operator, fields })
    }
}

/// A form of somebody who has no session yet.
pub(super) struct Unsigned(pub(super) Fields);

impl FromRequest<Shared> for Unsigned {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Failure> {
        let (parts, body) = request.into_parts();
        sent_by_us(&parts, app)?;
        form(&parts, body).await.map(Self)
    }
}

fn sent_by_us(parts: &Parts, app: &Shared) -> Result<(), Failure> {
    let authority = parts.uri.authority().map(|authority| authority.as_str());
    guard::same_origin(&parts.headers, authority, &app.base_url).map_err(Failure::Forged)
}

async fn form(parts: &Parts, body: axum::body::Body) -> Result<Fields, Failure> {
    let kind = parts.headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/x-www-form-urlencoded") {
        let error = ErrorObject::invalid("body", "expected a form, found something else");
        return Err(error.into());
    }
    let body = Limited::new(body, FORM_BYTES_MAX).collect().await;
    let body = body.map_err(|_| {
        let rule =
            format!("expected a whole form of at most {FORM_BYTES_MAX} bytes, found another");
        ErrorObject::invalid("body", rule)
    })?;
    Fields::parse(&body.to_bytes()).map_err(|twice| ErrorObject::invalid("body", twice).into())
}

/// The secret that the browser keeps for us.
fn kept(headers: &HeaderMap) -> Option<Secret> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == COOKIE)
        .and_then(|(_, value)| Secret::parse(value))
}

/// The header that gives the browser a secret to keep, or takes it back where there is none.
pub(super) fn cookie(secret: Option<&Secret>) -> String {
    let (value, seconds) = match secret {
        Some(secret) => (secret.reveal(), session::LIFE.as_secs()),
        None => ("", 0),
    };
    format!("{COOKIE}={value}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Strict")
}

/// What the address names.
pub(super) struct Address<T>(pub(super) T);

impl<T: DeserializeOwned + Send> FromRequestParts<Shared> for Address<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Failure> {
        match Path::from_request_parts(parts, app).await {
            Ok(Path(named)) => Ok(Self(named)),
            Err(_) => Err(ErrorObject::new(
                Code::NotFound,
                "expected the address of a page, found names in it that nothing has",
            )
            .into()),
        }
    }
}

/// What the address asks for behind its question mark.
pub(super) struct Asked(pub(super) Fields);

impl FromRequestParts<Shared> for Asked {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _app: &Shared) -> Result<Self, Failure> {
        let query = parts.uri.query().unwrap_or_default();
        let fields = Fields::parse(query.as_bytes());
        fields
            .map(Self)
            .map_err(|twice| ErrorObject::invalid("address", twice).into())
    }
}

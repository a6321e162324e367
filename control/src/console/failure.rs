//! Why there is no page, as a page.

use askama::Template;
use axum::{
    http::{StatusCode, header, request::Parts},
    response::{IntoResponse, Redirect, Response},
};
use url::form_urlencoded;

use super::{assets, guard::Forged, operator::BY_SCRIPT, page::html};
use crate::api::error::{Code, ErrorObject};

/// Where somebody wanted to go who has to sign in first.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// To a page.
    Page(String),
    /// The script asked, or a form was sent: nothing is repeated by itself.
    Nowhere,
}

impl Way {
    pub(super) fn of(parts: &Parts) -> Self {
        let by_script = parts.headers.contains_key(BY_SCRIPT);
        let path = parts.extensions.get::<axum::extract::OriginalUri>();
        let path = path.map_or(&parts.uri, |axum::extract::OriginalUri(uri)| uri);
        match path.path_and_query() {
            Some(path) if parts.method == axum::http::Method::GET && !by_script => {
                Self::Page(path.as_str().to_owned())
            }
            Some(_) | None => Self::Nowhere,
        }
    }
}

/// Why there is no page.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nobody is signed in, or no more.
    SignIn(Way),
    /// No page of ours sent this.
    Forged(Forged),
    /// What the API would say.
    Refused(ErrorObject),
}

impl<E: Into<ErrorObject>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Refused(error.into())
    }
}

#[derive(Template)]
#[template(path = "console/failure.html")]
struct FailurePage<'a> {
    build: &'a str,
    title: &'a str,
    message: &'a str,
    advice: &'a str,
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self {
            Self::SignIn(Way::Page(path)) => {
                let mut next = form_urlencoded::Serializer::new(String::new());
                next.append_pair("next", &path);
                Redirect::to(&format!("/console/sign-in?{}", next.finish())).into_response()
            }
            Self::SignIn(Way::Nowhere) => shown(
                StatusCode::UNAUTHORIZED,
                "Signed out",
                "Your session has ended: nothing was done.",
                "Sign in, look at the page again, and repeat what you meant to do.",
            ),
            Self::Forged(forged) => shown(
                StatusCode::FORBIDDEN,
                "Not done",
                &forged.to_string(),
                "Nothing was changed.",
            ),
            Self::Refused(error) => refused(&error),
        }
    }
}

fn refused(error: &ErrorObject) -> Response {
    let status =
        StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let (title, advice) = match error.code {
        Code::InvalidInput => ("That cannot be done", "Go back and change what you wrote."),
        Code::Unauthenticated => ("Signed out", "Sign in again."),
        Code::AccessDenied => (
            "Not allowed",
            "The console is for operators of the platform: it needs a token of tenant root with compute:fleet:admin, and with compute:pool:read for nodes.",
        ),
        Code::NotFound => (
            "Not found",
            "It may be of another tenant, or the address is incomplete.",
        ),
        Code::Conflict | Code::InvalidState => (
            "Not possible now",
            "Somebody else may have been faster: look at the page again.",
        ),
        Code::QuotaExceeded => ("Too often", "Wait a moment and try again."),
        Code::Unsupported => ("Not available", "This control cannot do that."),
        Code::Unavailable => (
            "Not now",
            "Nodes run on meanwhile. Look again in a moment; the service's log says why.",
        ),
        Code::Internal => (
            "Something went wrong",
            "Nothing is known to have changed. The service's log has the details.",
        ),
    };
    shown(status, title, &error.message, advice)
}

fn shown(status: StatusCode, title: &str, message: &str, advice: &str) -> Response {
    let page = FailurePage {
        build: &assets::BUILD,
        title,
        message,
        advice,
    };
    let mut answer = html(&page);
    if answer.status().is_success() {
        *answer.status_mut() = status;
    }
    answer.headers_mut().remove(header::WWW_AUTHENTICATE);
    answer
}

/// No page has this address.
pub(super) async fn nothing_there() -> Response {
    shown(
        StatusCode::NOT_FOUND,
        "Not found",
        "There is no page at this address.",
        "Go to the rollouts and look from there.",
    )
}

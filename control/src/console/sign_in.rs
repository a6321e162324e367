//! Signing in with an API token, and out again.

use askama::Template;
use axum::{
    extract::{FromRequestParts as _, Request, State},
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse as _, Redirect, Response},
};
use bc_protocol::id::TenantId;
use url::form_urlencoded;

use super::{
    assets,
    failure::Failure,
    operator::{Asked, Operator, Signed, Unsigned, cookie},
    page::html,
};
use crate::{
    access::{
        action::{Action, ROOT_TENANT},
        decide::Resource,
        session,
        token::{self, TokenError},
    },
    api::error::{Code, ErrorObject},
    clock::Moment,
    http::{Origin, Shared},
};

/// Where everybody begins.
const START: &str = "/console/t/root/rollouts";

/// An address that is longer is none of ours.
const NEXT_BYTES_MAX: usize = 1024;

#[derive(Template)]
#[template(path = "console/sign_in.html")]
struct SignInPage<'a> {
    build: &'a str,
    next: &'a str,
    problem: Option<String>,
}

/// `/console`
pub(super) async fn start(_operator: Operator) -> Redirect {
    Redirect::to(START)
}

/// The page that asks for a token. Who is signed in goes on.
pub(super) async fn page(operator: Result<Operator, Failure>, Asked(asked): Asked) -> Response {
    let next = inside(asked.text("next"));
    let problem = match operator {
        Ok(_) => return Redirect::to(next).into_response(),
        Err(Failure::SignIn(_)) if asked.text("kept") == "1" => Some(
            "The browser did not keep the session. It keeps one only over https, or from a browser on this machine at http://localhost."
                .to_owned(),
        ),
        Err(Failure::SignIn(_) | Failure::Forged(_)) => None,
        Err(Failure::Refused(error)) => Some(error.message),
    };
    shown(StatusCode::OK, next, problem)
}

fn shown(status: StatusCode, next: &str, problem: Option<String>) -> Response {
    let page = SignInPage {
        build: &assets::BUILD,
        next,
        problem,
    };
    (status, html(&page)).into_response()
}

/// An address of the console itself: nobody is sent elsewhere from here.
fn inside(next: &str) -> &str {
    let is_ours = next.starts_with("/console/t/")
        && next.len() <= NEXT_BYTES_MAX
        && next
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_ours { next } else { START }
}

/// Takes a token, begins a session.
pub(super) async fn sign_in(
    State(app): State<Shared>,
    request: Request,
) -> Result<Response, Failure> {
    let (mut parts, body) = request.into_parts();
    let Ok(from) = Origin::from_request_parts(&mut parts, &app).await;
    let Unsigned(fields) = extract(Request::from_parts(parts, body), &app).await?;
    let next = inside(fields.text("next"));
    match begin(&app, from, fields.text("token")).await {
        Ok(secret) => {
            // There the browser shows whether it has kept it.
            let mut to = form_urlencoded::Serializer::new(String::new());
            to.append_pair("kept", "1").append_pair("next", next);
            let to = format!("/console/sign-in?{}", to.finish());
            let kept = [(header::SET_COOKIE, cookie(Some(&secret)))];
            Ok((kept, Redirect::to(&to)).into_response())
        }
        Err(error) => Ok(refused(next, &error)),
    }
}

async fn extract(request: Request, app: &Shared) -> Result<Unsigned, Failure> {
    use axum::extract::FromRequest as _;
    Unsigned::from_request(request, app).await
}

async fn begin(app: &Shared, from: Origin, text: &str) -> Result<session::Secret, ErrorObject> {
    let db = &app.services.db;
    let subject = match token::authenticate(db, text, Moment::now()).await {
        Ok(subject) => subject,
        Err(error @ TokenError::Unknown) => {
            app.count_wrong_token(from, text)?;
            return Err(error.into());
        }
        Err(error) => return Err(error.into()),
    };
    app.may(&subject, Action::FleetAdmin, Resource::Fleet)
        .await?;
    let (secret, subject) = session::begin(db, text, Moment::now()).await?;
    tracing::info!(subject = subject.name, "somebody signed in to the console");
    Ok(secret)
}

fn refused(next: &str, error: &ErrorObject) -> Response {
    let status = StatusCode::from_u16(error.code.status());
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let problem = match error.code {
        Code::Unauthenticated => {
            "This control does not know that token: it was mistyped, it has been revoked, or its time is over."
                .to_owned()
        }
        Code::AccessDenied => format!(
            "That token may not operate the fleet. The console needs one of tenant {ROOT_TENANT} with compute:fleet:admin. ({})",
            error.message
        ),
        Code::QuotaExceeded => {
            let wait = error.details.get("retryAfterSeconds").cloned();
            let wait = wait.and_then(|wait| wait.as_u64()).unwrap_or(60);
            format!("Too many wrong tokens came from here. The next may come in {wait} s.")
        }
        Code::InvalidInput
        | Code::NotFound
        | Code::Conflict
        | Code::InvalidState
        | Code::Unsupported
        | Code::Internal
        | Code::Unavailable => error.message.clone(),
    };
    shown(status, next, Some(problem))
}

/// Ends the session, here and in the browser.
pub(super) async fn sign_out(Signed { operator, .. }: Signed) -> Result<Response, Failure> {
    operator.sign_out().await?;
    let gone = [
        (header::SET_COOKIE, cookie(None)),
        (
            HeaderName::from_static("clear-site-data"),
            "\"cache\", \"storage\"".to_owned(),
        ),
    ];
    Ok((gone, Redirect::to("/console/sign-in")).into_response())
}

/// Whether the browser holds a session. One that followed a link from elsewhere sends its cookie only when a page of ours
/// asks.
pub(super) async fn signed_in(operator: Result<Operator, Failure>) -> &'static str {
    match operator {
        Ok(_) => "yes",
        Err(_) => "no",
    }
}

/// Goes to another tenant.
pub(super) async fn tenant(_operator: Operator, Asked(asked): Asked) -> Redirect {
    let tenant = asked.parsed::<TenantId>("tenant");
    let section = match asked.text("section") {
        section @ ("fleet" | "nodes" | "releases" | "events") => section,
        _ => "rollouts",
    };
    match tenant {
        Some(tenant) => Redirect::to(&format!("/console/t/{tenant}/{section}")),
        None => Redirect::to(START),
    }
}

#[cfg(test)]
mod tests {
    use super::{START, inside};

    #[test]
    fn nobody_is_sent_elsewhere() {
        for next in [
            "/console/t/root/fleet",
            "/console/t/a:b/nodes?state=late&q=%20",
        ] {
            assert_eq!(inside(next), next);
        }
        for next in [
            "",
            "//evil.example",
            "https://evil.example/console/t/",
            "/console/t/\\evil",
            "/console/t/a\r\nx: y",
            "/api/compute",
        ] {
            assert_eq!(inside(next), START, "{next}");
        }
    }
}

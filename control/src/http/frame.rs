//! What surrounds every request: its id, its line in the log, its deadline.

use std::time::Duration;

use axum::{
    body::Body,
    extract::{MatchedPath, Request, State},
    http::{HeaderName, HeaderValue, Method, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tracing::Instrument as _;
use ulid::Ulid;

use super::{
    Shared,
    document::METHODS,
    error::{Refusal, Refused, overdue},
};
use crate::{
    chance,
    clock::{Moment, Stopwatch},
    db::held::one_at_a_time,
    event::cause,
    metrics::Call,
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Every answer is a few statements; what takes longer waits for something that does not come.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A binary of half a gigabyte over a line that carries a megabit a second; who stalls is sent away long before.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(75 * 60);

/// Gives a request an id, and its answer too. Ids that callers send are not taken over: they go into our log.
pub(super) async fn frame(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let began = Stopwatch::start();
    let method = request.extensions().get::<MatchedPath>().cloned();
    let id = Ulid::from_parts(Moment::now().unix_ms(), chance::bits()).to_string();
    let span = tracing::info_span!(
        "request",
        %id,
        method = %request.method(),
        path = request.uri().path(),
    );
    let answer = async {
        let patience = match *request.method() {
            Method::PUT => UPLOAD_TIMEOUT,
            _ => ANSWER_TIMEOUT,
        };
        let answer = tokio::time::timeout(patience, one_at_a_time(next.run(request))).await;
        let answer = answer.unwrap_or_else(|_| overdue().into_response());
        tracing::debug!(status = answer.status().as_u16(), "answered");
        answer
    };
    let answer = cause::of(id.clone(), answer.instrument(span)).await;
    if let Some(method) = method
        .as_ref()
        .and_then(|path| path.as_str().strip_prefix(METHODS))
    {
        count(&app, method, &answer);
        app.metrics()
            .call_seconds
            .observe(began.elapsed().as_secs_f64());
    }
    let mut answer = kept_to_the_caller(named(answer, &id));
    if let Ok(id) = HeaderValue::from_str(&id) {
        answer.headers_mut().insert(REQUEST_ID, id);
    }
    answer
}

fn count(app: &Shared, method: &str, answer: &Response) {
    let code = match answer.extensions().get::<Refused>() {
        Some(Refused(error)) => error.code.word(),
        None => "OK",
    };
    let call = Call::new(method, code);
    app.metrics().calls.get_or_create(&call).inc();
}

/// Writes a refusal's body, now that the id is known.
fn named(mut answer: Response, id: &str) -> Response {
    match answer.extensions_mut().remove::<Refused>() {
        None => answer,
        Some(Refused(error)) => {
            let body = Refusal::body(error, id);
            *answer.body_mut() = Body::from(body);
            answer
        }
    }
}

/// What the API says is for one caller at one time, a token's secret among it: nothing between keeps it, and nobody
/// takes it for something else than it says. Whoever answers with a file or a page has said so already.
fn kept_to_the_caller(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    headers
        .entry(header::X_CONTENT_TYPE_OPTIONS)
        .or_insert(HeaderValue::from_static("nosniff"));
    let json = headers.get(header::CONTENT_TYPE);
    if json.is_some_and(|kind| kind == "application/json") {
        headers
            .entry(header::CACHE_CONTROL)
            .or_insert(HeaderValue::from_static("no-store"));
    }
    answer
}

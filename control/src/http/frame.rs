//! What surrounds every request: its id, its line in the log, its deadline.

use std::time::Duration;

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderName, HeaderValue},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tracing::Instrument as _;
use ulid::Ulid;

use super::error::{Refusal, Refused, overdue};
use crate::{chance, clock::Moment};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Every answer is a few statements; what takes longer waits for something that does not come.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Gives a request an id, and its answer too. Ids that callers send are not taken over: they go into our log.
pub(super) async fn frame(request: Request, next: Next) -> Response {
    let id = Ulid::from_parts(Moment::now().unix_ms(), chance::bits()).to_string();
    let span = tracing::info_span!(
        "request",
        %id,
        method = %request.method(),
        path = request.uri().path(),
    );
    let answer = async {
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, next.run(request)).await;
        let answer = answer.unwrap_or_else(|_| overdue().into_response());
        tracing::debug!(status = answer.status().as_u16(), "answered");
        answer
    };
    let mut answer = named(answer.instrument(span).await, &id);
    if let Ok(id) = HeaderValue::from_str(&id) {
        answer.headers_mut().insert(REQUEST_ID, id);
    }
    answer
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

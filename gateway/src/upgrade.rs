//! The HTTP that comes before a session.
//!
//! Takes a secured connection, gives it back as a raw one once the peer has asked for a session. Everything else gets
//! its answer here and the connection is closed.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{CONNECTION, HeaderValue, RETRY_AFTER},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;

use crate::limits::REQUEST_HEAD_BYTES_MAX;

/// The one path.
const SESSION: &str = "/session";

/// A connection whose peer was told that a session may begin.
#[derive(Debug)]
pub(crate) struct Upgraded<S> {
    /// The connection.
    pub(crate) stream: S,
    /// What the peer sent in the meantime.
    pub(crate) early: Vec<u8>,
}

/// Why no session may begin on a connection now, as the peer is told.
#[derive(Clone, Debug)]
pub(crate) struct NoSession {
    /// The answer's status.
    pub(crate) status: StatusCode,
    /// In a sentence.
    pub(crate) why: String,
    /// Seconds after which it is worth another try.
    pub(crate) retry_after: u64,
}

/// Answers one request; gives the connection if it was for a session, and one may begin.
pub(crate) async fn upgrade<S>(
    stream: S,
    may: Result<(), NoSession>,
) -> Result<Option<Upgraded<S>>, hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let accepted = Arc::new(AtomicBool::new(false));
    let service = service_fn(|request| {
        let response = match &may {
            Ok(()) => answer(&request),
            Err(reason) => not_now(reason),
        };
        let switches = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        accepted.store(switches, Ordering::Relaxed);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let parts = http1::Builder::new()
        .max_buf_size(REQUEST_HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .without_shutdown()
        .await?;
    let mut stream = parts.io.into_inner();
    if accepted.load(Ordering::Relaxed) {
        let early = parts.read_buf.into();
        return Ok(Some(Upgraded { stream, early }));
    }
    // The answer has left; whether the peer heard the end of it is its own affair.
    drop(stream.shutdown().await);
    Ok(None)
}

fn answer(request: &Request<Incoming>) -> Response<Full<Bytes>> {
    if request.uri().path() != SESSION {
        return plain(StatusCode::NOT_FOUND, "expected /session".to_owned());
    }
    create_response_with_body(request, Full::default)
        .unwrap_or_else(|error| plain(StatusCode::BAD_REQUEST, error.to_string()))
}

fn not_now(reason: &NoSession) -> Response<Full<Bytes>> {
    let mut response = plain(reason.status, reason.why.clone());
    let seconds = HeaderValue::from(reason.retry_after);
    response.headers_mut().insert(RETRY_AFTER, seconds);
    response
}

fn plain(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text + "\n"));
    *response.status_mut() = status;
    // One request a connection.
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

//! Where metrics and health are read: a listener of its own, in the clear, that knows nobody and changes nothing.
//!
//! Alive is whoever answers. Ready is who takes sessions: a balancer sends nodes elsewhere from the moment on at which
//! this one begins to drain. A link to control is not needed for it, since nodes are welcomed without one.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{ALLOW, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tracing::{debug, warn};

use crate::{
    gateway::{Gateway, Phase},
    limits::{ACCEPT_PAUSE, STATUS_CONNECTIONS_MAX, STATUS_HEAD_TIMEOUT, STATUS_TIMEOUT},
};

/// As Prometheus' own servers name it.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const JSON: &str = "application/json";

/// Answers until it is dropped.
pub(crate) async fn serve(listener: TcpListener, gateway: Arc<Gateway>) {
    let places = Arc::new(Semaphore::new(STATUS_CONNECTIONS_MAX));
    loop {
        // Who asks how it goes can wait until another has heard it.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, from)) => {
                let gateway = Arc::clone(&gateway);
                tokio::spawn(async move {
                    let answered = timeout(STATUS_TIMEOUT, answer_all(stream, &gateway)).await;
                    debug!(%from, ?answered, "asked for status");
                    drop(place);
                });
            }
            Err(error) => {
                warn!(%error, "cannot accept who asks for status");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn answer_all(stream: TcpStream, gateway: &Gateway) -> Result<(), hyper::Error> {
    let service = service_fn(|request| {
        let response = answer(&request, gateway);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(STATUS_HEAD_TIMEOUT)
        .max_buf_size(8 << 10)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

fn answer(request: &Request<Incoming>, gateway: &Gateway) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let error = json!({ "error": "expected GET" });
        let mut response = said(StatusCode::METHOD_NOT_ALLOWED, &error);
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match request.uri().path() {
        "/healthz" => said(StatusCode::OK, &json!({ "status": "ok" })),
        "/readyz" => ready(gateway),
        "/metrics" => {
            gateway.look();
            with_type(StatusCode::OK, OPEN_METRICS, gateway.metrics.text())
        }
        "/version" => said(
            StatusCode::OK,
            &json!({ "version": env!("CARGO_PKG_VERSION") }),
        ),
        _ => said(
            StatusCode::NOT_FOUND,
            &json!({ "error": "expected /healthz, /readyz, /metrics or /version" }),
        ),
    }
}

fn ready(gateway: &Gateway) -> Response<Full<Bytes>> {
    let (connections, max) = (
        gateway.door.connections(),
        gateway.limits().connections_max.get(),
    );
    let status = match gateway.phase() {
        Phase::Enrolling => "enrolling",
        Phase::Draining => "draining",
        Phase::Serving if connections >= max => "full",
        Phase::Serving => "ready",
    };
    let code = if status == "ready" {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let body = json!({
        "status": status,
        "link": if gateway.metrics.linked.get() > 0 { "up" } else { "down" },
        "sessions": gateway.registry.len(),
        "connections": connections,
        "connectionsMax": max,
    });
    said(code, &body)
}

fn said(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    with_type(status, JSON, body.to_string())
}

fn with_type(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

//! Where metrics and health are read: a listener of its own, in the clear, that knows nobody and changes nothing.
//!
//! Alive is whoever answers. Ready is who takes sessions: a balancer sends nodes elsewhere from the moment on at which
//! this one begins to drain, or its certificate has ended. A link to control is not needed for it, since nodes are welcomed without one. A connection is
//! one question: a place that somebody could keep would be missing to the next.

mod askers;

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

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
    time::{sleep, timeout},
};
use tracing::debug;

use crate::{
    clock,
    gateway::{Gateway, Phase},
    limits::{ACCEPT_PAUSE, STATUS_HEAD_TIMEOUT, STATUS_TIMEOUT},
    metrics::Limit,
};
use askers::{Asker, Askers};

/// As Prometheus' own servers name it.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const JSON: &str = "application/json";

/// Answers until it is dropped.
pub(crate) async fn serve(listener: TcpListener, gateway: Arc<Gateway>) {
    let mut askers = Askers::default();
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                let answering = tokio::spawn(answer_in_time(stream, from, Arc::clone(&gateway)));
                let gave_way = askers.enter(Asker {
                    site: from.ip().into(),
                    since: clock::now(),
                    answering: answering.abort_handle(),
                });
                if let Some(gave_way) = gave_way {
                    gateway.metrics.limit_reached(Limit::Status, &gave_way);
                }
            }
            Err(error) => {
                let reason = format!("cannot accept: {error}");
                gateway.metrics.limit_reached(Limit::Status, &reason);
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Answers one question. Whoever takes longer to ask it, or to read the answer, has no business here.
async fn answer_in_time(stream: TcpStream, from: SocketAddr, gateway: Arc<Gateway>) {
    let answered = timeout(STATUS_TIMEOUT, answer_one(stream, &gateway)).await;
    let overdue = match &answered {
        Ok(Ok(())) => None,
        Ok(Err(error)) if error.is_timeout() => Some(STATUS_HEAD_TIMEOUT),
        // It left, or never spoke HTTP.
        Ok(Err(_)) => None,
        Err(_) => Some(STATUS_TIMEOUT),
    };
    debug!(%from, ?answered, "asked for status");
    if let Some(within) = overdue {
        let reason =
            format!("{from}: expected a question and its answer to go through within {within:?}");
        gateway.metrics.limit_reached(Limit::Status, &reason);
    }
}

async fn answer_one(stream: TcpStream, gateway: &Gateway) -> Result<(), hyper::Error> {
    let service = service_fn(|request| {
        let response = answer(&request, gateway);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(STATUS_HEAD_TIMEOUT)
        .keep_alive(false)
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
        Phase::Serving if gateway.certificate_has_ended() => "certificate ended",
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

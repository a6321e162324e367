//! Where metrics are read: a listener of its own, which knows nobody and shows nothing else.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use axum::{Router, extract::State, http::header, response::IntoResponse, routing::get};
use thiserror::Error;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tower_http::timeout::TimeoutLayer;

use super::Metrics;
use crate::{
    clock::{Moment, Stopwatch},
    db::Db,
};

/// As Prometheus' own servers name it.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// However many read, the database is asked no more often.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Prometheus waits ten seconds.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(10);

/// The listener's socket.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

/// Why there is no listener.
#[derive(Debug, Error)]
#[error("metrics_listen: cannot listen at {address}")]
pub(crate) struct ListenerError {
    address: SocketAddr,
    source: io::Error,
}

impl Listener {
    /// Takes the address.
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, ListenerError> {
        let failed = |source| ListenerError { address, source };
        let socket = TcpListener::bind(address).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address })
    }

    /// Shows the series until it is told to stop.
    pub(crate) async fn serve(
        self,
        metrics: Arc<Metrics>,
        db: Db,
        stop: CancellationToken,
    ) -> io::Result<()> {
        let router = Router::new()
            .route("/metrics", get(text))
            .layer(TimeoutLayer::with_status_code(
                axum::http::StatusCode::SERVICE_UNAVAILABLE,
                SCRAPE_TIMEOUT,
            ))
            .with_state(Arc::new(Source {
                metrics,
                db,
                looked: Mutex::new(None),
            }));
        let server = axum_server::from_tcp(self.socket)?
            .first_request_timeout(SCRAPE_TIMEOUT)
            .serve(router.into_make_service());
        stop.run_until_cancelled(server).await.unwrap_or(Ok(()))
    }
}

struct Source {
    metrics: Arc<Metrics>,
    db: Db,
    looked: Mutex<Option<Stopwatch>>,
}

async fn text(State(source): State<Arc<Source>>) -> impl IntoResponse {
    // Held while it looks: whoever reads meanwhile gets the same.
    let mut looked = source.looked.lock().await;
    if looked.is_none_or(|since| since.elapsed() >= LOOK_EVERY) {
        source.metrics.look(&source.db, Moment::now()).await;
        *looked = Some(Stopwatch::start());
    }
    drop(looked);
    let kind = [(header::CONTENT_TYPE, OPEN_METRICS)];
    (kind, source.metrics.text())
}

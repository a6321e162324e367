//! Whether the service lives, is ready, and which it is.

use std::time::Duration;

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Shared, caller::DATABASE_PATIENCE};
use crate::clock::Moment;

/// Alive: it answers.
pub(super) async fn healthz() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// For the controller to have been over all rollouts. It goes at least every half minute; a large fleet takes a while.
const ROUND_AGE_MAX: Duration = Duration::from_secs(120);

/// Since this process committed something last. It gives a sign of life every four seconds; a disk that is full, or a
/// database that cannot be written for another reason, answers every question meanwhile.
const COMMIT_AGE_MAX: Duration = Duration::from_secs(30);

/// Ready: its database answers with this build's schema and can be written, and the controller moves.
pub(super) async fn readyz(State(app): State<Shared>) -> Response {
    let schema = timeout(DATABASE_PATIENCE, app.services.db.is_migrated()).await;
    let schema = schema.unwrap_or(Err(sqlx::Error::PoolTimedOut));
    let now = Moment::now();
    let age = app.services.metrics.since_last_round(now);
    // The first round ends a moment after the start.
    let age = age.unwrap_or_else(|| now.since(app.services.started_at));
    let moves = age <= ROUND_AGE_MAX;
    if let Err(error) = &schema {
        let error: &dyn std::error::Error = error;
        tracing::error!(error, "the database does not answer");
    }
    let writes = now.since(app.services.db.committed_at()) <= COMMIT_AGE_MAX;
    let ready = matches!(schema, Ok(true)) && writes && moves;
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let body = json!({
        "status": if ready { "ready" } else { "not-ready" },
        "database": if schema.is_ok() { "ok" } else { "failing" },
        "writes": if writes { "ok" } else { "failing" },
        "migrations": if let Ok(false) = schema { "missing" } else { "ok" },
        "controllerAgeSeconds": age.as_secs_f64(),
    });
    (status, Json(body)).into_response()
}

/// Its version.
pub(super) async fn version() -> Json<Value> {
    Json(json!({ "version": env!("CARGO_PKG_VERSION") }))
}

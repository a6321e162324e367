//! Whether the service lives, is ready, and which it is.

use axum::{Json, extract::State};
use serde_json::{Value, json};

use super::{Shared, error::Refusal};
use crate::{api::error::ErrorObject, db::query_scalar};

/// Alive: it answers.
pub(super) async fn healthz() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// Ready: its database answers too.
pub(super) async fn readyz(State(app): State<Shared>) -> Result<Json<Value>, Refusal> {
    let one: Result<i64, sqlx::Error> = query_scalar("SELECT 1")
        .fetch_one(app.services.db.reader())
        .await;
    match one {
        Ok(_) => Ok(Json(json!({ "status": "ready" }))),
        Err(error) => Err(ErrorObject::internal(&error).into()),
    }
}

/// Its version.
pub(super) async fn version() -> Json<Value> {
    Json(json!({ "version": env!("CARGO_PKG_VERSION") }))
}

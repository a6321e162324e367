//! The console: what operators see and do in a browser.
//!
//! Takes requests of browsers, gives pages. It reads and changes through the same functions as the API, asks the same
//! decisions, and keeps no truth of its own. A page works without its script, which only keeps it fresh; whatever came
//! from outside is text on it.

mod assets;
mod bar;
mod calls;
mod events;
mod failure;
mod fields;
mod fleet;
mod guard;
mod headers;
mod live;
mod node;
mod nodes;
mod operator;
mod page;
mod paging;
mod releases;
mod rollout;
mod rollouts;
mod rows;
mod show;
mod sign_in;

use axum::{
    Router, middleware,
    routing::{any, get, post},
};
use tower_http::compression::CompressionLayer;

use crate::http::Shared;

/// Every page.
pub(crate) fn routes() -> Router<Shared> {
    let tenant = Router::new()
        .route("/rollouts", get(rollouts::page))
        .route("/rollouts/{rollout}", get(rollout::page))
        .route("/rollouts/{rollout}/nodes", get(rows::page))
        .route("/rollouts/{rollout}/pause", post(calls::pause))
        .route("/rollouts/{rollout}/resume", post(calls::resume))
        .route("/rollouts/{rollout}/abort", post(calls::abort))
        .route("/fleet", get(fleet::page))
        .route("/fleet/freeze", post(calls::freeze))
        .route("/fleet/unfreeze", post(calls::unfreeze))
        .route("/nodes", get(nodes::page))
        .route("/nodes/{node}", get(node::page))
        .route("/releases", get(releases::page))
        .route("/events", get(events::page))
        .route("/live", get(live::changes));
    Router::new()
        .route("/console", get(sign_in::start))
        .route("/console/", get(sign_in::start))
        .route(
            "/console/sign-in",
            get(sign_in::page).post(sign_in::sign_in),
        )
        .route("/console/sign-out", post(sign_in::sign_out))
        .route("/console/signed-in", get(sign_in::signed_in))
        .route("/console/tenant", get(sign_in::tenant))
        .route("/console/assets/{name}", get(assets::serve))
        .nest("/console/t/{tenant}", tenant)
        .route("/console/{*anything}", any(failure::nothing_there))
        .layer(CompressionLayer::new())
        .layer(middleware::from_fn(headers::harden))
}

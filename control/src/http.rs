//! The API over HTTP.
//!
//! Takes requests, gives the answers of the areas behind it. It authenticates, asks whether the caller may, reads the
//! input and hands over; every refusal leaves as the one error object. It decides nothing else.

mod caller;
mod downloads;
mod error;
mod frame;
mod gateways;
mod input;
mod join_tokens;
mod nodes;
mod pools;
mod releases;
mod rollouts;
mod status;
mod tokens;

use std::sync::Arc;

pub(crate) use error::Refusal;

use axum::{
    Router, middleware,
    routing::{get, post},
};
use tower_http::catch_panic::CatchPanicLayer;

use crate::{
    access::decide::Decide, downloads::Folder, fleet::authority::Authority,
    rollout::service::Services,
};

/// What the API needs to answer.
pub(crate) struct App {
    /// The database, whom to believe, and what rollouts need.
    pub services: Services,
    /// Who signs certificates.
    pub authority: Arc<Authority>,
    /// Who decides what callers may do.
    pub decider: Arc<dyn Decide>,
    /// Where gateways link to.
    pub link_url: String,
    /// The release binaries that control serves.
    pub downloads: Option<Folder>,
}

/// The state that every request shares.
pub(crate) type Shared = Arc<App>;

/// Every route.
pub(crate) fn router(app: App) -> Router {
    Router::new()
        .nest("/api/compute", methods())
        .route("/healthz", get(status::healthz))
        .route("/readyz", get(status::readyz))
        .route("/version", get(status::version))
        .fallback(error::no_such_method)
        .method_not_allowed_fallback(error::no_such_method)
        .layer(CatchPanicLayer::custom(error::panicked))
        .layer(middleware::from_fn(frame::frame))
        .with_state(Arc::new(app))
}

fn methods() -> Router<Shared> {
    Router::new()
        .route("/releases/register", post(releases::register))
        .route("/releases/list", post(releases::list))
        .route("/releases/get", post(releases::get))
        .route("/rollouts/create", post(rollouts::create))
        .route("/rollouts/list", post(rollouts::list))
        .route("/rollouts/get", post(rollouts::get))
        .route("/rollouts/pause", post(rollouts::pause))
        .route("/rollouts/resume", post(rollouts::resume))
        .route("/rollouts/abort", post(rollouts::abort))
        .route("/pools/create", post(pools::create))
        .route("/pools/list", post(pools::list))
        .route("/pools/get", post(pools::get))
        .route("/pools/update", post(pools::update))
        .route("/pools/archive", post(pools::archive))
        .route("/nodes/join", post(nodes::join))
        .route("/nodes/renew", post(nodes::renew))
        .route("/nodes/list", post(nodes::list))
        .route("/nodes/get", post(nodes::get))
        .route("/nodes/update", post(nodes::update))
        .route("/nodes/remove", post(nodes::remove))
        .route("/joinTokens/create", post(join_tokens::create))
        .route("/gateways/enrol", post(gateways::enrol))
        .route("/gateways/join", post(gateways::join))
        .route("/gateways/list", post(gateways::list))
        .route("/tokens/create", post(tokens::create))
        .route("/downloads/bcd/{version}/{platform}", get(downloads::serve))
}

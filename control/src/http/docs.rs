//! `/docs`: the guides, for everybody, without a script.

use std::sync::{Arc, OnceLock};

use axum::{
    Router,
    extract::{Path, State},
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;

use crate::docs::{File, Site};

/// Pages are text and one style sheet of their own, and nothing else is ever loaded.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    // Another build has other pages.
    (header::CACHE_CONTROL, "no-cache"),
];

/// The site, made when somebody first asks for it: most processes are never asked.
struct Library {
    openapi: Bytes,
    site: OnceLock<Site>,
}

/// The routes; `openapi` is the document that this build serves.
pub(super) fn routes<S>(openapi: Bytes) -> Router<S> {
    let library = Library {
        openapi,
        site: OnceLock::new(),
    };
    Router::new()
        .route("/docs", get(front))
        .route("/docs/", get(index))
        .route("/docs/{name}", get(named))
        .with_state(Arc::new(library))
}

/// Links in pages are relative, so the address has to end in a slash; it may stand behind a prefix.
async fn front() -> Response {
    let to = [(header::LOCATION, HeaderValue::from_static("docs/"))];
    (StatusCode::PERMANENT_REDIRECT, to).into_response()
}

async fn index(State(library): State<Arc<Library>>) -> Response {
    library.file("")
}

async fn named(State(library): State<Arc<Library>>, Path(name): Path<String>) -> Response {
    library.file(&name)
}

impl Library {
    fn file(&self, name: &str) -> Response {
        let site = self.site.get_or_init(|| Site::of(&self.openapi));
        match site.file(name) {
            Some(file) => shown(StatusCode::OK, file),
            None => shown(StatusCode::NOT_FOUND, site.missing()),
        }
    }
}

fn shown(status: StatusCode, file: &File) -> Response {
    let kind = [(header::CONTENT_TYPE, file.content_type)];
    (status, HEADERS, kind, file.bytes.clone()).into_response()
}

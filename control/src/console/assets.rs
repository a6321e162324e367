//! Style, script and icon: part of the binary, so that a page asks nobody else for anything.

use std::sync::LazyLock;

use axum::{
    extract::Path,
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use bc_protocol::digest::Sha256;

/// One file.
struct Asset {
    name: &'static str,
    kind: &'static str,
    content: &'static str,
}

const ASSETS: [Asset; 3] = [
    Asset {
        name: "console.css",
        kind: "text/css; charset=utf-8",
        content: include_str!("assets/console.css"),
    },
    Asset {
        name: "console.js",
        kind: "text/javascript; charset=utf-8",
        content: include_str!("assets/console.js"),
    },
    Asset {
        name: "icon.svg",
        kind: "image/svg+xml",
        content: include_str!("assets/icon.svg"),
    },
];

/// What the addresses of assets end with: another build's are other addresses.
pub(super) static BUILD: LazyLock<String> = LazyLock::new(|| {
    let all: String = ASSETS.iter().map(|asset| asset.content).collect();
    let digest = Sha256::of(all.as_bytes()).to_string();
    digest.chars().take(12).collect()
});

/// One asset. Its address changes with its content, so whoever has it never asks again.
pub(super) async fn serve(Path(name): Path<String>) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers: [(HeaderName, &str); 2] = [
        (header::CONTENT_TYPE, asset.kind),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (headers, asset.content).into_response()
}

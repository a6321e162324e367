//! A release's file as an HTTP answer.
//!
//! Takes an opened file and the headers of a request, gives the whole of it, the part that was asked for, or word that
//! nothing has changed. The entity tag is the signed digest, so that no part of another file is ever spliced on.

use axum::{
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use bc_protocol::release::Artifact;

use super::{
    DownloadError, Opened,
    range::{self, Wanted},
};

/// Whole, the part that was asked for, or word that nothing has changed.
pub(crate) async fn answer(
    opened: Opened,
    artifact: &Artifact,
    headers: &HeaderMap,
) -> Result<Response, DownloadError> {
    let size = artifact.size();
    let etag = format!("\"{}\"", artifact.sha256());
    let shared = [
        (header::ETAG, etag.clone()),
        (header::ACCEPT_RANGES, "bytes".to_owned()),
        (
            header::CACHE_CONTROL,
            "public, max-age=31536000, immutable".to_owned(),
        ),
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
    ];
    let (status, start, length) = match range::wanted(headers, &etag, size) {
        Wanted::Unchanged => return Ok((StatusCode::NOT_MODIFIED, shared).into_response()),
        Wanted::Other => return Ok((StatusCode::PRECONDITION_FAILED, shared).into_response()),
        Wanted::Nothing => {
            let of = [(header::CONTENT_RANGE, format!("bytes */{size}"))];
            return Ok((StatusCode::RANGE_NOT_SATISFIABLE, shared, of).into_response());
        }
        Wanted::Whole => (StatusCode::OK, 0, size),
        Wanted::Part { start, length } => (StatusCode::PARTIAL_CONTENT, start, length),
    };
    let body = opened.part(start, length).await?;
    let sized = [(header::CONTENT_LENGTH, length.to_string())];
    let mut response = (status, shared, sized, body).into_response();
    if status == StatusCode::PARTIAL_CONTENT {
        let last = start + length - 1;
        let of = format!("bytes {start}-{last}/{size}");
        if let Ok(of) = of.try_into() {
            response.headers_mut().insert(header::CONTENT_RANGE, of);
        }
    }
    Ok(response)
}

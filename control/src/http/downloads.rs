//! `downloads/bcd/{version}/{platform}`

use axum::{
    extract::{Path, State},
    http::HeaderMap,
    response::Response,
};

use super::{Refusal, Shared};
use crate::downloads::{DownloadError, answer};

/// `GET` and `HEAD` of one binary.
pub(super) async fn serve(
    State(app): State<Shared>,
    Path((version, platform)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let folder = app.downloads.as_ref().ok_or(DownloadError::Unknown)?;
    let (file, artifact) = folder
        .find(&app.services.db, &app.services.trust, (&version, &platform))
        .await?;
    Ok(answer(file, &artifact, &headers).await?)
}

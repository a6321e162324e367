//! `/install.sh`

use axum::{
    extract::{RawQuery, State},
    http::header,
    response::{IntoResponse as _, Response},
};
use bc_protocol::{digest::Sha256, platform::Platform};

use super::{Refusal, Shared};
use crate::{
    daemon::{Offer, Rights, install_script},
    downloads::DownloadError,
    release::store,
    rollout::service::newest_completed,
};

/// The script that makes a machine a node; with `?unprivileged`, one whose node has no rights by default.
///
/// New machines start with what a whole fleet has taken; before any rollout has completed, with the newest release.
pub(super) async fn script(
    State(app): State<Shared>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let services = &app.services;
    let releases = store::list(&services.db, &services.trust).await?;
    let taken = newest_completed(services).await?;
    let proven = releases
        .iter()
        .find(|release| taken.as_deref() == Some(release.manifest.version().as_str()));
    let release = proven.or(releases.first()).ok_or(DownloadError::Unknown)?;
    let binary = |arch: &str| -> Option<Sha256> {
        let platform = Platform::from_arch_label(arch)?;
        Some(release.manifest.artifact_for(&platform)?.sha256())
    };
    let asked = query.is_some_and(|query| query.split('&').any(|word| word == "unprivileged"));
    let offer = Offer {
        control: &app.base_url,
        downloads: &services.downloads_url,
        version: release.manifest.version(),
        amd64: binary("amd64"),
        arm64: binary("arm64"),
        trust: &services.trust,
        rights: if asked {
            Rights::Unprivileged
        } else {
            Rights::Root
        },
    };
    let kind = [(header::CONTENT_TYPE, "text/x-shellscript; charset=utf-8")];
    Ok((kind, install_script(&offer)).into_response())
}

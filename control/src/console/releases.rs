//! Releases: who signed them, until when they are installed, and how many nodes run each.

use std::num::NonZeroUsize;

use askama::Template;
use axum::response::Response;
use bc_protocol::id::TenantId;

use super::{
    failure::Failure,
    operator::{Address, Operator},
    page::{Page, Section, html},
    show::{At, at, count},
};
use crate::{
    api::{
        error::ErrorObject,
        release::{Artifact, Release},
    },
    clock::Moment,
    release::store,
    rollout::board,
};

/// Less than this is worth a warning: a release that expires in the middle of a rollout stops it.
const SOON_SECONDS: i64 = 14 * 86_400;

#[derive(Template)]
#[template(path = "console/releases.html")]
struct ReleasesPage {
    page: Page,
    threshold: NonZeroUsize,
    releases: Vec<ReleaseView>,
}

/// One release.
#[derive(Debug)]
struct ReleaseView {
    version: String,
    sequence: u64,
    issued: At,
    expires: At,
    /// `good`, `soon` or `expired`.
    standing: &'static str,
    signers: Vec<String>,
    registered: At,
    by: String,
    artifacts: Vec<ArtifactView>,
    files: String,
    nodes: String,
    runs_somewhere: bool,
}

/// One file.
#[derive(Debug)]
struct ArtifactView {
    name: String,
    platform: String,
    sha256: String,
    size: String,
}

/// `releases`
pub(super) async fn page(
    operator: Operator,
    Address(tenant_id): Address<TenantId>,
) -> Result<Response, Failure> {
    let page = Page::new(&operator, &tenant_id, Section::Releases, "Releases").await?;
    let services = &operator.app().services;
    let releases = store::list(&services.db, &services.trust).await?;
    let internal = |error: sqlx::Error| ErrorObject::internal(&error);
    let mut conn = services.db.reader().begin().await.map_err(internal)?;
    let running = board::running(&mut conn, &tenant_id).await;
    let running = running.map_err(internal)?;
    let views = releases.into_iter().map(|release| {
        let release = Release::from(release);
        let nodes = running.get(&release.version).copied();
        ReleaseView::new(release, nodes.unwrap_or(0), page.now)
    });
    Ok(html(&ReleasesPage {
        threshold: services.trust.threshold(),
        releases: views.collect(),
        page,
    }))
}

impl ReleaseView {
    fn new(release: Release, nodes: u32, now: Moment) -> Self {
        let left = release
            .expires_at
            .unix()
            .saturating_sub(now.millis() / 1000);
        let moment = |unix: i64| at(Moment::from_millis(unix.saturating_mul(1000)), now);
        Self {
            version: release.version.to_string(),
            sequence: release.sequence.get(),
            issued: moment(release.issued_at.unix()),
            expires: moment(release.expires_at.unix()),
            standing: match left {
                ..=0 => "expired",
                1..=SOON_SECONDS => "soon",
                _ => "good",
            },
            signers: release.signers.iter().map(ToString::to_string).collect(),
            registered: at(release.registered_at, now),
            by: release.registered_by,
            files: count(
                u32::try_from(release.artifacts.len()).unwrap_or(u32::MAX),
                "file",
            ),
            artifacts: release
                .artifacts
                .into_iter()
                .map(ArtifactView::new)
                .collect(),
            nodes: count(nodes, "node"),
            runs_somewhere: nodes > 0,
        }
    }
}

impl ArtifactView {
    fn new(artifact: Artifact) -> Self {
        let platform = artifact.platform.map(|platform| platform.to_string());
        Self {
            name: artifact.name,
            platform: platform.unwrap_or_else(|| "any".to_owned()),
            sha256: artifact.sha256.to_string(),
            size: size(artifact.size),
        }
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..=1023 => format!("{bytes} B"),
        1024..=1_048_575 => format!("{} KiB", bytes / 1024),
        _ => format!(
            "{}.{} MiB",
            bytes / 1_048_576,
            bytes % 1_048_576 * 10 / 1_048_576
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_as_people_read_them() {
        assert_eq!(size(12), "12 B");
        assert_eq!(size(2048), "2 KiB");
        assert_eq!(size(10 << 20), "10.0 MiB");
        assert_eq!(size((3 << 20) + (1 << 19)), "3.5 MiB");
    }
}

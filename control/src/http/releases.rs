//! `releases.*`

use axum::{Json, extract::State};

use super::{Shared, caller::Caller, error::Refusal, input::Input, permit::FleetAdmin};
use crate::{
    access::decide::Resource,
    api::release::{GetRelease, ListReleases, RegisterRelease, Release, Releases},
    clock::Moment,
    release::{
        admit::Verdict,
        store::{self, Registrar},
    },
    spec,
};

pub(super) async fn register(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    Input(request): Input<RegisterRelease>,
) -> Result<Json<Release>, Refusal> {
    caller.may(Resource::Fleet).await?;
    let by = Registrar {
        tenant: &request.tenant_id,
        actor: caller.name(),
    };
    let published = request.manifest.get().as_bytes();
    let services = &app.services;
    let (release, verdict) =
        store::register(&services.db, published, &services.trust, by, Moment::now()).await?;
    match verdict {
        Verdict::Stored | Verdict::New => {}
        // Those that have not installed it yet need the manifest that has not expired.
        Verdict::Renewal => {
            let version = release.manifest.version();
            services.tell_stale(spec::store::carrying(&services.db, version).await?);
        }
    }
    Ok(Json(release.into()))
}

pub(super) async fn list(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    Input(_request): Input<ListReleases>,
) -> Result<Json<Releases>, Refusal> {
    caller.may(Resource::Fleet).await?;
    let releases = store::list(&app.services.db, &app.services.trust).await?;
    Ok(Json(Releases {
        releases: releases.into_iter().map(Release::from).collect(),
    }))
}

pub(super) async fn get(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    Input(request): Input<GetRelease>,
) -> Result<Json<Release>, Refusal> {
    caller.may(Resource::Fleet).await?;
    let release = store::get(&app.services.db, &request.version, &app.services.trust).await?;
    Ok(Json(release.into()))
}

//! `releases.*`

use axum::{Json, extract::State};

use super::{Shared, caller::Caller, error::Refusal, input::Input};
use crate::{
    access::{action::Action, decide::Resource},
    api::release::{GetRelease, ListReleases, RegisterRelease, Release, Releases},
    clock::Moment,
    release::store::{self, Registrar},
};

pub(super) async fn register(
    State(app): State<Shared>,
    caller: Caller,
    Input(request): Input<RegisterRelease>,
) -> Result<Json<Release>, Refusal> {
    caller.may(Action::FleetAdmin, Resource::Fleet).await?;
    let by = Registrar {
        tenant: &request.tenant_id,
        actor: caller.name(),
    };
    let published = request.manifest.get().as_bytes();
    let release = store::register(
        &app.services.db,
        published,
        &app.services.trust,
        by,
        Moment::now(),
    )
    .await?;
    Ok(Json(release.into()))
}

pub(super) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Input(_request): Input<ListReleases>,
) -> Result<Json<Releases>, Refusal> {
    caller.may(Action::FleetAdmin, Resource::Fleet).await?;
    let releases = store::list(&app.services.db, &app.services.trust).await?;
    Ok(Json(Releases {
        releases: releases.into_iter().map(Release::from).collect(),
    }))
}

pub(super) async fn get(
    State(app): State<Shared>,
    caller: Caller,
    Input(request): Input<GetRelease>,
) -> Result<Json<Release>, Refusal> {
    caller.may(Action::FleetAdmin, Resource::Fleet).await?;
    let release = store::get(&app.services.db, &request.version, &app.services.trust).await?;
    Ok(Json(release.into()))
}

//! `fleet.*`

use axum::{Json, extract::State};

use super::{Shared, caller::Caller, error::Refusal, input::Input, permit::FleetAdmin};
use crate::{
    access::decide::Resource,
    api::freeze::{Fleet, FleetSummary, FreezeFleet, OneFleet},
    rollout::service,
};

pub(super) async fn freeze(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    Input(request): Input<FreezeFleet>,
) -> Result<Json<Fleet>, Refusal> {
    caller.may(Resource::Fleet).await?;
    Ok(Json(
        service::freeze(&app.services, caller.name(), request).await?,
    ))
}

pub(super) async fn unfreeze(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    Input(request): Input<OneFleet>,
) -> Result<Json<Fleet>, Refusal> {
    caller.may(Resource::Fleet).await?;
    Ok(Json(
        service::unfreeze(&app.services, caller.name(), request).await?,
    ))
}

pub(super) async fn summary(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    Input(request): Input<OneFleet>,
) -> Result<Json<FleetSummary>, Refusal> {
    caller.may(Resource::Fleet).await?;
    Ok(Json(service::summary(&app.services, request).await?))
}

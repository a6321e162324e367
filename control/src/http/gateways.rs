//! `gateways.*`

use axum::{Json, extract::State};

use super::{
    Shared,
    caller::{Caller, OneUse},
    error::Refusal,
    input::Input,
    permit::FleetAdmin,
};
use crate::{
    access::decide::Resource,
    api::gateway::{
        EnrolGateway, Gateways, JoinGateway, JoinedGateway, ListGateways, NewGateway,
        RemoveGateway, RemovedGateway,
    },
    clock::Moment,
    fleet::gateway::{self, Enrolment},
};

pub(super) async fn enrol(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    Input(request): Input<EnrolGateway>,
) -> Result<Json<NewGateway>, Refusal> {
    caller.may(Resource::Fleet).await?;
    let gateway = gateway::enrol(&app.services.db, caller.name(), &request, Moment::now()).await?;
    Ok(Json(gateway))
}

pub(super) async fn join(
    State(app): State<Shared>,
    OneUse(bearer): OneUse,
    Input(request): Input<JoinGateway>,
) -> Result<Json<JoinedGateway>, Refusal> {
    let enrolment = Enrolment {
        authority: &app.authority,
        link_url: &app.link_url,
    };
    let joined = gateway::join(
        &app.services.db,
        enrolment,
        &bearer,
        &request,
        Moment::now(),
    )
    .await?;
    Ok(Json(joined))
}

pub(super) async fn list(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    Input(_request): Input<ListGateways>,
) -> Result<Json<Gateways>, Refusal> {
    caller.may(Resource::Fleet).await?;
    let gateways = gateway::list(&app.services.db).await?;
    Ok(Json(Gateways { gateways }))
}

pub(super) async fn remove(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    Input(request): Input<RemoveGateway>,
) -> Result<Json<RemovedGateway>, Refusal> {
    caller.may(Resource::Fleet).await?;
    let services = &app.services;
    let (removed, nodes) =
        gateway::remove::remove(&services.db, caller.name(), &request, Moment::now()).await?;
    services.tell_retired(&removed.id);
    services.waker.wake_for_nodes(nodes);
    Ok(Json(removed))
}

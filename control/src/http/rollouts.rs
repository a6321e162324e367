//! `rollouts.*`

use axum::{Json, extract::State};

use super::{Shared, caller::Caller, error::Refusal, input::Input, permit::FleetAdmin};
use crate::{
    access::decide::Resource,
    api::rollout::{
        AbortRollout, CreateRollout, ExplainRollout, Explanation, ListRollouts, OneRollout,
        PauseRollout, RetryRollout, Rollout, RolloutPlan, Rollouts,
    },
    rollout::service,
};

pub(super) async fn create(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    Input(request): Input<CreateRollout>,
) -> Result<Json<Rollout>, Refusal> {
    caller.may(Resource::Fleet).await?;
    let rollout = service::create(&app.services, caller.name(), request).await?;
    Ok(Json(rollout))
}

pub(super) async fn list(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    Input(request): Input<ListRollouts>,
) -> Result<Json<Rollouts>, Refusal> {
    caller.may(Resource::Fleet).await?;
    Ok(Json(service::list(&app.services, request).await?))
}

pub(super) async fn get(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    Input(request): Input<OneRollout>,
) -> Result<Json<Rollout>, Refusal> {
    caller.may(Resource::Fleet).await?;
    Ok(Json(service::get(&app.services, request).await?))
}

pub(super) async fn pause(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    Input(request): Input<PauseRollout>,
) -> Result<Json<Rollout>, Refusal> {
    caller.may(Resource::Fleet).await?;
    let rollout = service::pause(&app.services, caller.name(), request).await?;
    Ok(Json(rollout))
}

pub(super) async fn resume(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    Input(request): Input<OneRollout>,
) -> Result<Json<Rollout>, Refusal> {
    caller.may(Resource::Fleet).await?;
    let rollout = service::resume(&app.services, caller.name(), request).await?;
    Ok(Json(rollout))
}

pub(super) async fn abort(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    Input(request): Input<AbortRollout>,
) -> Result<Json<Rollout>, Refusal> {
    caller.may(Resource::Fleet).await?;
    let rollout = service::abort(&app.services, caller.name(), request).await?;
    Ok(Json(rollout))
}

pub(super) async fn plan(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    Input(request): Input<CreateRollout>,
) -> Result<Json<RolloutPlan>, Refusal> {
    caller.may(Resource::Fleet).await?;
    let mut plan = service::plan(&app.services, caller.name(), request).await?;
    if let Some(downloads) = &app.downloads {
        let of = (&app.services.db, &*app.services.trust);
        let platforms = downloads.unpublished(of, &plan.version).await;
        if !platforms.is_empty() {
            plan.warnings.push(service::unpublished(platforms));
        }
    }
    Ok(Json(plan))
}

pub(super) async fn explain(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    Input(request): Input<ExplainRollout>,
) -> Result<Json<Explanation>, Refusal> {
    caller.may(Resource::Fleet).await?;
    Ok(Json(service::explain(&app.services, request).await?))
}

pub(super) async fn retry(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    Input(request): Input<RetryRollout>,
) -> Result<Json<Rollout>, Refusal> {
    caller.may(Resource::Fleet).await?;
    let rollout = service::retry(&app.services, caller.name(), request).await?;
    Ok(Json(rollout))
}

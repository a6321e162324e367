//! `workflows.*`

use axum::{Json, extract::State};

use super::{Shared, caller::Caller, error::Refusal, input::Input, permit::FleetAdmin};
use crate::{
    access::decide::Resource,
    api::workflow::{CreateWorkflow, ListWorkflows, UpdateWorkflow, Workflow, Workflows},
    clock::Moment,
    workflow::store,
};

pub(super) async fn create(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    Input(request): Input<CreateWorkflow>,
) -> Result<Json<Workflow>, Refusal> {
    caller.may(Resource::Fleet).await?;
    let db = &app.services.db;
    let workflow = store::create(db, caller.name(), &request, Moment::now()).await?;
    Ok(Json(workflow))
}

pub(super) async fn list(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    Input(request): Input<ListWorkflows>,
) -> Result<Json<Workflows>, Refusal> {
    caller.may(Resource::Fleet).await?;
    let workflows = store::list(&app.services.db, &request).await?;
    Ok(Json(Workflows { workflows }))
}

pub(super) async fn update(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    Input(request): Input<UpdateWorkflow>,
) -> Result<Json<Workflow>, Refusal> {
    caller.may(Resource::Fleet).await?;
    let db = &app.services.db;
    let workflow = store::update(db, caller.name(), &request, Moment::now()).await?;
    // Its end may leave a place for another node.
    app.services.waker.wake();
    Ok(Json(workflow))
}

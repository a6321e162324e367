//! `commands.*`

use axum::{Json, extract::State};
use bc_protocol::id::{NodeId, TenantId};

use super::{Shared, caller::Caller, error::Refusal, input::Input};
use crate::{
    access::{action::Action, decide::Resource},
    api::command::{Command, Commands, CreateCommand, ListCommands, OneCommand},
    clock::Moment,
    command::store::{self, CommandError},
};

pub(super) async fn create(
    State(app): State<Shared>,
    caller: Caller,
    Input(request): Input<CreateCommand>,
) -> Result<Json<Command>, Refusal> {
    let node = (&request.tenant_id, &request.node_id);
    may(&app, &caller, Action::PoolAdmin, node).await?;
    let services = &app.services;
    let command = store::create(&services.db, caller.name(), &request, Moment::now()).await?;
    services.tell_commanded(vec![command.node_id.clone()]);
    services.deadlines.wake_here();
    Ok(Json(command))
}

pub(super) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Input(request): Input<ListCommands>,
) -> Result<Json<Commands>, Refusal> {
    match &request.node_id {
        Some(node) => may(&app, &caller, Action::PoolRead, (&request.tenant_id, node)).await?,
        None => {
            let pools = Resource::Pool(&request.tenant_id, None);
            caller.may(Action::PoolRead, pools).await?;
        }
    }
    let commands = store::list(&app.services.db, &request).await?;
    Ok(Json(Commands { commands }))
}

pub(super) async fn get(
    State(app): State<Shared>,
    caller: Caller,
    Input(request): Input<OneCommand>,
) -> Result<Json<Command>, Refusal> {
    let tenant = &request.tenant_id;
    let command = match store::get(&app.services.db, &request).await {
        Ok(command) => command,
        Err(error) => {
            // Whoever may not look at all does not learn what is not there.
            caller
                .may(Action::PoolRead, Resource::Pool(tenant, None))
                .await?;
            return Err(error.into());
        }
    };
    may(&app, &caller, Action::PoolRead, (tenant, &command.node_id)).await?;
    Ok(Json(command))
}

/// Goes on only if the caller may do this to the node's pool. A node that is not there is in none.
async fn may(
    app: &Shared,
    caller: &Caller,
    action: Action,
    (tenant, node): (&TenantId, &NodeId),
) -> Result<(), Refusal> {
    let pool = store::pool_of(&app.services.db, tenant, node).await?;
    caller
        .may(action, Resource::Pool(tenant, pool.as_ref()))
        .await?;
    match (pool, action) {
        (None, Action::PoolAdmin) => Err(CommandError::NoNode.into()),
        // What a removed node did can be looked at.
        (Some(_), _) | (None, Action::PoolRead | Action::FleetAdmin | Action::TenantAdmin) => {
            Ok(())
        }
    }
}

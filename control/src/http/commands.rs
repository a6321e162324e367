//! `commands.*`

use axum::{Json, extract::State};
use bc_protocol::id::{NodeId, PoolId, TenantId};

use super::{
    Shared,
    caller::Caller,
    error::Refusal,
    input::Input,
    permit::{Permit, PoolAdmin, PoolRead},
};
use crate::{
    access::decide::Resource,
    api::command::{Command, Commands, CreateCommand, ListCommands, OneCommand},
    clock::Moment,
    command::store::{self, CommandError},
};

pub(super) async fn create(
    State(app): State<Shared>,
    caller: Caller<PoolAdmin>,
    Input(request): Input<CreateCommand>,
) -> Result<Json<Command>, Refusal> {
    let node = (&request.tenant_id, &request.node_id);
    may(&app, &caller, node)
        .await?
        .ok_or(CommandError::NoNode)?;
    let services = &app.services;
    let command = store::create(&services.db, caller.name(), &request, Moment::now()).await?;
    services.tell_commanded(vec![command.node_id.clone()]);
    services.deadlines.wake_here();
    Ok(Json(command))
}

pub(super) async fn list(
    State(app): State<Shared>,
    caller: Caller<PoolRead>,
    Input(request): Input<ListCommands>,
) -> Result<Json<Commands>, Refusal> {
    match &request.node_id {
        // What a removed node did can be looked at.
        Some(node) => drop(may(&app, &caller, (&request.tenant_id, node)).await?),
        None => {
            let pools = Resource::Pool(&request.tenant_id, None);
            caller.may(pools).await?;
        }
    }
    let commands = store::list(&app.services.db, &request).await?;
    Ok(Json(Commands { commands }))
}

pub(super) async fn get(
    State(app): State<Shared>,
    caller: Caller<PoolRead>,
    Input(request): Input<OneCommand>,
) -> Result<Json<Command>, Refusal> {
    let tenant = &request.tenant_id;
    let command = match store::get(&app.services.db, &request).await {
        Ok(command) => command,
        Err(error) => {
            // Whoever may not look at all does not learn what is not there.
            caller.may(Resource::Pool(tenant, None)).await?;
            return Err(error.into());
        }
    };
    may(&app, &caller, (tenant, &command.node_id)).await?;
    Ok(Json(command))
}

/// Goes on only if the caller may do this to the node's pool, and gives that. A node that is not there is in none.
async fn may<P: Permit>(
    app: &Shared,
    caller: &Caller<P>,
    (tenant, node): (&TenantId, &NodeId),
) -> Result<Option<PoolId>, Refusal> {
    let pool = store::pool_of(&app.services.db, tenant, node).await?;
    caller.may(Resource::Pool(tenant, pool.as_ref())).await?;
    Ok(pool)
}

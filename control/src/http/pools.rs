//! `pools.*`

use axum::{Json, extract::State};

use super::{
    Shared,
    caller::Caller,
    error::Refusal,
    input::Input,
    permit::{PoolAdmin, PoolRead},
};
use crate::{
    access::decide::Resource,
    api::fleet::{CreatePool, ListPools, OnePool, Pool, Pools, UpdatePool},
    clock::Moment,
    fleet::pool,
};

pub(super) async fn create(
    State(app): State<Shared>,
    caller: Caller<PoolAdmin>,
    Input(request): Input<CreatePool>,
) -> Result<Json<Pool>, Refusal> {
    let pools = Resource::Pool(&request.tenant_id, None);
    caller.may(pools).await?;
    Ok(Json(
        pool::create(&app.services.db, caller.name(), &request, Moment::now()).await?,
    ))
}

pub(super) async fn list(
    State(app): State<Shared>,
    caller: Caller<PoolRead>,
    Input(request): Input<ListPools>,
) -> Result<Json<Pools>, Refusal> {
    let pools = Resource::Pool(&request.tenant_id, None);
    caller.may(pools).await?;
    let pools = pool::list(&app.services.db, &request.tenant_id).await?;
    Ok(Json(Pools { pools }))
}

pub(super) async fn get(
    State(app): State<Shared>,
    caller: Caller<PoolRead>,
    Input(request): Input<OnePool>,
) -> Result<Json<Pool>, Refusal> {
    let this = Resource::Pool(&request.tenant_id, Some(&request.pool_id));
    caller.may(this).await?;
    Ok(Json(pool::get(&app.services.db, &request).await?))
}

pub(super) async fn update(
    State(app): State<Shared>,
    caller: Caller<PoolAdmin>,
    Input(request): Input<UpdatePool>,
) -> Result<Json<Pool>, Refusal> {
    let this = Resource::Pool(&request.tenant_id, Some(&request.pool_id));
    caller.may(this).await?;
    let pool = pool::update(&app.services.db, caller.name(), &request, Moment::now()).await?;
    // A larger budget may let a node start now.
    app.services.waker.wake();
    Ok(Json(pool))
}

pub(super) async fn archive(
    State(app): State<Shared>,
    caller: Caller<PoolAdmin>,
    Input(request): Input<OnePool>,
) -> Result<Json<Pool>, Refusal> {
    let this = Resource::Pool(&request.tenant_id, Some(&request.pool_id));
    caller.may(this).await?;
    let pool = pool::archive(&app.services.db, caller.name(), &request, Moment::now()).await?;
    // Its nodes leave the rollouts that they wait in.
    app.services.waker.wake();
    Ok(Json(pool))
}

pub(super) async fn unarchive(
    State(app): State<Shared>,
    caller: Caller<PoolAdmin>,
    Input(request): Input<OnePool>,
) -> Result<Json<Pool>, Refusal> {
    let this = Resource::Pool(&request.tenant_id, Some(&request.pool_id));
    caller.may(this).await?;
    let pool = pool::unarchive(&app.services.db, caller.name(), &request, Moment::now()).await?;
    // Its nodes are late for whatever was completed without them.
    app.services.waker.wake();
    Ok(Json(pool))
}

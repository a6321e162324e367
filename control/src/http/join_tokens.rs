//! `joinTokens.*`

use axum::{Json, extract::State};

use super::{Shared, caller::Caller, error::Refusal, input::Input, permit::PoolAdmin};
use crate::{
    access::decide::Resource,
    api::{
        access::{JoinToken, JoinTokens, ListJoinTokens, OneJoinToken},
        fleet::{CreateJoinToken, NewJoinToken},
    },
    clock::Moment,
    fleet::{join, join_token},
};

pub(super) async fn create(
    State(app): State<Shared>,
    caller: Caller<PoolAdmin>,
    Input(request): Input<CreateJoinToken>,
) -> Result<Json<NewJoinToken>, Refusal> {
    let this = Resource::Pool(&request.tenant_id, Some(&request.pool_id));
    caller.may(this).await?;
    let token =
        join::create_token(&app.services.db, caller.name(), &request, Moment::now()).await?;
    Ok(Json(token))
}

pub(super) async fn list(
    State(app): State<Shared>,
    caller: Caller<PoolAdmin>,
    Input(request): Input<ListJoinTokens>,
) -> Result<Json<JoinTokens>, Refusal> {
    let pools = Resource::Pool(&request.tenant_id, request.pool_id.as_ref());
    caller.may(pools).await?;
    let join_tokens = join_token::list(&app.services.db, &request).await?;
    Ok(Json(JoinTokens { join_tokens }))
}

pub(super) async fn revoke(
    State(app): State<Shared>,
    caller: Caller<PoolAdmin>,
    Input(request): Input<OneJoinToken>,
) -> Result<Json<JoinToken>, Refusal> {
    let db = &app.services.db;
    let pool = join_token::pool_of(db, &request).await?;
    let pool = Resource::Pool(&request.tenant_id, pool.as_ref());
    caller.may(pool).await?;
    let token = join_token::revoke(db, caller.name(), &request, Moment::now()).await?;
    Ok(Json(token))
}

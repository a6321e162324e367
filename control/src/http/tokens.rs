//! `tokens.*`

use axum::{Json, extract::State};

use super::{Shared, caller::Caller, error::Refusal, input::Input, permit::TenantAdmin};
use crate::{
    access::{decide::Resource, token},
    api::{
        access::{ListTokens, OneToken, Token, Tokens},
        fleet::{CreateToken, NewToken},
    },
    clock::Moment,
};

pub(super) async fn create(
    State(app): State<Shared>,
    caller: Caller<TenantAdmin>,
    Input(request): Input<CreateToken>,
) -> Result<Json<NewToken>, Refusal> {
    let tenant = Resource::Tenant(&request.tenant_id);
    caller.may(tenant).await?;
    // Nobody hands out what he does not have.
    for permission in token::permissions(&request)? {
        let on = Resource::of_tenant(permission, &request.tenant_id);
        caller.may_also(permission, on).await?;
    }
    let token = token::create(&app.services.db, caller.name(), &request, Moment::now()).await?;
    Ok(Json(token))
}

pub(super) async fn list(
    State(app): State<Shared>,
    caller: Caller<TenantAdmin>,
    Input(request): Input<ListTokens>,
) -> Result<Json<Tokens>, Refusal> {
    let tenant = Resource::Tenant(&request.tenant_id);
    caller.may(tenant).await?;
    let tokens = token::list(&app.services.db, &request.tenant_id).await?;
    Ok(Json(Tokens { tokens }))
}

pub(super) async fn revoke(
    State(app): State<Shared>,
    caller: Caller<TenantAdmin>,
    Input(request): Input<OneToken>,
) -> Result<Json<Token>, Refusal> {
    let tenant = Resource::Tenant(&request.tenant_id);
    caller.may(tenant).await?;
    let db = &app.services.db;
    let token = token::revoke(db, caller.name(), &request, Moment::now()).await?;
    Ok(Json(token))
}

//! `tokens.*`

use axum::{Json, extract::State};

use super::{Shared, caller::Caller, error::Refusal, input::Input};
use crate::{
    access::{action::Action, decide::Resource, token},
    api::{
        access::{ListTokens, OneToken, Token, Tokens},
        fleet::{CreateToken, NewToken},
    },
    clock::Moment,
};

pub(super) async fn create(
    State(app): State<Shared>,
    caller: Caller,
    Input(request): Input<CreateToken>,
) -> Result<Json<NewToken>, Refusal> {
    let tenant = Resource::Tenant(&request.tenant_id);
    caller.may(Action::TenantAdmin, tenant).await?;
    // Nobody hands out what he does not have.
    for permission in token::permissions(&request)? {
        let on = match permission {
            Action::FleetAdmin => Resource::Fleet,
            Action::PoolRead | Action::PoolAdmin => Resource::Pool(&request.tenant_id, None),
            Action::TenantAdmin => tenant,
        };
        caller.may(permission, on).await?;
    }
    let token = token::create(&app.services.db, caller.name(), &request, Moment::now()).await?;
    Ok(Json(token))
}

pub(super) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Input(request): Input<ListTokens>,
) -> Result<Json<Tokens>, Refusal> {
    let tenant = Resource::Tenant(&request.tenant_id);
    caller.may(Action::TenantAdmin, tenant).await?;
    let tokens = token::list(&app.services.db, &request.tenant_id).await?;
    Ok(Json(Tokens { tokens }))
}

pub(super) async fn revoke(
    State(app): State<Shared>,
    caller: Caller,
    Input(request): Input<OneToken>,
) -> Result<Json<Token>, Refusal> {
    let tenant = Resource::Tenant(&request.tenant_id);
    caller.may(Action::TenantAdmin, tenant).await?;
    let db = &app.services.db;
    let token = token::revoke(db, caller.name(), &request, Moment::now()).await?;
    Ok(Json(token))
}

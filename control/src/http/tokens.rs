//! `tokens.*`

use axum::{Json, extract::State};

use super::{Shared, caller::Caller, error::Refusal, input::Input};
use crate::{
    access::{action::Action, decide::Resource, token},
    api::fleet::{CreateToken, NewToken},
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
    let token = token::create(&app.services.db, &request, Moment::now()).await?;
    Ok(Json(token))
}

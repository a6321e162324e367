//! `joinTokens.*`

use axum::{Json, extract::State};

use super::{Shared, caller::Caller, error::Refusal, input::Input};
use crate::{
    access::{action::Action, decide::Resource},
    api::fleet::{CreateJoinToken, NewJoinToken},
    clock::Moment,
    fleet::join,
};

pub(super) async fn create(
    State(app): State<Shared>,
    caller: Caller,
    Input(request): Input<CreateJoinToken>,
) -> Result<Json<NewJoinToken>, Refusal> {
    let this = Resource::Pool(&request.tenant_id, Some(&request.pool_id));
    caller.may(Action::PoolAdmin, this).await?;
    let token =
        join::create_token(&app.services.db, caller.name(), &request, Moment::now()).await?;
    Ok(Json(token))
}

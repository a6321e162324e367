//! `webhooks.*`

use axum::{Json, extract::State};

use super::{
    Shared, caller::Caller, error::Refusal, events::limit, input::Input, permit::TenantAdmin,
    sight::carried,
};
use crate::{
    access::decide::Resource,
    api::event::{
        CreateWebhook, Deliveries, ListDeliveries, ListWebhooks, NewWebhook, OneWebhook, Webhook,
        WebhookTest, Webhooks,
    },
    clock::Moment,
    event::{
        filter::Filter,
        webhook::{self, WebhookError},
    },
};

pub(super) async fn create(
    State(app): State<Shared>,
    caller: Caller<TenantAdmin>,
    Input(request): Input<CreateWebhook>,
) -> Result<Json<NewWebhook>, Refusal> {
    let tenant = Resource::Tenant(&request.tenant_id);
    caller.may(tenant).await?;
    let asked = Filter::asked(&request.types).map_err(WebhookError::from)?;
    let types = carried(&app, caller.subject(), (&request.tenant_id, &asked)).await?;
    let request = CreateWebhook { types, ..request };
    let by = (caller.name(), Moment::now());
    let webhook = webhook::create(&app.services.db, &app.reach, by, &request).await?;
    Ok(Json(webhook))
}

pub(super) async fn list(
    State(app): State<Shared>,
    caller: Caller<TenantAdmin>,
    Input(request): Input<ListWebhooks>,
) -> Result<Json<Webhooks>, Refusal> {
    let tenant = Resource::Tenant(&request.tenant_id);
    caller.may(tenant).await?;
    let webhooks = webhook::list(&app.services.db, &request.tenant_id).await?;
    Ok(Json(Webhooks { webhooks }))
}

pub(super) async fn delete(
    State(app): State<Shared>,
    caller: Caller<TenantAdmin>,
    Input(request): Input<OneWebhook>,
) -> Result<Json<Webhook>, Refusal> {
    let tenant = Resource::Tenant(&request.tenant_id);
    caller.may(tenant).await?;
    let by = (caller.name(), Moment::now());
    Ok(Json(webhook::delete(&app.services.db, by, &request).await?))
}

pub(super) async fn test(
    State(app): State<Shared>,
    caller: Caller<TenantAdmin>,
    Input(request): Input<OneWebhook>,
) -> Result<Json<WebhookTest>, Refusal> {
    let tenant = Resource::Tenant(&request.tenant_id);
    caller.may(tenant).await?;
    let by = (caller.name(), Moment::now());
    Ok(Json(webhook::test(&app.services.db, by, &request).await?))
}

pub(super) async fn deliveries(
    State(app): State<Shared>,
    caller: Caller<TenantAdmin>,
    Input(request): Input<ListDeliveries>,
) -> Result<Json<Deliveries>, Refusal> {
    let tenant = Resource::Tenant(&request.tenant_id);
    caller.may(tenant).await?;
    let limit = limit(request.limit)?;
    let deliveries = webhook::deliveries(&app.services.db, &request, limit).await?;
    Ok(Json(deliveries))
}

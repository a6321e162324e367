//! `events.*` and `webhooks.*`

use bc_protocol::id::{EventId, TenantId, WebhookId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::words;
use crate::clock::Moment;

/// `events.list`
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListEvents {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Those behind this position, oldest first; without it the newest ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// At most so many, 1 to 1000; 100 where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Of these types only, such as `rollout.paused`; `rollout.*` is all of a kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// About this only, such as `rollout/<id>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// `events.watch`
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WatchEvents {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// From behind this position on; without it from now on. The header `Last-Event-ID` counts more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Of these types only, such as `rollout.paused`; `rollout.*` is all of a kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// About this only, such as `rollout/<id>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Event {
    /// Its id; no other event ever has it.
    #[schema(value_type = words::EventId)]
    pub id: EventId,
    /// Its place in the order of all events.
    pub position: u64,
    /// What kind of thing happened.
    #[serde(rename = "type")]
    pub kind: String,
    /// To what.
    pub subject: String,
    /// Whose it is.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Who caused it.
    pub actor: String,
    /// When.
    pub at: Moment,
    /// The call that caused it, as its answer's `X-Request-Id` and control's log name it; absent where control acted by
    /// itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The particulars, by type.
    #[schema(value_type = Object)]
    pub data: Value,
}

/// `events.list`'s answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Events {
    /// The events, oldest first.
    pub events: Vec<Event>,
    /// Where the next call, or a watch, goes on: nothing up to here is missing.
    pub next: u64,
}

/// `webhooks.create`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateWebhook {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Where events are sent, https.
    pub url: String,
    /// Of these types only, such as `rollout.paused`; `rollout.*` is all of a kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
}

/// `webhooks.create`'s answer: the only time that the secret is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewWebhook {
    /// Its id.
    #[schema(value_type = words::WebhookId)]
    pub id: WebhookId,
    /// Where events are sent.
    pub url: String,
    /// What the receiver checks signatures with: `whsec_` and base64.
    pub secret: String,
    /// When it was made. Events from then on are sent.
    pub created_at: Moment,
}

/// `webhooks.list`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListWebhooks {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
}

/// `webhooks.delete`, `webhooks.test`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OneWebhook {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Which.
    #[schema(value_type = words::WebhookId)]
    pub webhook_id: WebhookId,
}

/// A webhook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Webhook {
    /// Its id.
    #[schema(value_type = words::WebhookId)]
    pub id: WebhookId,
    /// Where events are sent.
    pub url: String,
    /// Of which types; all where there are none.
    pub types: Vec<String>,
    /// When it was made.
    pub created_at: Moment,
    /// By whom.
    pub created_by: String,
    /// When it was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Moment>,
}

/// `webhooks.list`'s answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Webhooks {
    /// The webhooks, oldest first.
    pub webhooks: Vec<Webhook>,
}

/// `webhooks.test`'s answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebhookTest {
    /// Where it is sent.
    #[schema(value_type = words::WebhookId)]
    pub webhook_id: WebhookId,
    /// The event that is sent, of type `webhook.test`; `webhooks.deliveries` says how that goes.
    #[schema(value_type = words::EventId)]
    pub event_id: EventId,
}

/// `webhooks.deliveries`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListDeliveries {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Of which webhook.
    #[schema(value_type = words::WebhookId)]
    pub webhook_id: WebhookId,
    /// At most so many, 1 to 1000; 100 where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// How a delivery stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DeliveryState {
    /// It is sent, or sent again, until somebody takes it.
    Pending,
    /// The receiver has taken it.
    Delivered,
    /// It was tried often enough.
    Failed,
}

/// One event on its way to one webhook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Delivery {
    /// The event, and the message's id: the same in every attempt.
    #[schema(value_type = words::EventId)]
    pub event_id: EventId,
    /// The event's place in the order of all events.
    pub position: u64,
    /// The event's type.
    #[serde(rename = "type")]
    pub kind: String,
    /// How it stands.
    pub state: DeliveryState,
    /// How often it was sent.
    pub attempts: u32,
    /// When it is sent next; absent where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Moment>,
    /// What the receiver answered last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_status: Option<u32>,
    /// Why the last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When it last changed.
    pub updated_at: Moment,
}

/// `webhooks.deliveries`' answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Deliveries {
    /// The deliveries, newest first.
    pub deliveries: Vec<Delivery>,
}

//! `gateways.*`

use bc_protocol::id::{GatewayId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::words;
use crate::clock::Moment;

/// `gateways.enrol`: lets one gateway enrol, once.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EnrolGateway {
    /// The root tenant.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// What people call it.
    pub name: String,
    /// Where nodes reach it: `wss://HOST[:PORT]/session`. The host is what its certificate is for.
    pub url: String,
}

/// `gateways.enrol`'s answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewGateway {
    /// Its id.
    #[schema(value_type = words::GatewayId)]
    pub id: GatewayId,
    /// The one-use token for `gateways.join`; shown once.
    pub token: String,
    /// When the token stops working.
    pub expires_at: Moment,
}

/// `gateways.join`, authorized by the enrolment token.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct JoinGateway {
    /// The certificate request, PEM.
    pub csr: String,
}

/// `gateways.join`'s answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JoinedGateway {
    /// The gateway's id.
    #[schema(value_type = words::GatewayId)]
    pub gateway_id: GatewayId,
    /// The certificate for both roles, PEM.
    pub certificate: String,
    /// What to trust, PEM.
    pub authorities: String,
    /// Where control takes links: `wss://HOST:PORT/link`.
    pub link_url: String,
}

/// `gateways.list`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListGateways {
    /// The root tenant.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
}

/// A gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Gateway {
    /// Its id.
    #[schema(value_type = words::GatewayId)]
    pub id: GatewayId,
    /// What people call it.
    pub name: String,
    /// Where nodes reach it.
    pub url: String,
    /// Whether it has redeemed its token.
    pub enrolled: bool,
    /// Whether it holds a link now.
    pub linked: bool,
    /// Since when it has held one, or none; absent before its first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Moment>,
}

/// `gateways.list`'s answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Gateways {
    /// The gateways, by name.
    pub gateways: Vec<Gateway>,
}

/// `gateways.remove`: lets a gateway in no more.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RemoveGateway {
    /// The root tenant.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Which.
    #[schema(value_type = words::GatewayId)]
    pub gateway_id: GatewayId,
}

/// `gateways.remove`'s answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemovedGateway {
    /// Its id; no other gateway ever gets it.
    #[schema(value_type = words::GatewayId)]
    pub id: GatewayId,
    /// What it was called; another one may be called so now.
    pub name: String,
    /// When it was removed.
    pub removed_at: Moment,
}

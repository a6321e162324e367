//! `pools.*`, `nodes.*`, and what makes tokens

use std::collections::BTreeMap;

use bc_protocol::{
    digest::Sha256,
    id::{JoinTokenId, NodeId, PoolId, TenantId, TokenId},
    sequence::{ReleaseFloor, Sequence},
    session::{AttemptFacts, Progress, Slot, TrialFacts},
    share::Share,
    version::Version,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{object::object, words};
use crate::clock::Moment;

/// How a pool may be treated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PoolPolicy {
    /// The share of the pool's nodes that may be disrupted at once.
    #[serde(default = "default_budget")]
    #[schema(value_type = words::Share)]
    pub disruption_budget: Share,
}

fn default_budget() -> Share {
    Share::from_millionths(50_000).unwrap_or(Share::ZERO)
}

impl Default for PoolPolicy {
    fn default() -> Self {
        Self {
            disruption_budget: default_budget(),
        }
    }
}

/// `pools.create`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreatePool {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// What people call it; unique among the tenant's pools, but for archived ones without nodes.
    pub name: String,
    /// How it may be treated.
    #[serde(default, deserialize_with = "object")]
    pub policy: PoolPolicy,
}

/// `pools.list`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListPools {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
}

/// `pools.get`, `pools.archive`, `pools.unarchive`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OnePool {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Which.
    #[schema(value_type = words::PoolId)]
    pub pool_id: PoolId,
}

/// `pools.update`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UpdatePool {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Which.
    #[schema(value_type = words::PoolId)]
    pub pool_id: PoolId,
    /// A new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A new policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PoolPolicy>,
}

/// A pool of nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Pool {
    /// Its id.
    #[schema(value_type = words::PoolId)]
    pub id: PoolId,
    /// What people call it.
    pub name: String,
    /// How it may be treated.
    pub policy: PoolPolicy,
    /// Nodes that are not removed, offline ones too.
    pub nodes: u32,
    /// Nodes that are disrupted now.
    pub disrupted: u32,
    /// When it was made.
    pub created_at: Moment,
    /// When it was archived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived_at: Option<Moment>,
}

/// `pools.list`'s answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Pools {
    /// The pools, by name.
    pub pools: Vec<Pool>,
}

/// `joinTokens.create`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateJoinToken {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// The pool that nodes join with it.
    #[schema(value_type = words::PoolId)]
    pub pool_id: PoolId,
    /// How many nodes may join with it, 1 to 100,000.
    pub uses: u32,
    /// For how long, in seconds; fractions allowed.
    pub expires_in_seconds: f64,
}

/// `joinTokens.create`'s answer: the only time that the bearer form is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewJoinToken {
    /// Its id.
    #[schema(value_type = words::JoinTokenId)]
    pub id: JoinTokenId,
    /// `bcjt_<id>.<secret>`
    pub token: String,
    /// When it stops working.
    pub expires_at: Moment,
}

/// `nodes.join`, authorized by a join token in its bearer form.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct JoinNode {
    /// The certificate request, PEM. Its key is the node's identity.
    pub csr: String,
    /// What the node is like.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// `nodes.renew`, called with the node's own key: the request is signed by it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RenewNode {
    /// Which.
    #[schema(value_type = words::NodeId)]
    pub node_id: NodeId,
    /// A certificate request, PEM.
    pub csr: String,
}

/// `nodes.join`'s and `nodes.renew`'s answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JoinedNode {
    /// The node's id; also in the certificate.
    #[schema(value_type = words::NodeId)]
    pub node_id: NodeId,
    /// The client certificate, PEM.
    pub certificate: String,
    /// What to trust, PEM; several certificates while the authority changes.
    pub authorities: String,
    /// Where gateways can be reached: `wss://HOST:PORT/session`.
    pub gateways: Vec<String>,
}

/// `nodes.list`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListNodes {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Of one pool only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::PoolId>)]
    pub pool_id: Option<PoolId>,
    /// Those behind this one, by id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::NodeId>)]
    pub after: Option<NodeId>,
    /// At most so many, 1 to 10000; all of them where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// `nodes.get`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OneNode {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Which.
    #[schema(value_type = words::NodeId)]
    pub node_id: NodeId,
}

/// `nodes.update`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UpdateNode {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Which.
    #[schema(value_type = words::NodeId)]
    pub node_id: NodeId,
    /// Labels to set over those that the node says; null takes one back that was set before.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Option<String>>,
    /// Whether rollouts are to leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<bool>,
}

/// `nodes.remove`'s answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemovedNode {
    /// Its id; no other node ever gets it.
    #[schema(value_type = words::NodeId)]
    pub id: NodeId,
    /// The pool that it was in.
    #[schema(value_type = words::PoolId)]
    pub pool_id: PoolId,
    /// When it was removed.
    pub removed_at: Moment,
}

/// A node and what it last said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Node {
    /// Its id.
    #[schema(value_type = words::NodeId)]
    pub id: NodeId,
    /// Its pool.
    #[schema(value_type = words::PoolId)]
    pub pool_id: PoolId,
    /// What it is like.
    pub labels: BTreeMap<String, String>,
    /// Those of them that an operator has set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set_labels: BTreeMap<String, String>,
    /// Whether it holds a session.
    pub online: bool,
    /// Since when it has been online, or offline.
    pub since: Option<Moment>,
    /// Whether its owner or an operator keeps it out of rollouts.
    pub maintenance: bool,
    /// The generation of its desired state.
    pub generation: u64,
    /// When it joined.
    pub joined_at: Moment,
    /// What it last said; absent before its first session.
    #[serde(flatten)]
    pub reported: Option<Reported>,
}

/// The facts of a node that people ask for; all of them, or none before its first session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reported {
    /// The version that runs.
    #[schema(value_type = words::Version, required = false)]
    pub version: Version,
    /// Its sequence.
    #[schema(value_type = words::Sequence, required = false)]
    pub sequence: Sequence,
    /// Its digest.
    #[schema(value_type = words::Sha256, required = false)]
    pub digest: Sha256,
    /// The slot that runs.
    #[schema(value_type = Option<words::Slot>)]
    pub slot: Option<Slot>,
    /// The oldest release that the node accepts.
    #[schema(value_type = words::ReleaseFloor, required = false)]
    pub floor: ReleaseFloor,
    /// The trial that goes on.
    #[schema(value_type = Option<words::TrialFacts>)]
    pub trial: Option<TrialFacts>,
    /// The newest attempt.
    #[schema(value_type = Option<words::AttemptFacts>)]
    pub last_attempt: Option<AttemptFacts>,
    /// What the updater does now.
    #[schema(value_type = Option<words::Progress>)]
    pub progress: Option<Progress>,
    /// The generation that the node has seen last.
    #[schema(required = false)]
    pub observed_generation: u64,
    /// The owner's reason, where he holds the node.
    pub held: Option<String>,
}

/// `nodes.list`'s answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Nodes {
    /// The nodes, by id.
    pub nodes: Vec<Node>,
    /// Behind which one the next call goes on; absent where nobody is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::NodeId>)]
    pub next: Option<NodeId>,
}

/// `tokens.create`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateToken {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Who will hold it; the actor in events and audit.
    pub subject: String,
    /// What it allows, such as `compute:pool:read`.
    pub permissions: Vec<String>,
    /// For how long it works, in seconds, at most a year; absent: until it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_seconds: Option<f64>,
}

/// `tokens.create`'s answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewToken {
    /// Its id.
    #[schema(value_type = words::TokenId)]
    pub id: TokenId,
    /// The bearer form; shown once.
    pub token: String,
    /// When it stops working; absent: when it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Moment>,
}

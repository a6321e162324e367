//! `fleet.*`

use std::collections::BTreeMap;

use bc_protocol::{
    id::{PoolId, TenantId},
    version::Version,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::words;
use crate::clock::Moment;

/// `fleet.freeze`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FreezeFleet {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Why, at most 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `fleet.unfreeze`, `fleet.summary`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OneFleet {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
}

/// `fleet.freeze`'s and `fleet.unfreeze`'s answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Fleet {
    /// Why nothing starts; absent where nodes may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<Frozen>,
}

/// An operator's word that nothing starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Frozen {
    /// Why.
    pub reason: String,
    /// By whom.
    pub by: String,
    /// Since when.
    pub since: Moment,
}

/// `fleet.summary`'s answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FleetSummary {
    /// Why nothing starts; absent where nodes may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<Frozen>,
    /// The whole fleet.
    pub total: Census,
    /// The pools that are in use, by name, and archived ones that have nodes.
    pub pools: Vec<PoolSummary>,
}

/// One pool's nodes, counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PoolSummary {
    /// The pool.
    #[schema(value_type = words::PoolId)]
    pub pool_id: PoolId,
    /// What people call it.
    pub name: String,
    /// When it was archived: rollouts leave its nodes out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_at: Option<Moment>,
    /// How many may be disrupted at once.
    pub concurrency: u32,
    /// Its nodes.
    #[serde(flatten)]
    pub census: Census,
}

/// Nodes, counted. One node can be in several of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Census {
    /// All that are not removed.
    pub nodes: u32,
    /// They hold a session.
    pub online: u32,
    /// They have a workflow, or an upgrade or its way back in flight.
    pub disrupted: u32,
    /// They refused the newest release that they were told to run, and the rollout that told them was not aborted.
    pub refusing: u32,
    /// A binary is on trial on them.
    pub on_trial: u32,
    /// The newest completed rollout of their pool has not reached them.
    pub late: u32,
    /// Their owners hold them.
    pub held: u32,
    /// They are in maintenance.
    pub maintenance: u32,
    /// How many run which version; nodes that have said nothing yet are not in it.
    #[schema(value_type = BTreeMap<words::Version, u32>)]
    pub versions: BTreeMap<Version, u32>,
}

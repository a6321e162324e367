//! `rollouts.*`

use std::collections::BTreeMap;

use bc_protocol::{
    id::{NodeId, PoolId, RolloutId, TenantId},
    share::{Percent, Share},
    version::Version,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{freeze::Frozen, words};
use crate::clock::Moment;

/// `rollouts.create`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateRollout {
    /// Whose pools.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// The release to bring.
    #[schema(value_type = words::Version)]
    pub version: Version,
    /// These pools only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<words::PoolId>>)]
    pub pool_ids: Option<Vec<PoolId>>,
    /// These nodes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<words::NodeId>>)]
    pub node_ids: Option<Vec<NodeId>>,
    /// Nodes with all these labels only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<BTreeMap<String, String>>,
    /// Nodes in maintenance too.
    #[serde(default)]
    pub include_maintenance: bool,
    /// Cumulative percentages, rising, the last is 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<words::Percent>>)]
    pub waves: Option<Vec<Percent>>,
    /// The share of a wave that may fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Share>)]
    pub max_failure_ratio: Option<Share>,
    /// Rest between waves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soak_seconds: Option<f64>,
    /// How long one node may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade_timeout_seconds: Option<f64>,
    /// Equal calls with one key make one rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// `rollouts.list`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListRollouts {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
}

/// `rollouts.get`, `rollouts.resume`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OneRollout {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Which.
    #[schema(value_type = words::RolloutId)]
    pub rollout_id: RolloutId,
}

/// `rollouts.pause`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PauseRollout {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Which.
    #[schema(value_type = words::RolloutId)]
    pub rollout_id: RolloutId,
    /// Why, at most 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `rollouts.abort`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AbortRollout {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Which.
    #[schema(value_type = words::RolloutId)]
    pub rollout_id: RolloutId,
    /// Why, at most 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether nodes that are being upgraded go back.
    #[serde(default)]
    pub rollback: bool,
}

/// `rollouts.retry`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RetryRollout {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Which.
    #[schema(value_type = words::RolloutId)]
    pub rollout_id: RolloutId,
    /// Of its failed nodes only these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<words::NodeId>>)]
    pub node_ids: Option<Vec<NodeId>>,
}

/// `rollouts.explain`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ExplainRollout {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Which.
    #[schema(value_type = words::RolloutId)]
    pub rollout_id: RolloutId,
    /// Which of its nodes, or any other of the tenant.
    #[schema(value_type = words::NodeId)]
    pub node_id: NodeId,
}

/// `rollouts.explain`'s answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Explanation {
    /// The rollout.
    #[schema(value_type = words::RolloutId)]
    pub rollout_id: RolloutId,
    /// The node.
    #[schema(value_type = words::NodeId)]
    pub node_id: NodeId,
    /// How the node stands in the rollout; absent where it has no part in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<RowState>,
    /// Why, in one word.
    pub code: String,
    /// Why, in one sentence.
    pub sentence: String,
}

/// `rollouts.plan`'s answer: what `rollouts.create` would begin. Nothing is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RolloutPlan {
    /// The release that it would bring.
    #[schema(value_type = words::Version)]
    pub version: Version,
    /// Nodes in scope.
    pub nodes: u32,
    /// Those that run the version already, confirmed.
    pub already: u32,
    /// Its waves, in order.
    pub waves: Vec<PlannedWave>,
    /// The pools that it would move through, by id.
    pub pools: Vec<PlannedPool>,
    /// What somebody should look at before creating it.
    pub warnings: Vec<PlanWarning>,
    /// How long it takes if every node needs `secondsPerNode`, and nothing fails.
    pub estimated_seconds: f64,
    /// What the estimate takes for one node: what nodes took lately, or a guess.
    pub seconds_per_node: f64,
}

/// A wave that a rollout would have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlannedWave {
    /// Cumulative percentage.
    #[schema(value_type = words::Percent)]
    pub percent: Percent,
    /// Its nodes.
    pub nodes: u32,
    /// Its nodes by pool.
    #[schema(value_type = BTreeMap<words::PoolId, u32>)]
    pub pools: BTreeMap<PoolId, u32>,
    /// How long it takes, its soak included.
    pub estimated_seconds: f64,
}

/// A pool that a rollout would move through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlannedPool {
    /// The pool.
    #[schema(value_type = words::PoolId)]
    pub pool_id: PoolId,
    /// Nodes in scope.
    pub nodes: u32,
    /// Of these, how many are online now.
    pub online: u32,
    /// How many of the pool may be disrupted at once.
    pub concurrency: u32,
    /// How many are now.
    pub disrupted: u32,
}

/// Something about a planned rollout that its author may not have meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanWarning {
    /// In one word.
    pub code: String,
    /// In one sentence.
    pub message: String,
}

/// A rollout's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RolloutState {
    /// Nodes start as budget and waves allow.
    Running,
    /// Nothing starts; what is in flight settles.
    Paused,
    /// Every node has settled.
    Completed,
    /// An operator ended it.
    Aborted,
}

/// The state of one node in a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RowState {
    /// Its turn has not come.
    Pending,
    /// It has been told.
    Upgrading,
    /// It runs the version, confirmed.
    Succeeded,
    /// It does not, and will not by itself.
    Failed,
    /// It was passed over.
    Skipped,
    /// It is on its way back.
    RollingBack,
    /// It is back.
    RolledBack,
}

/// How many nodes of a rollout are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct RowCounts {
    /// Their turn has not come.
    pub pending: u32,
    /// They have been told.
    pub upgrading: u32,
    /// They run the version, confirmed.
    pub succeeded: u32,
    /// They do not, and will not by themselves.
    pub failed: u32,
    /// They were passed over.
    pub skipped: u32,
    /// They are on their way back.
    pub rolling_back: u32,
    /// They are back.
    pub rolled_back: u32,
}

/// A rollout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rollout {
    /// Its id.
    #[schema(value_type = words::RolloutId)]
    pub id: RolloutId,
    /// The release that it brings.
    #[schema(value_type = words::Version)]
    pub version: Version,
    /// Its state.
    pub state: RolloutState,
    /// Why it is paused or aborted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it had paused when it was aborted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_reason: Option<String>,
    /// Why nothing starts in the whole tenant; absent where nodes may start, and once the rollout has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<Frozen>,
    /// Until when the open wave rests; only `rollouts.get` gives it, and only while it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soaks_until: Option<Moment>,
    /// Cumulative percentages.
    #[schema(value_type = Vec<words::Percent>)]
    pub waves: Vec<Percent>,
    /// The current wave, from 0.
    pub wave: u32,
    /// The share of a wave that may fail.
    #[schema(value_type = words::Share)]
    pub max_failure_ratio: Share,
    /// Rest between waves.
    pub soak_seconds: f64,
    /// How long one node may take.
    pub upgrade_timeout_seconds: f64,
    /// Nodes by state.
    pub nodes: RowCounts,
    /// When it was made.
    pub created_at: Moment,
    /// When it last changed.
    pub updated_at: Moment,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Moment>,
    /// By whom it was made.
    pub created_by: String,
    /// Every node, in rollout order; only `rollouts.get` gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_list: Option<Vec<RolloutNode>>,
    /// Nodes that were started after the rollout had completed; only `rollouts.get` gives them, and no count holds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_nodes: Option<Vec<LateNode>>,
}

/// A node that joined after a rollout, or that it passed over, and that converges on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LateNode {
    /// The node.
    #[schema(value_type = words::NodeId)]
    pub node_id: NodeId,
    /// Its pool.
    #[schema(value_type = words::PoolId)]
    pub pool_id: PoolId,
    /// How it stands.
    pub state: RowState,
    /// The version that it ran when it was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Version>)]
    pub from_version: Option<Version>,
    /// When it was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Moment>,
    /// When it settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Moment>,
    /// Why it failed or was skipped, or what it is retrying after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One node of a rollout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RolloutNode {
    /// The node.
    #[schema(value_type = words::NodeId)]
    pub node_id: NodeId,
    /// Its pool.
    #[schema(value_type = words::PoolId)]
    pub pool_id: PoolId,
    /// Its wave, from 0.
    pub wave: u32,
    /// How it stands.
    pub state: RowState,
    /// The version that it ran when it was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Version>)]
    pub from_version: Option<Version>,
    /// When it was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Moment>,
    /// When it settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Moment>,
    /// Why it failed or was skipped, or what it is retrying after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `rollouts.list`'s answer: the 100 newest, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Rollouts {
    /// The rollouts.
    pub rollouts: Vec<Rollout>,
}

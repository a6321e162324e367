//! `workflows.*`

use bc_protocol::id::{NodeId, PoolId, TenantId, WorkflowId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::words;
use crate::clock::Moment;

/// `workflows.create`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateWorkflow {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// The node that it disrupts.
    #[schema(value_type = words::NodeId)]
    pub node_id: NodeId,
    /// What is done to it, such as `reboot` or `replace-disk`.
    pub kind: String,
    /// Why, at most 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Equal calls with one key make one workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// `workflows.list`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListWorkflows {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Of this node only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::NodeId>)]
    pub node_id: Option<NodeId>,
    /// In this state only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<WorkflowState>,
}

/// `workflows.update`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UpdateWorkflow {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Which.
    #[schema(value_type = words::WorkflowId)]
    pub workflow_id: WorkflowId,
    /// How it stands now.
    pub state: WorkflowState,
    /// Why, at most 500 characters; without it, what was said last stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A workflow's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WorkflowState {
    /// It will begin.
    Pending,
    /// It works on the node.
    Running,
    /// It rests in the middle.
    Paused,
    /// It is done.
    Succeeded,
    /// It did not work.
    Failed,
    /// Somebody gave it up.
    Cancelled,
}

/// Work on one node that takes a place of its pool's budget until it has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Workflow {
    /// Its id.
    #[schema(value_type = words::WorkflowId)]
    pub id: WorkflowId,
    /// The node that it disrupts.
    #[schema(value_type = words::NodeId)]
    pub node_id: NodeId,
    /// The node's pool.
    #[schema(value_type = words::PoolId)]
    pub pool_id: PoolId,
    /// What is done to it.
    pub kind: String,
    /// How it stands.
    pub state: WorkflowState,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was made.
    pub created_at: Moment,
    /// By whom.
    pub created_by: String,
    /// When it last changed.
    pub updated_at: Moment,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Moment>,
}

/// `workflows.list`'s answer: the 100 newest, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Workflows {
    /// The workflows.
    pub workflows: Vec<Workflow>,
}

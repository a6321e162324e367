//! `commands.*`

use bc_protocol::{
    command::{Kind, Lane, Part},
    id::{CommandId, NodeId, TenantId},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{object::object, words};
use crate::clock::Moment;

/// How far a command has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CommandState {
    /// It waits for its node, or for the one before it.
    Pending,
    /// The node has it, or will have it when it is back.
    Dispatched,
    /// The node did what was asked.
    Succeeded,
    /// It did not, and said why.
    Failed,
    /// It was not begun in time.
    Expired,
    /// It was begun, and nobody heard of its end in time.
    TimedOut,
}

/// `commands.create`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateCommand {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// For which node.
    #[schema(value_type = words::NodeId)]
    pub node_id: NodeId,
    /// What it is to do. Upgrades are what rollouts make, and nobody else.
    #[schema(value_type = words::CommandKind)]
    pub kind: Kind,
    /// The particulars.
    #[serde(
        default,
        skip_serializing_if = "Payload::is_empty",
        deserialize_with = "object"
    )]
    pub payload: Payload,
    /// Two calls for one node with one key make one command; without it every call makes another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// For how long it may wait to be begun, in seconds from 1 to 2,592,000; fractions allowed, an hour by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_seconds: Option<f64>,
}

/// The particulars of a command that callers make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Payload {
    /// The parts of a report to collect; all of them where none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<words::ReportPart>)]
    pub collect: Vec<Part>,
}

impl Payload {
    /// Whether it says nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.collect.is_empty()
    }
}

/// `commands.list`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListCommands {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Of one node only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::NodeId>)]
    pub node_id: Option<NodeId>,
}

/// `commands.get`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OneCommand {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Which.
    #[schema(value_type = words::CommandId)]
    pub command_id: CommandId,
}

/// Something that a node is to do once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Command {
    /// Its id.
    #[schema(value_type = words::CommandId)]
    pub id: CommandId,
    /// For which node.
    #[schema(value_type = words::NodeId)]
    pub node_id: NodeId,
    /// What it is to do.
    #[schema(value_type = words::CommandKind)]
    pub kind: Kind,
    /// The lane that it waits in.
    #[schema(value_type = words::CommandLane)]
    pub lane: Lane,
    /// The particulars: parts of a report, or an upgrade's version, digest and attempt.
    #[schema(value_type = Object)]
    pub payload: Value,
    /// No other command of this node has it.
    pub idempotency_key: String,
    /// How far it has come.
    pub state: CommandState,
    /// When it is not begun any more.
    pub expires_at: Moment,
    /// When it was made.
    pub created_at: Moment,
    /// By whom.
    pub created_by: String,
    /// When it was last given to its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatched_at: Option<Moment>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Moment>,
    /// The reason against it, as a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// A sentence about its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What was collected; `commands.get` gives it alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
}

/// `commands.list`'s answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Commands {
    /// The newest hundred, the newest first.
    pub commands: Vec<Command>,
}

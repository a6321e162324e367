//! Why a call was not carried out, and how the API says so.

use bc_protocol::id::{NodeId, WorkflowId};
use thiserror::Error;

use crate::api::{
    error::{Code, ErrorObject},
    reason::NoReason,
    workflow::WorkflowState,
};

/// Why a call was not carried out. Nothing was stored.
#[derive(Debug, Error)]
pub(crate) enum WorkflowError {
    /// The database failed.
    #[error("the database failed")]
    Sql(#[from] sqlx::Error),
    /// The kind is no word.
    #[error(
        "expected 1 to 64 lower-case letters, digits or any of ._- as the kind, found another text"
    )]
    Kind,
    /// The key is no key.
    #[error("expected 1 to 128 letters, digits or any of ._~:/+=- as the key, found another text")]
    Key,
    /// The reason cannot be shown.
    #[error(transparent)]
    Reason(#[from] NoReason),
    /// Not a node of this tenant.
    #[error("there is no node {node}")]
    NoNode {
        /// The id asked for.
        node: NodeId,
    },
    /// Not a workflow of this tenant.
    #[error("there is no workflow {workflow}")]
    NotFound {
        /// The id asked for.
        workflow: WorkflowId,
    },
    /// The key was used for something else.
    #[error("the idempotency key was used for another node or kind before, in {workflow}")]
    KeyTaken {
        /// The workflow of that key.
        workflow: WorkflowId,
    },
    /// No workflow goes this way.
    #[error("expected {}, found {}", after(*from), to.word())]
    Move {
        /// How it stands.
        from: WorkflowState,
        /// What was asked for.
        to: WorkflowState,
    },
}

/// What may follow.
fn after(from: WorkflowState) -> String {
    let next = WorkflowState::ALL
        .into_iter()
        .filter(|to| from.may_become(*to));
    let next: Vec<&str> = next.map(WorkflowState::word).collect();
    match next.as_slice() {
        [] => format!("nothing after {}, which is an end", from.word()),
        next => format!("one of {} after {}", next.join(", "), from.word()),
    }
}

impl From<WorkflowError> for ErrorObject {
    fn from(error: WorkflowError) -> Self {
        match &error {
            WorkflowError::Sql(_) => Self::internal(&error),
            WorkflowError::Kind => Self::invalid("kind", error),
            WorkflowError::Key => Self::invalid("idempotencyKey", error),
            WorkflowError::Reason(_) => Self::invalid("reason", error),
            WorkflowError::NoNode { node } => {
                Self::new(Code::NotFound, &error).with("nodeId", node)
            }
            WorkflowError::NotFound { workflow } => {
                Self::new(Code::NotFound, &error).with("workflowId", workflow)
            }
            WorkflowError::KeyTaken { workflow } => {
                Self::new(Code::Conflict, &error).with("workflowId", workflow)
            }
            WorkflowError::Move { from, to } => Self::new(Code::InvalidState, &error)
                .with("from", from.word())
                .with("to", to.word()),
        }
    }
}

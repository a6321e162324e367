//! `workflows list`.

use bc_protocol::id::NodeId;
use clap::Args;

use crate::{
    api::workflow::{ListWorkflows, WorkflowState, Workflows},
    cli::{exit::Exit, failure::Failure, online::Online},
};

/// List the 100 newest workflows, newest first
#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    /// Only of this node
    #[arg(long, value_name = "NODE")]
    node: Option<NodeId>,
    /// Only in this state
    #[arg(long, value_name = "STATE")]
    state: Option<WorkflowState>,
}

impl List {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = ListWorkflows {
            tenant_id: online.client.tenant.clone(),
            node_id: self.node,
            state: self.state,
        };
        online.show::<Workflows>("workflows/list", &request).await
    }
}

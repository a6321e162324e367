//! `workflows list`.

use clap::Args;

use crate::{
    api::workflow::{ListWorkflows, WorkflowState, Workflows},
    cli::{
        exit::Exit,
        failure::Failure,
        online::{NodeName, Online},
    },
};

/// List the 100 newest workflows, newest first
#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    /// Only of this node
    #[arg(long, value_name = "NODE")]
    node: Option<NodeName>,
    /// Only in this state
    #[arg(long, value_name = "STATE", value_parser = super::states())]
    state: Option<WorkflowState>,
}

impl List {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let node_id = match &self.node {
            Some(node) => Some(online.node(node).await?),
            None => None,
        };
        let request = ListWorkflows {
            tenant_id: online.client.tenant.clone(),
            node_id,
            state: self.state,
        };
        online.show::<Workflows>("workflows/list", &request).await
    }
}

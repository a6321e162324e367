//! `workflows update`.

use bc_protocol::id::WorkflowId;
use clap::Args;

use crate::{
    api::workflow::{UpdateWorkflow, Workflow, WorkflowState},
    cli::{exit::Exit, failure::Failure, named::Named, online::Online, rollouts::reason},
};

/// Say how a workflow stands; one that has ended gives its node's place back
///
/// It is pending first, then running, where it may pause; only what has run succeeds. It may fail or be cancelled at any
/// time, and stays as it has ended.
#[derive(Debug, Args)]
pub(in crate::cli) struct Update {
    /// Its id, or the beginning or end of it
    #[arg(value_name = "WORKFLOW")]
    workflow: Named<WorkflowId>,
    /// How it stands now
    #[arg(long, value_name = "STATE", value_parser = super::states())]
    state: WorkflowState,
    /// Why, for everybody who looks at it later
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
}

impl Update {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = UpdateWorkflow {
            tenant_id: online.client.tenant.clone(),
            workflow_id: online.id(&self.workflow).await?,
            state: self.state,
            reason: self.reason,
        };
        online.show::<Workflow>("workflows/update", &request).await
    }
}

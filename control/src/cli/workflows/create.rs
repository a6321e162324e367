//! `workflows create`.

use clap::Args;

use crate::{
    api::workflow::{CreateWorkflow, Workflow},
    cli::{
        dry::DryRun,
        exit::Exit,
        failure::Failure,
        online::{NodeName, Online},
        rollouts::{key, reason},
    },
};

/// Count work on a node from now on
///
/// The work itself is somebody else's. Its node takes a place in its pool's budget until the workflow has ended.
#[derive(Debug, Args)]
pub(in crate::cli) struct Create {
    /// The node that it disrupts, by its id, the beginning or end of it, or its hostname
    #[arg(long, value_name = "NODE")]
    node: NodeName,
    /// What is done to it, such as reboot
    #[arg(long, value_name = "WORD")]
    kind: String,
    /// Why, for everybody who looks at it later
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
    /// Two calls with one key make one workflow
    #[arg(long, value_name = "KEY", value_parser = key)]
    key: Option<String>,
    #[command(flatten)]
    dry_run: DryRun,
}

impl Create {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = CreateWorkflow {
            tenant_id: online.client.tenant.clone(),
            node_id: online.node(&self.node).await?,
            kind: self.kind,
            reason: self.reason,
            idempotency_key: self.key,
        };
        if self.dry_run.is_wanted() {
            return DryRun::show(online, "workflows/create", &request);
        }
        online.show::<Workflow>("workflows/create", &request).await
    }
}

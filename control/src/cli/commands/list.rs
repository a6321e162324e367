//! `commands list`.

use bc_protocol::id::NodeId;
use clap::Args;

use crate::{
    api::command::{Commands, ListCommands},
    cli::{exit::Exit, failure::Failure, online::Online},
};

/// List the 100 newest commands, the newest first
#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    /// Of one node only
    #[arg(long, value_name = "NODE")]
    node: Option<NodeId>,
}

impl List {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = ListCommands {
            tenant_id: online.client.tenant.clone(),
            node_id: self.node,
        };
        online.show::<Commands>("commands/list", &request).await
    }
}

//! `commands list`.

use clap::Args;

use crate::{
    api::command::{Commands, ListCommands},
    cli::{
        exit::Exit,
        failure::Failure,
        online::{NodeName, Online},
    },
};

/// List the 100 newest commands, the newest first
#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    /// Of one node only, by its id, the beginning or end of it, or its hostname
    #[arg(long, value_name = "NODE")]
    node: Option<NodeName>,
}

impl List {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let node_id = match &self.node {
            Some(node) => Some(online.node(node).await?),
            None => None,
        };
        let request = ListCommands {
            tenant_id: online.client.tenant.clone(),
            node_id,
        };
        online.show::<Commands>("commands/list", &request).await
    }
}

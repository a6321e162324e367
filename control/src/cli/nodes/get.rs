//! `nodes get`.

use clap::Args;

use crate::{
    api::fleet::{Node, OneNode},
    cli::{
        exit::Exit,
        failure::Failure,
        online::{NodeName, Online},
    },
};

/// Show one node: what it runs, and how its last attempt went
#[derive(Debug, Args)]
pub(in crate::cli) struct Get {
    /// Its id, the beginning or end of it, or its hostname
    #[arg(value_name = "NODE")]
    node: NodeName,
}

impl Get {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = OneNode {
            tenant_id: online.client.tenant.clone(),
            node_id: online.node(&self.node).await?,
        };
        online.show::<Node>("nodes/get", &request).await
    }
}

//! `nodes get`.

use bc_protocol::id::NodeId;
use clap::Args;

use crate::{
    api::fleet::{Node, OneNode},
    cli::{exit::Exit, failure::Failure, online::Online},
};

/// Show one node: what it runs, and how its last attempt went
#[derive(Debug, Args)]
pub(in crate::cli) struct Get {
    /// Its id
    #[arg(value_name = "NODE")]
    node: NodeId,
}

impl Get {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = OneNode {
            tenant_id: online.client.tenant.clone(),
            node_id: self.node,
        };
        online.show::<Node>("nodes/get", &request).await
    }
}

//! `nodes remove`.

use bc_protocol::id::NodeId;
use clap::Args;

use crate::{
    api::fleet::{OneNode, RemovedNode},
    cli::{
        ask::{Consent, confirm},
        exit::Exit,
        failure::Failure,
        online::Online,
    },
};

/// Remove a node from the fleet: its sessions end within a second, and no gateway takes it again
///
/// What it runs stays on its machine. To bring the machine back, join it anew.
#[derive(Debug, Args)]
pub(in crate::cli) struct Remove {
    /// Its id
    #[arg(value_name = "NODE")]
    node: NodeId,
    #[command(flatten)]
    consent: Consent,
}

impl Remove {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        confirm(&format!("Remove the node {}?", self.node), &self.consent)?;
        let request = OneNode {
            tenant_id: online.client.tenant.clone(),
            node_id: self.node,
        };
        online.show::<RemovedNode>("nodes/remove", &request).await
    }
}

//! `nodes remove`.

use clap::Args;

use crate::{
    api::fleet::{OneNode, RemovedNode},
    cli::{
        ask::{Consent, confirm},
        exit::Exit,
        failure::Failure,
        online::{NodeName, Online},
    },
};

/// Remove a node from the fleet: its sessions end within a second, and no gateway takes it again
///
/// What it runs stays on its machine. To bring the machine back, join it anew.
#[derive(Debug, Args)]
pub(in crate::cli) struct Remove {
    /// Its id, the beginning or end of it, or its hostname
    #[arg(value_name = "NODE")]
    node: NodeName,
    #[command(flatten)]
    consent: Consent,
}

impl Remove {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let node = online.node(&self.node).await?;
        confirm(&format!("Remove the node {node}?"), &self.consent)?;
        let request = OneNode {
            tenant_id: online.client.tenant.clone(),
            node_id: node,
        };
        online.show::<RemovedNode>("nodes/remove", &request).await
    }
}

//! `nodes remove`.

use clap::Args;

use crate::{
    api::fleet::{Node, OneNode, RemovedNode},
    cli::{
        ask::{Consent, confirm},
        exit::Exit,
        failure::Failure,
        online::{NodeName, Online},
        sheet::printable,
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
        let request = OneNode {
            tenant_id: online.client.tenant.clone(),
            node_id: node,
        };
        if self.consent.is_open() {
            let node = online.client.call::<Node>("nodes/get", &request).await?;
            confirm(&question(&node.value), &self.consent)?;
        }
        online.show::<RemovedNode>("nodes/remove", &request).await
    }
}

/// An id alone is nothing that people know a machine by.
fn question(node: &Node) -> String {
    let hostname = node.labels.get("hostname");
    let hostname = hostname.map(|name| format!("{}, ", printable(name)));
    let presence = if node.online { "online" } else { "offline" };
    format!(
        "Remove the node {} ({}{presence})?",
        node.id,
        hostname.unwrap_or_default()
    )
}

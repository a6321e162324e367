//! `rollouts retry`.

use std::collections::BTreeSet;

use bc_protocol::id::{NodeId, RolloutId};
use clap::Args;

use super::watch::{WatchFlags, or_show_late};
use crate::{
    api::rollout::{OneRollout, RetryRollout, Rollout, RolloutState, RowState},
    cli::{
        exit::Exit,
        failure::Failure,
        named::Named,
        online::{NodeName, Online},
        print::note,
    },
};

/// Try nodes that failed in a completed rollout again
///
/// They are started as late nodes, within their pools' budgets; the rollout's waves stay as they ended. A rollout that was
/// aborted, or made for certain nodes or labels, is not tried again: create another one for those nodes.
#[derive(Debug, Args)]
pub(in crate::cli) struct Retry {
    /// Its id, or the beginning or end of it
    #[arg(value_name = "ROLLOUT")]
    rollout: Named<RolloutId>,
    /// Only this node, by id, the beginning or end of it, or hostname; may be given several times
    #[arg(long = "node", value_name = "NODE")]
    nodes: Vec<NodeName>,
    #[command(flatten)]
    watch: WatchFlags,
}

impl Retry {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let mut nodes = Vec::new();
        for node in &self.nodes {
            nodes.push(online.node(node).await?);
        }
        let rollout_id = online.id(&self.rollout).await?;
        let request = OneRollout {
            tenant_id: online.client.tenant.clone(),
            rollout_id: rollout_id.clone(),
        };
        let found = online
            .client
            .call::<Rollout>("rollouts/get", &request)
            .await?;
        // Who names nodes is told which of them has not failed.
        let names_none = nodes.is_empty() && found.value.state == RolloutState::Completed;
        if names_none && failed(&found.value).next().is_none() {
            online.show_answer(&found).await?;
            if !online.printer.is_for_programs() {
                note("nothing to try again: no node of it has failed since it was last tried");
            }
            return Ok(Exit::Done);
        }
        let request = RetryRollout {
            tenant_id: request.tenant_id,
            rollout_id,
            node_ids: Some(nodes).filter(|nodes| !nodes.is_empty()),
        };
        let again = online
            .client
            .call::<Rollout>("rollouts/retry", &request)
            .await?;
        or_show_late(online, self.watch, again).await
    }
}

/// The nodes whose last word is that they failed: a late row is newer than that of a wave.
fn failed(rollout: &Rollout) -> impl Iterator<Item = &NodeId> {
    let late = rollout.late_nodes.iter().flatten();
    let again: BTreeSet<&NodeId> = late.clone().map(|node| &node.node_id).collect();
    let late = late.filter(|node| node.state == RowState::Failed);
    let rows = rollout.node_list.iter().flatten();
    let rows =
        rows.filter(move |node| node.state == RowState::Failed && !again.contains(&node.node_id));
    rows.map(|node| &node.node_id)
        .chain(late.map(|node| &node.node_id))
}

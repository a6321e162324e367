//! `nodes list`.

use std::collections::BTreeSet;

use bc_protocol::{id::NodeId, session::AttemptFacts, version::Version};
use clap::Args;
use serde_json::Value;

use super::attempt_tone;
use crate::{
    api::fleet::{ListNodes, Node, Nodes},
    cli::{
        exit::Exit,
        failure::Failure,
        online::{Online, PoolScope},
        print::{Answer, note},
        sheet::Tone,
    },
};

/// List nodes and the versions that they run
#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    /// Of one pool only, by id or name
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// Only nodes that run this version
    #[arg(long, value_name = "VERSION")]
    version: Option<Version>,
    /// Only nodes with this label, such as hostname=db-1; may be given several times, and all must hold
    #[arg(long, value_name = "NAME=VALUE", value_parser = super::pair)]
    selector: Vec<(String, String)>,
    /// Only nodes with a session
    #[arg(long, conflicts_with = "offline")]
    online: bool,
    /// Only nodes without one
    #[arg(long)]
    offline: bool,
    /// Only nodes whose last attempt was refused or failed
    #[arg(long)]
    failed: bool,
    /// Only nodes that their owners hold
    #[arg(long)]
    held: bool,
    /// Only nodes in maintenance
    #[arg(long)]
    maintenance: bool,
}

impl List {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let pool_id = match &self.pool {
            Some(pool) => Some(online.pool_in(pool, PoolScope::UsedFirst).await?),
            None => None,
        };
        let request = ListNodes {
            tenant_id: online.client.tenant.clone(),
            pool_id,
            after: None,
            limit: None,
        };
        let listed = online.client.call::<Nodes>("nodes/list", &request).await?;
        let all = listed.value.nodes.len();
        let narrowed = self.narrowed(listed);
        online.show_answer(&narrowed).await?;
        if all == 0 {
            online.tell_if_empty("nodes/list", &narrowed);
        } else if narrowed.value.nodes.is_empty() && online.printer.sheet(&narrowed).is_some() {
            note(&format!("none of the {all} nodes there is like that"));
        }
        Ok(Exit::Done)
    }

    /// Leaves out what was not asked for, for people and for programs.
    fn narrowed(&self, mut answer: Answer<Nodes>) -> Answer<Nodes> {
        answer.value.nodes.retain(|node| self.wants(node));
        let kept = answer.value.nodes.iter().map(|node| &node.id);
        let kept: BTreeSet<&str> = kept.map(NodeId::as_str).collect();
        if let Some(nodes) = answer.raw.get_mut("nodes").and_then(Value::as_array_mut) {
            nodes.retain(|node| {
                let id = node.get("id").and_then(Value::as_str);
                id.is_some_and(|id| kept.contains(id))
            });
        }
        answer
    }

    fn wants(&self, node: &Node) -> bool {
        let said = node.reported.as_ref();
        let runs = said.map(|said| &said.version);
        let last = said.and_then(|said| said.last_attempt.as_ref());
        let mut labels = self.selector.iter();
        let stands = match (self.online, self.offline) {
            (true, _) => node.online,
            (false, true) => !node.online,
            (false, false) => true,
        };
        stands
            && (self.version.is_none() || runs == self.version.as_ref())
            && labels.all(|(name, value)| node.labels.get(name) == Some(value))
            && (!self.failed || last.is_some_and(has_failed))
            && (!self.held || said.is_some_and(|said| said.held.is_some()))
            && (!self.maintenance || node.maintenance)
    }
}

fn has_failed(attempt: &AttemptFacts) -> bool {
    attempt_tone(attempt) == Tone::Bad
}

//! `rollouts explain`.

use bc_protocol::id::{NodeId, RolloutId};
use clap::Args;
use serde_json::json;

use super::progress::state_in_words;

use crate::{
    api::rollout::{ExplainRollout, Explanation, OneRollout, Rollout, RowState},
    cli::{
        exit::Exit,
        failure::Failure,
        named::Named,
        online::{NodeName, Online},
        print::{Answer, Detail, View, note},
        sheet::{Cell, Sheet},
    },
};

/// Say why a node is where it is in a rollout, in one sentence; without a node, what the rollout waits for
///
/// With --output wide, the word for it, too.
#[derive(Debug, Args)]
pub(in crate::cli) struct Explain {
    /// The rollout, by its id or the beginning or end of it
    #[arg(value_name = "ROLLOUT")]
    rollout: Named<RolloutId>,
    /// The node, by its id, the beginning or end of it, or its hostname; it need not be in the rollout
    #[arg(value_name = "NODE")]
    node: Option<NodeName>,
}

/// Nodes that a rollout is explained by: whoever needs more asks for them one by one.
const EXPLAINED_MAX: usize = 5;

/// The word for a tenant in which nothing starts.
const FROZEN: &str = "frozen";

/// What a rollout waits for.
#[derive(Debug)]
struct Explained {
    rollout: Rollout,
    /// The first nodes of the open wave that have not settled.
    nodes: Vec<Explanation>,
    /// How many others there are.
    others: usize,
}

impl Explain {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let rollout_id = online.id(&self.rollout).await?;
        let Some(named) = &self.node else {
            return explain_all(online, rollout_id).await;
        };
        let request = ExplainRollout {
            tenant_id: online.client.tenant.clone(),
            rollout_id,
            node_id: online.node(named).await?,
        };
        let told = online
            .client
            .call::<Explanation>("rollouts/explain", &request)
            .await?;
        online.show_answer(&told).await?;
        if told.value.code == FROZEN && !online.printer.is_for_programs() {
            note("  hint: `better-compute fleet unfreeze` lets nodes start again");
        }
        Ok(Exit::Done)
    }
}

async fn explain_all(online: &Online, rollout_id: RolloutId) -> Result<Exit, Failure> {
    let (client, tenant_id) = (&online.client, online.client.tenant.clone());
    let request = OneRollout {
        tenant_id: tenant_id.clone(),
        rollout_id: rollout_id.clone(),
    };
    let rollout = client.call::<Rollout>("rollouts/get", &request).await?;
    let rollout = rollout.value;
    let unsettled = rollout
        .node_list
        .iter()
        .flatten()
        .filter(|node| match node.state {
            RowState::Pending | RowState::Upgrading => node.wave <= rollout.wave,
            RowState::RollingBack => true,
            RowState::Succeeded | RowState::Failed | RowState::Skipped | RowState::RolledBack => {
                false
            }
        });
    let unsettled: Vec<NodeId> = unsettled.map(|node| node.node_id.clone()).collect();
    let (mut nodes, mut raw) = (Vec::new(), Vec::new());
    for node_id in unsettled.iter().take(EXPLAINED_MAX) {
        let request = ExplainRollout {
            tenant_id: tenant_id.clone(),
            rollout_id: rollout_id.clone(),
            node_id: node_id.clone(),
        };
        let told = client.call::<Explanation>("rollouts/explain", &request);
        let told = told.await?;
        nodes.push(told.value);
        raw.push(told.raw);
    }
    let others = unsettled.len().saturating_sub(nodes.len());
    let raw = json!({"rolloutId": rollout_id, "explanations": raw, "others": others});
    let value = Explained {
        rollout,
        nodes,
        others,
    };
    online.show_answer(&Answer { value, raw }).await?;
    Ok(Exit::Done)
}

impl View for Explained {
    fn sheet(&self, detail: Detail) -> Sheet {
        let rows = self.nodes.iter().map(|told| {
            let state = told.state.map(|state| state.word());
            let mut row = vec![Cell::id(&told.node_id), Cell::optional(state)];
            if detail == Detail::Wide {
                row.push(Cell::new(&told.code));
            }
            row.push(Cell::new(&told.sentence).into_prose());
            row
        });
        let header: &[&str] = match detail {
            Detail::Brief => &["NODE", "STATE", "WHY"],
            Detail::Wide => &["NODE", "STATE", "BECAUSE", "WHY"],
        };
        let mut said = state_in_words(&self.rollout);
        if self.others > 0 {
            said = format!("{said}; {} more nodes wait like these", self.others);
        }
        Sheet::sentence(said).above(Sheet::rows(header, rows.collect()))
    }

    fn names(&self) -> Vec<String> {
        let nodes = self.nodes.iter();
        nodes.map(|told| told.node_id.to_string()).collect()
    }
}

impl View for Explanation {
    const SCHEMA: Option<&'static str> = Some("Explanation");

    fn sheet(&self, detail: Detail) -> Sheet {
        let state = self.state.map(|state| format!(" ({})", state.word()));
        let sentence = format!(
            "{}{}: {}",
            self.node_id,
            state.unwrap_or_default(),
            self.sentence
        );
        match detail {
            Detail::Brief => return Sheet::sentence(sentence),
            Detail::Wide => {}
        }
        Sheet::fields(vec![
            ("node", Cell::new(&self.node_id)),
            (
                "state",
                Cell::optional(self.state.map(|state| state.word())),
            ),
            ("because", Cell::new(&self.code)),
            ("that is", Cell::new(&self.sentence)),
        ])
    }

    fn names(&self) -> Vec<String> {
        vec![self.node_id.to_string()]
    }
}

//! `rollouts explain`.

use bc_protocol::id::RolloutId;
use clap::Args;

use crate::{
    api::rollout::{ExplainRollout, Explanation},
    cli::{
        exit::Exit,
        failure::Failure,
        online::{NodeName, Online},
        print::{Detail, View},
        sheet::{Cell, Sheet},
    },
};

/// Say why a node is where it is in a rollout, in one sentence
///
/// With --output wide, the word for it, too.
#[derive(Debug, Args)]
pub(in crate::cli) struct Explain {
    /// The rollout
    #[arg(value_name = "ROLLOUT")]
    rollout: RolloutId,
    /// The node, by its id, the end of it, or its hostname; it need not be in the rollout
    #[arg(value_name = "NODE")]
    node: NodeName,
}

impl Explain {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = ExplainRollout {
            tenant_id: online.client.tenant.clone(),
            rollout_id: self.rollout,
            node_id: online.node(&self.node).await?,
        };
        online
            .show::<Explanation>("rollouts/explain", &request)
            .await
    }
}

impl View for Explanation {
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

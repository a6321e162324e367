//! `better-compute workflows`.

use std::str::FromStr;

use clap::{
    Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};

use super::{
    exit::Exit,
    failure::Failure,
    online::Online,
    print::{Detail, View},
    sheet::{Cell, Sheet, Tone, second},
};
use crate::api::workflow::{Workflow, WorkflowState, Workflows};

mod create;
mod list;
mod update;

/// Count other work on nodes against their pools' budgets, so that no rollout disrupts too many beside it
#[derive(Debug, Subcommand)]
pub(super) enum WorkflowsCommand {
    Create(create::Create),
    List(list::List),
    Update(update::Update),
}

impl WorkflowsCommand {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        match self {
            Self::Create(command) => command.run(online).await,
            Self::List(command) => command.run(online).await,
            Self::Update(command) => command.run(online).await,
        }
    }
}

/// The states, for a shell to offer.
fn states() -> impl TypedValueParser<Value = WorkflowState> {
    PossibleValuesParser::new(WorkflowState::ALL.map(WorkflowState::word))
        .try_map(|word| word.parse::<WorkflowState>())
}

/// Why a text is no state.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected pending, running, paused, succeeded, failed or cancelled")]
pub(crate) struct NoState;

impl FromStr for WorkflowState {
    type Err = NoState;

    fn from_str(text: &str) -> Result<Self, NoState> {
        Self::from_word(text).ok_or(NoState)
    }
}

impl View for Workflow {
    const SCHEMA: Option<&'static str> = Some("Workflow");

    fn sheet(&self, _detail: Detail) -> Sheet {
        Sheet::fields(vec![
            ("id", Cell::new(&self.id)),
            ("node", Cell::new(&self.node_id)),
            ("pool", Cell::pool(&self.pool_id)),
            ("kind", Cell::new(&self.kind)),
            ("state", state(self.state)),
            ("reason", Cell::optional(self.reason.as_ref())),
            (
                "created",
                Cell::new(format!(
                    "{} by {}",
                    second(self.created_at),
                    self.created_by
                )),
            ),
            ("updated", Cell::new(second(self.updated_at))),
            ("finished", Cell::optional(self.finished_at.map(second))),
        ])
    }

    fn names(&self) -> Vec<String> {
        vec![self.id.to_string()]
    }
}

impl View for Workflows {
    const SCHEMA: Option<&'static str> = Some("Workflows");

    fn sheet(&self, detail: Detail) -> Sheet {
        let brief = ["ID", "NODE", "KIND", "STATE", "CREATED"];
        let wide = ["POOL", "BY", "FINISHED", "REASON"];
        let rows = self
            .workflows
            .iter()
            .map(|workflow| {
                let mut row = vec![
                    Cell::id(&workflow.id),
                    Cell::id(&workflow.node_id),
                    Cell::new(&workflow.kind),
                    state(workflow.state),
                    Cell::new(second(workflow.created_at)),
                ];
                if detail == Detail::Wide {
                    row.extend([
                        Cell::pool(&workflow.pool_id),
                        Cell::new(&workflow.created_by),
                        Cell::optional(workflow.finished_at.map(second)),
                        Cell::optional_prose(workflow.reason.as_ref()),
                    ]);
                }
                row
            })
            .collect();
        Sheet::rows(&detail.columns(&brief, &wide), rows)
    }

    fn names(&self) -> Vec<String> {
        self.workflows
            .iter()
            .map(|workflow| workflow.id.to_string())
            .collect()
    }
}

fn state(state: WorkflowState) -> Cell {
    let tone = match state {
        WorkflowState::Pending | WorkflowState::Running | WorkflowState::Paused => Tone::Busy,
        WorkflowState::Succeeded => Tone::Good,
        WorkflowState::Failed | WorkflowState::Cancelled => Tone::Bad,
    };
    Cell::toned(state.word(), tone)
}

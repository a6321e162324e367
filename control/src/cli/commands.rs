//! `better-compute commands`.

use bc_protocol::command::Kind;
use clap::Subcommand;

use super::{
    exit::Exit,
    failure::Failure,
    online::Online,
    print::{Detail, View},
    sheet::{Cell, Sheet, Tone, second},
};
use crate::api::command::{Command, CommandState, Commands};

mod create;
mod get;
mod list;
mod watch;

/// Have nodes do something once: restart their daemon, or say how they are
#[derive(Debug, Subcommand)]
pub(super) enum CommandsCommand {
    Create(create::Create),
    List(list::List),
    Get(get::Get),
}

impl CommandsCommand {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        match self {
            Self::Create(command) => command.run(online).await,
            Self::List(command) => command.run(online).await,
            Self::Get(command) => command.run(online).await,
        }
    }
}

impl View for Command {
    const SCHEMA: Option<&'static str> = Some("Command");

    fn sheet(&self, _detail: Detail) -> Sheet {
        let mut fields = vec![
            ("id", Cell::new(&self.id)),
            ("node", Cell::new(&self.node_id)),
            ("kind", Cell::new(self.kind)),
            ("payload", Cell::new(payload(self))),
            ("key", Cell::new(&self.idempotency_key)),
            ("state", state(self.state)),
            ("code", Cell::optional(self.code.as_ref())),
            ("message", Cell::optional(self.message.as_ref())),
            ("created", Cell::new(second(self.created_at))),
            ("created by", Cell::new(&self.created_by)),
            ("expires", Cell::new(second(self.expires_at))),
            ("dispatched", Cell::optional(self.dispatched_at.map(second))),
            ("finished", Cell::optional(self.finished_at.map(second))),
        ];
        if let Some(report) = &self.report {
            fields.push(("report", Cell::lines(report)));
        }
        Sheet::fields(fields)
    }

    fn names(&self) -> Vec<String> {
        vec![self.id.to_string()]
    }
}

impl View for Commands {
    const SCHEMA: Option<&'static str> = Some("Commands");

    fn sheet(&self, detail: Detail) -> Sheet {
        let brief = ["ID", "NODE", "KIND", "STATE", "CREATED", "MESSAGE"];
        let wide = ["KEY", "EXPIRES", "FINISHED"];
        let rows = self
            .commands
            .iter()
            .map(|command| {
                let mut row = vec![
                    Cell::id(&command.id),
                    Cell::id(&command.node_id),
                    Cell::new(command.kind),
                    state(command.state),
                    Cell::new(second(command.created_at)),
                    Cell::optional_prose(command.message.as_ref()),
                ];
                if detail == Detail::Wide {
                    row.extend([
                        Cell::new(&command.idempotency_key),
                        Cell::new(second(command.expires_at)),
                        Cell::optional(command.finished_at.map(second)),
                    ]);
                }
                row
            })
            .collect();
        Sheet::rows(&detail.columns(&brief, &wide), rows)
    }

    fn names(&self) -> Vec<String> {
        let ids = self.commands.iter().map(|command| command.id.to_string());
        ids.collect()
    }
}

fn state(state: CommandState) -> Cell {
    let tone = match state {
        CommandState::Succeeded => Tone::Good,
        CommandState::Pending | CommandState::Dispatched => Tone::Busy,
        CommandState::Failed | CommandState::Expired | CommandState::TimedOut => Tone::Bad,
    };
    Cell::toned(state.word(), tone)
}

fn payload(command: &Command) -> String {
    match command.kind {
        Kind::Restart => "-".to_owned(),
        Kind::Upgrade | Kind::Diagnostics => command.payload.to_string(),
    }
}

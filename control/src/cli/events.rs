//! `better-compute events`.

use clap::Subcommand;

use super::{
    exit::Exit,
    failure::Failure,
    online::Online,
    print::{Detail, View},
    sheet::{Cell, Sheet, second},
};
use crate::api::event::{Event, Events};

mod list;
mod watch;

/// See what happened, and what happens
#[derive(Debug, Subcommand)]
pub(super) enum EventsCommand {
    List(list::List),
    Watch(watch::Watch),
}

impl EventsCommand {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        match self {
            Self::List(command) => command.run(online).await,
            Self::Watch(command) => command.run(online).await,
        }
    }
}

impl View for Events {
    const SCHEMA: Option<&'static str> = Some("Events");

    fn sheet(&self, detail: Detail) -> Sheet {
        let header = detail.columns(&["TIME", "TYPE", "SUBJECT", "ACTOR"], &["POSITION", "DATA"]);
        let rows = self.events.iter().map(|event| row(event, detail)).collect();
        Sheet::rows(&header, rows)
    }

    fn names(&self) -> Vec<String> {
        self.events
            .iter()
            .map(|event| event.id.to_string())
            .collect()
    }
}

fn row(event: &Event, detail: Detail) -> Vec<Cell> {
    let mut row = vec![
        Cell::new(second(event.at)),
        Cell::new(&event.kind),
        Cell::new(&event.subject),
        Cell::new(&event.actor),
    ];
    match detail {
        Detail::Brief => {}
        Detail::Wide => row.extend([Cell::new(event.position), Cell::prose(&event.data)]),
    }
    row
}

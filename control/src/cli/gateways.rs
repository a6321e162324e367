//! `better-compute gateways`.

use clap::Subcommand;

use super::{
    exit::Exit,
    failure::Failure,
    issued::Issued,
    online::Online,
    print::{Detail, View},
    sheet::{Cell, Sheet, Tone, second},
};
use crate::api::gateway::{Gateways, NewGateway, RemovedGateway};

mod enrol;
mod list;
mod remove;

/// Enrol the gateways that hold the nodes' sessions, and remove them
#[derive(Debug, Subcommand)]
pub(super) enum GatewaysCommand {
    Enrol(enrol::Enrol),
    List(list::List),
    Remove(remove::Remove),
}

impl GatewaysCommand {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        match self {
            Self::Enrol(command) => command.run(online).await,
            Self::List(command) => command.run(online).await,
            Self::Remove(command) => command.run(online).await,
        }
    }
}

impl View for NewGateway {
    const SCHEMA: Option<&'static str> = Some("NewGateway");

    fn sheet(&self, _detail: Detail) -> Sheet {
        Sheet::fields(vec![
            ("id", Cell::new(&self.id)),
            ("token expires", Cell::new(second(self.expires_at))),
        ])
    }

    fn names(&self) -> Vec<String> {
        vec![self.id.to_string()]
    }
}

impl Issued for NewGateway {
    fn token(&self) -> &str {
        &self.token
    }
}

impl View for RemovedGateway {
    const SCHEMA: Option<&'static str> = Some("RemovedGateway");

    fn sheet(&self, _detail: Detail) -> Sheet {
        Sheet::fields(vec![
            ("id", Cell::new(&self.id)),
            ("name", Cell::new(&self.name)),
            ("removed", Cell::new(second(self.removed_at))),
        ])
    }

    fn names(&self) -> Vec<String> {
        vec![self.id.to_string()]
    }
}

impl View for Gateways {
    const SCHEMA: Option<&'static str> = Some("Gateways");

    fn sheet(&self, _detail: Detail) -> Sheet {
        let rows = self
            .gateways
            .iter()
            .map(|gateway| {
                vec![
                    Cell::new(&gateway.id),
                    Cell::new(&gateway.name),
                    Cell::new(&gateway.url),
                    state(gateway.enrolled, gateway.linked),
                    Cell::optional(gateway.since.map(second)),
                ]
            })
            .collect();
        Sheet::rows(&["ID", "NAME", "URL", "STATE", "SINCE"], rows)
    }

    fn names(&self) -> Vec<String> {
        self.gateways
            .iter()
            .map(|gateway| gateway.id.to_string())
            .collect()
    }
}

fn state(enrolled: bool, linked: bool) -> Cell {
    match (enrolled, linked) {
        (_, true) => Cell::toned("linked", Tone::Good),
        (true, false) => Cell::toned("not linked", Tone::Bad),
        (false, false) => Cell::toned("not enrolled yet", Tone::Busy),
    }
}

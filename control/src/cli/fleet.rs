//! `better-compute fleet`.

use clap::Subcommand;

use super::pools::called;
use super::{
    exit::Exit,
    failure::Failure,
    online::Online,
    print::{Detail, View},
    sheet::{Cell, Sheet, Tone, second},
};
use crate::api::freeze::{Census, Fleet, FleetSummary, Frozen};

mod freeze;
mod summary;
mod unfreeze;

/// Look at the whole fleet, and stop every start in it
#[derive(Debug, Subcommand)]
pub(super) enum FleetCommand {
    Freeze(freeze::Freeze),
    Unfreeze(unfreeze::Unfreeze),
    Summary(summary::Summary),
}

impl FleetCommand {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        match self {
            Self::Freeze(command) => command.run(online).await,
            Self::Unfreeze(command) => command.run(online).await,
            Self::Summary(command) => command.run(online).await,
        }
    }
}

impl View for Fleet {
    const SCHEMA: Option<&'static str> = Some("Fleet");

    fn sheet(&self, _detail: Detail) -> Sheet {
        Sheet::fields(frozen(self.frozen.as_ref()))
    }

    fn names(&self) -> Vec<String> {
        vec![word(self.frozen.as_ref()).to_owned()]
    }
}

impl View for FleetSummary {
    const SCHEMA: Option<&'static str> = Some("FleetSummary");

    fn sheet(&self, detail: Detail) -> Sheet {
        let brief = [
            "POOL",
            "NODES",
            "ONLINE",
            "DISRUPTED",
            "LATE",
            "REFUSING",
            "VERSIONS",
        ];
        let wide = ["ON TRIAL", "HELD", "MAINTENANCE", "AT ONCE"];
        let mut rows: Vec<Vec<Cell>> = self
            .pools
            .iter()
            .map(|pool| {
                let name = called(&pool.name, pool.archived_at);
                row(&name, &pool.census, (detail, Some(pool.concurrency)))
            })
            .collect();
        rows.push(row("all", &self.total, (detail, None)));
        Sheet::fields(frozen(self.frozen.as_ref()))
            .above(Sheet::rows(&detail.columns(&brief, &wide), rows))
    }

    fn names(&self) -> Vec<String> {
        self.pools
            .iter()
            .map(|pool| pool.pool_id.to_string())
            .collect()
    }
}

fn word(frozen: Option<&Frozen>) -> &'static str {
    match frozen {
        Some(_) => "frozen",
        None => "open",
    }
}

fn frozen(frozen: Option<&Frozen>) -> Vec<(&'static str, Cell)> {
    let mut fields = vec![("fleet", Cell::new(word(frozen)))];
    if let Some(Frozen { reason, by, since }) = frozen {
        fields = vec![
            ("fleet", Cell::toned("frozen", Tone::Bad)),
            ("reason", Cell::new(reason)),
            ("since", Cell::new(format!("{} by {by}", second(*since)))),
        ];
    }
    fields
}

fn row(name: &str, census: &Census, (detail, at_once): (Detail, Option<u32>)) -> Vec<Cell> {
    let versions: Vec<String> = census
        .versions
        .iter()
        .map(|(version, nodes)| format!("{version}: {nodes}"))
        .collect();
    let bad = |count: u32| {
        let tone = if count > 0 { Tone::Bad } else { Tone::Plain };
        Cell::toned(count, tone)
    };
    let mut row = vec![
        Cell::new(name),
        Cell::new(census.nodes),
        Cell::new(census.online),
        Cell::new(census.disrupted),
        Cell::new(census.late),
        bad(census.refusing),
        Cell::optional(Some(versions.join(", ")).filter(|versions| !versions.is_empty())),
    ];
    if detail == Detail::Wide {
        row.extend([
            Cell::new(census.on_trial),
            Cell::new(census.held),
            Cell::new(census.maintenance),
            Cell::optional(at_once),
        ]);
    }
    row
}

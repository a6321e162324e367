//! `better-compute pools`.

use clap::Subcommand;

use super::{
    exit::Exit,
    failure::Failure,
    online::Online,
    print::{Detail, View},
    sheet::{Cell, Sheet, Tone, second},
};
use crate::{
    api::fleet::{Pool, Pools},
    clock::Moment,
};

mod archive;
mod create;
mod get;
mod list;
mod unarchive;
mod update;

/// Group nodes, and say how many of a group may be disrupted at once
#[derive(Debug, Subcommand)]
pub(super) enum PoolsCommand {
    Create(create::Create),
    List(list::List),
    Get(get::Get),
    Update(update::Update),
    Archive(archive::Archive),
    Unarchive(unarchive::Unarchive),
}

impl PoolsCommand {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        match self {
            Self::Create(command) => command.run(online).await,
            Self::List(command) => command.run(online).await,
            Self::Get(command) => command.run(online).await,
            Self::Update(command) => command.run(online).await,
            Self::Archive(command) => command.run(online).await,
            Self::Unarchive(command) => command.run(online).await,
        }
    }
}

impl View for Pool {
    const SCHEMA: Option<&'static str> = Some("Pool");

    fn sheet(&self, _detail: Detail) -> Sheet {
        Sheet::fields(vec![
            ("id", Cell::new(&self.id)),
            ("name", Cell::new(&self.name)),
            ("state", state(self)),
            (
                "disruption budget",
                Cell::new(self.policy.disruption_budget),
            ),
            ("nodes", Cell::new(self.nodes)),
            ("disrupted now", Cell::new(self.disrupted)),
            ("created", Cell::new(second(self.created_at))),
            ("archived", Cell::optional(self.archived_at.map(second))),
        ])
    }

    fn names(&self) -> Vec<String> {
        vec![self.id.to_string()]
    }
}

impl View for Pools {
    const SCHEMA: Option<&'static str> = Some("Pools");

    fn sheet(&self, detail: Detail) -> Sheet {
        let brief = ["ID", "NAME", "NODES", "DISRUPTED", "BUDGET", "STATE"];
        let wide = ["CREATED", "ARCHIVED"];
        let rows = self
            .pools
            .iter()
            .map(|pool| {
                let mut row = vec![
                    Cell::new(&pool.id),
                    Cell::new(&pool.name),
                    Cell::new(pool.nodes),
                    Cell::new(pool.disrupted),
                    Cell::new(pool.policy.disruption_budget),
                    state(pool),
                ];
                if detail == Detail::Wide {
                    row.extend([
                        Cell::new(second(pool.created_at)),
                        Cell::optional(pool.archived_at.map(second)),
                    ]);
                }
                row
            })
            .collect();
        Sheet::rows(&detail.columns(&brief, &wide), rows)
    }

    fn names(&self) -> Vec<String> {
        self.pools.iter().map(|pool| pool.id.to_string()).collect()
    }
}

/// A pool's name where it stands beside others: what is archived says so.
pub(super) fn called(name: &str, archived_at: Option<Moment>) -> String {
    match archived_at {
        Some(_) => format!("{name} (archived)"),
        None => name.to_owned(),
    }
}

fn state(pool: &Pool) -> Cell {
    match pool.archived_at {
        Some(_) => Cell::new("archived"),
        None => Cell::toned("active", Tone::Good),
    }
}

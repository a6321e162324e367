//! `better-compute releases`: what control knows of signed releases.

use clap::Subcommand;

use super::{
    exit::Exit,
    failure::Failure,
    online::Online,
    print::{Detail, View},
    sheet::{Cell, Sheet, second},
};
use crate::api::release::{Release, Releases};

mod get;
mod list;
mod publish;
mod register;

/// Register signed releases and look at them
#[derive(Debug, Subcommand)]
pub(super) enum ReleasesCommand {
    Register(register::Register),
    Publish(publish::Publish),
    List(list::List),
    Get(get::Get),
}

impl ReleasesCommand {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        match self {
            Self::Register(command) => command.run(online).await,
            Self::Publish(command) => command.run(online).await,
            Self::List(command) => command.run(online).await,
            Self::Get(command) => command.run(online).await,
        }
    }
}

impl View for Release {
    const SCHEMA: Option<&'static str> = Some("Release");

    fn sheet(&self, _detail: Detail) -> Sheet {
        let signers: Vec<String> = self.signers.iter().map(ToString::to_string).collect();
        let fields = Sheet::fields(vec![
            ("id", Cell::new(&self.id)),
            ("version", Cell::new(&self.version)),
            ("sequence", Cell::new(self.sequence)),
            ("issued", Cell::new(self.issued_at)),
            ("expires", Cell::new(self.expires_at)),
            ("signed by", Cell::new(signers.join(", "))),
            (
                "registered",
                Cell::new(format!(
                    "{} by {}",
                    second(self.registered_at),
                    self.registered_by
                )),
            ),
        ]);
        let rows = self
            .artifacts
            .iter()
            .map(|artifact| {
                vec![
                    Cell::new(&artifact.name),
                    Cell::optional(artifact.platform.as_ref()),
                    Cell::new(artifact.size),
                    // Whole, however narrow the terminal: people compare it.
                    Cell::new(artifact.sha256),
                ]
            })
            .collect();
        fields.above(Sheet::rows(&["FILE", "PLATFORM", "BYTES", "SHA256"], rows))
    }

    fn names(&self) -> Vec<String> {
        vec![self.version.to_string()]
    }
}

impl View for Releases {
    const SCHEMA: Option<&'static str> = Some("Releases");

    fn sheet(&self, detail: Detail) -> Sheet {
        let brief = ["VERSION", "SEQUENCE", "EXPIRES", "FILES", "REGISTERED"];
        let wide = ["BY", "ID"];
        let rows = self
            .releases
            .iter()
            .map(|release| {
                let mut row = vec![
                    Cell::new(&release.version),
                    Cell::new(release.sequence),
                    Cell::new(release.expires_at),
                    Cell::new(release.artifacts.len()),
                    Cell::new(second(release.registered_at)),
                ];
                if detail == Detail::Wide {
                    row.extend([Cell::new(&release.registered_by), Cell::new(&release.id)]);
                }
                row
            })
            .collect();
        Sheet::rows(&detail.columns(&brief, &wide), rows)
    }

    fn names(&self) -> Vec<String> {
        self.releases
            .iter()
            .map(|release| release.version.to_string())
            .collect()
    }
}

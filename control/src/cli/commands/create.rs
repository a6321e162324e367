//! `commands create`.

use std::time::Duration;

use bc_protocol::command::{Kind, Part};
use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use ulid::Ulid;

use super::watch::{WatchFlags, or_show};
use crate::{
    api::command::{Command, CreateCommand, Payload},
    chance,
    cli::{
        dry::DryRun,
        exit::Exit,
        failure::Failure,
        online::{NodeName, Online},
        span,
    },
    clock::Moment,
};

/// Have a node do something once
///
/// daemon.restart restarts its daemon; diagnostics.collect brings a bounded text report. A node that is away does it when
/// it is back, if that is before the command expires.
#[derive(Debug, Args)]
pub(in crate::cli) struct Create {
    /// The node, by its id, the beginning or end of it, or its hostname
    #[arg(long, value_name = "NODE")]
    node: NodeName,
    /// What it is to do
    #[arg(long, value_name = "KIND", value_parser = kinds())]
    kind: Kind,
    /// A part of the report; may be given several times; all of them by default
    #[arg(long, value_name = "PART", value_delimiter = ',', value_parser = parts())]
    collect: Vec<Part>,
    /// Two calls with one key make one command; without it, a fresh key is sent
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// For how long it may wait to be begun, 1 second to 30 days; control's default is 1h
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = span::command_life)]
    expires: Option<Duration>,
    #[command(flatten)]
    watch: WatchFlags,
    #[command(flatten)]
    dry_run: DryRun,
}

/// What people have nodes do; upgrades are what rollouts are for.
fn kinds() -> impl TypedValueParser<Value = Kind> {
    let words = [Kind::Restart, Kind::Diagnostics].map(Kind::word);
    PossibleValuesParser::new(words).try_map(|word| word.parse::<Kind>())
}

fn parts() -> impl TypedValueParser<Value = Part> {
    PossibleValuesParser::new(Part::ALL.map(Part::word)).try_map(|word| word.parse::<Part>())
}

impl Create {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = CreateCommand {
            tenant_id: online.client.tenant.clone(),
            node_id: online.node(&self.node).await?,
            kind: self.kind,
            payload: Payload {
                collect: self.collect,
            },
            idempotency_key: Some(self.key.unwrap_or_else(fresh_key)),
            expires_in_seconds: self.expires.map(|span| span.as_secs_f64()),
        };
        if self.dry_run.is_wanted() {
            return DryRun::show(online, "commands/create", &request);
        }
        let made = online
            .client
            .call_until_answered::<Command>("commands/create", &request)
            .await?;
        or_show(online, self.watch, made).await
    }
}

fn fresh_key() -> String {
    Ulid::from_parts(Moment::now().unix_ms(), chance::bits()).to_string()
}

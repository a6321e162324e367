//! `tokens create`.

use std::time::Duration;

use clap::{Args, builder::PossibleValuesParser};

use crate::{
    access::action::Action,
    api::fleet::{CreateToken, NewToken},
    cli::{dry::DryRun, exit::Exit, failure::Failure, issued::Destination, online::Online, span},
};

/// Make an API token that allows what you say, and nothing else
///
/// Permissions are compute:fleet:admin (releases, rollouts, gateways), compute:pool:read and compute:pool:admin
/// (pools, nodes, join tokens), compute:tenant:admin (tokens). The token is shown once.
#[derive(Debug, Args)]
pub(in crate::cli) struct Create {
    /// Who will hold it; events and the audit trail name him
    #[arg(long, value_name = "SUBJECT")]
    subject: String,
    /// What it allows; may be given several times
    #[arg(long = "permission", value_name = "PERMISSION", required = true, value_parser = permissions())]
    permissions: Vec<String>,
    /// For how long it works, at most a year; without it, until it is revoked
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = span::token_life)]
    expires: Option<Duration>,
    #[command(flatten)]
    destination: Destination,
    #[command(flatten)]
    dry_run: DryRun,
}

fn permissions() -> PossibleValuesParser {
    PossibleValuesParser::new(Action::ALL.map(Action::word))
}

impl Create {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = CreateToken {
            tenant_id: online.client.tenant.clone(),
            subject: self.subject,
            permissions: self.permissions,
            expires_in_seconds: self.expires.map(|life| life.as_secs_f64()),
        };
        if self.dry_run.is_wanted() {
            return DryRun::show(online, "tokens/create", &request);
        }
        let destination = self.destination.prepare()?;
        let answer = online
            .client
            .call::<NewToken>("tokens/create", &request)
            .await?;
        destination.hand_over(&online.printer, answer)?;
        Ok(Exit::Done)
    }
}

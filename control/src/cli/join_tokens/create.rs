//! `join-tokens create`.

use std::time::Duration;

use clap::Args;

use crate::{
    api::fleet::{CreateJoinToken, NewJoinToken},
    cli::{dry::DryRun, exit::Exit, failure::Failure, issued::Destination, online::Online, span},
};

/// Make a token with which a number of nodes may join a pool for a while
///
/// The token is shown once. On a node, `bcd join --token-file FILE` uses it.
#[derive(Debug, Args)]
pub(in crate::cli) struct Create {
    /// The pool that nodes join with it, by id or name
    #[arg(long, value_name = "POOL")]
    pool: String,
    /// How many nodes may join with it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    uses: u32,
    /// For how long it works
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "1h", value_parser = span::token_life)]
    expires: Duration,
    #[command(flatten)]
    destination: Destination,
    #[command(flatten)]
    dry_run: DryRun,
}

impl Create {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = CreateJoinToken {
            tenant_id: online.client.tenant.clone(),
            pool_id: online.pool(&self.pool).await?,
            uses: self.uses,
            expires_in_seconds: self.expires.as_secs_f64(),
        };
        if self.dry_run.is_wanted() {
            return DryRun::show(online, "joinTokens/create", &request);
        }
        let destination = self.destination.prepare()?;
        let answer = online
            .client
            .call::<NewJoinToken>("joinTokens/create", &request)
            .await?;
        destination.hand_over(&online.printer, answer)?;
        Ok(Exit::Done)
    }
}

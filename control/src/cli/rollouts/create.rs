//! `rollouts create`.

use clap::Args;
use ulid::Ulid;

use super::{
    plan::show_plan,
    wanted::Wanted,
    watch::{WatchFlags, or_show},
};
use crate::{
    api::rollout::Rollout,
    chance,
    cli::{
        ask::{Consent, confirm},
        exit::Exit,
        failure::Failure,
        online::Online,
    },
    clock::Moment,
};

/// Start a rollout: bring a registered release to the fleet, wave by wave
///
/// Waves are cumulative percentages of the nodes in scope, which is everything that the tenant has, unless --pool,
/// --node or --selector narrow it. In each wave at most the pool's budget of nodes is disrupted at once. When more of
/// a wave than --max-failure-ratio fails, the rollout pauses by itself.
#[derive(Debug, Args)]
pub(in crate::cli) struct Create {
    #[command(flatten)]
    wanted: Wanted,
    /// Show what would begin, and begin nothing, as `rollouts plan` does
    #[arg(long, conflicts_with = "watch")]
    dry_run: bool,
    #[command(flatten)]
    watch: WatchFlags,
    #[command(flatten)]
    consent: Consent,
}

impl Create {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        if self.dry_run {
            return show_plan(online, self.wanted).await;
        }
        if self.wanted.starts_everything() {
            let question = format!(
                "The first wave is 100 %: nothing is tried out before every node gets {}. Start?",
                self.wanted.version
            );
            confirm(&question, &self.consent)?;
        }
        let request = self.wanted.request(online, || Some(fresh_key())).await?;
        let made = online
            .client
            .call_until_answered::<Rollout>("rollouts/create", &request)
            .await?;
        or_show(online, self.watch, made).await
    }
}

fn fresh_key() -> String {
    Ulid::from_parts(Moment::now().unix_ms(), chance::bits()).to_string()
}

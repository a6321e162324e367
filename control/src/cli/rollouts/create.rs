//! `rollouts create`.

use std::time::Duration;

use bc_protocol::{id::NodeId, share::Share, version::Version};
use clap::Args;
use ulid::Ulid;

use super::{
    arguments::{Label, Waves, key, selector},
    watch::{WatchFlags, or_show},
};
use crate::{
    api::rollout::{CreateRollout, Rollout},
    chance,
    cli::{
        ask::{Consent, confirm},
        exit::Exit,
        failure::Failure,
        online::Online,
        span,
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
    /// The release to bring; it must be registered
    #[arg(long, value_name = "VERSION")]
    version: Version,
    /// Cumulative percentages, rising to 100; control's default is 1,10,50,100
    #[arg(long, value_name = "PERCENTAGES")]
    waves: Option<Waves>,
    /// The share of a wave that may fail, 0 to 1; control's default is 0.05
    #[arg(long, value_name = "SHARE")]
    max_failure_ratio: Option<Share>,
    /// Rest between waves, 0 to 7 days; control's default is 10m
    #[arg(long, value_name = "DURATION", value_parser = span::soak)]
    soak: Option<Duration>,
    /// How long one node may take, 1 minute to 1 day; control's default is 15m
    #[arg(long, value_name = "DURATION", value_parser = span::upgrade_timeout)]
    upgrade_timeout: Option<Duration>,
    /// Only nodes of this pool, by id or name; may be given several times
    #[arg(long = "pool", value_name = "POOL")]
    pools: Vec<String>,
    /// Only this node; may be given several times
    #[arg(long = "node", value_name = "NODE", conflicts_with = "selector")]
    nodes: Vec<NodeId>,
    /// Only nodes with this label; may be given several times, and all must hold
    #[arg(long, value_name = "KEY=VALUE")]
    selector: Vec<Label>,
    /// Nodes in maintenance, too
    #[arg(long)]
    include_maintenance: bool,
    /// Two calls with one key make one rollout; without it, a fresh key is sent
    #[arg(long, value_name = "KEY", value_parser = key)]
    key: Option<String>,
    #[command(flatten)]
    watch: WatchFlags,
    #[command(flatten)]
    consent: Consent,
}

impl Create {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let selector = selector(self.selector).map_err(Failure::Usage)?;
        if self.waves.as_ref().is_some_and(Waves::starts_everything) {
            let question = format!(
                "The first wave is 100 %: nothing is tried out before every node gets {}. Start?",
                self.version
            );
            confirm(&question, &self.consent)?;
        }
        let mut pools = Vec::new();
        for pool in &self.pools {
            pools.push(online.pool(pool).await?);
        }
        let request = CreateRollout {
            tenant_id: online.client.tenant.clone(),
            version: self.version,
            pool_ids: given(pools),
            node_ids: given(self.nodes),
            selector,
            include_maintenance: self.include_maintenance,
            waves: self.waves.map(|waves| waves.0),
            max_failure_ratio: self.max_failure_ratio,
            soak_seconds: self.soak.map(|soak| soak.as_secs_f64()),
            upgrade_timeout_seconds: self.upgrade_timeout.map(|timeout| timeout.as_secs_f64()),
            idempotency_key: Some(self.key.unwrap_or_else(fresh_key)),
        };
        let made = online
            .client
            .call_until_answered::<Rollout>("rollouts/create", &request)
            .await?;
        or_show(online, self.watch, made).await
    }
}

/// None means all, which no list can say.
fn given<T>(list: Vec<T>) -> Option<Vec<T>> {
    Some(list).filter(|list| !list.is_empty())
}

fn fresh_key() -> String {
    Ulid::from_parts(Moment::now().unix_ms(), chance::bits()).to_string()
}

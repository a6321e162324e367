//! What `rollouts create` and `rollouts plan` are asked for.

use std::time::Duration;

use bc_protocol::{share::Share, version::Version};
use clap::Args;

use super::arguments::{Label, Waves, key, selector};
use crate::{
    api::rollout::CreateRollout,
    cli::{
        failure::Failure,
        online::{NodeName, Online},
        shares, span,
    },
};

/// The flags that describe a rollout.
#[derive(Debug, Args)]
pub(super) struct Wanted {
    /// The release to bring; it must be registered
    #[arg(long, value_name = "VERSION")]
    pub(super) version: Version,
    /// Cumulative percentages, rising to 100; control's default is 1,10,50,100
    #[arg(long, value_name = "PERCENTAGES")]
    waves: Option<Waves>,
    /// The share of a wave that may fail, like 0.05 or 5%; control's default is 0.05
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true, value_parser = shares::share)]
    max_failure_ratio: Option<Share>,
    /// Rest between waves, 0 to 7 days; control's default is 10m
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = span::soak)]
    soak: Option<Duration>,
    /// How long one node may take, 1 minute to 1 day; control's default is 15m
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = span::upgrade_timeout)]
    upgrade_timeout: Option<Duration>,
    /// Only nodes of this pool, by id or name; may be given several times
    #[arg(long = "pool", value_name = "POOL")]
    pools: Vec<String>,
    /// Only this node, by id or hostname; may be given several times
    #[arg(long = "node", value_name = "NODE", conflicts_with = "selector")]
    nodes: Vec<NodeName>,
    /// Only nodes with this label; may be given several times, and all must hold
    #[arg(long, value_name = "KEY=VALUE")]
    selector: Vec<Label>,
    /// Nodes in maintenance, too
    #[arg(long)]
    include_maintenance: bool,
    /// Two calls with one key make one rollout; without it, a fresh key is sent
    #[arg(long, value_name = "KEY", value_parser = key)]
    key: Option<String>,
}

impl Wanted {
    /// Whether the first wave is the whole fleet: then nothing is tried out first.
    pub(super) fn starts_everything(&self) -> bool {
        self.waves.as_ref().is_some_and(Waves::starts_everything)
    }

    /// Whether the caller names a key himself, and may have done so before.
    pub(super) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// The request. Where no key was given, `fresh_key` makes one, if the call should have one.
    pub(super) async fn request(
        self,
        online: &Online,
        fresh_key: impl FnOnce() -> Option<String>,
    ) -> Result<CreateRollout, Failure> {
        let selector = selector(self.selector).map_err(Failure::Usage)?;
        let mut pools = Vec::new();
        for pool in &self.pools {
            pools.push(online.pool(pool).await?);
        }
        let mut nodes = Vec::new();
        for node in &self.nodes {
            nodes.push(online.node(node).await?);
        }
        Ok(CreateRollout {
            tenant_id: online.client.tenant.clone(),
            version: self.version,
            pool_ids: given(pools),
            node_ids: given(nodes),
            selector,
            include_maintenance: self.include_maintenance,
            waves: self.waves.map(|waves| waves.0),
            max_failure_ratio: self.max_failure_ratio,
            soak_seconds: self.soak.map(|soak| soak.as_secs_f64()),
            upgrade_timeout_seconds: self.upgrade_timeout.map(|timeout| timeout.as_secs_f64()),
            idempotency_key: self.key.or_else(fresh_key),
        })
    }
}

/// None means all, which no list can say.
fn given<T>(list: Vec<T>) -> Option<Vec<T>> {
    Some(list).filter(|list| !list.is_empty())
}

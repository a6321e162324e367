//! `fleet.summary`

use std::collections::BTreeMap;

use super::{RolloutError, Services, freeze::frozen};
use crate::{
    api::freeze::{Census, FleetSummary, OneFleet, PoolSummary},
    rollout::store,
};

/// The tenant's nodes, counted by pool. One read of one moment; no pass ever counts like this.
pub(crate) async fn summary(
    services: &Services,
    request: OneFleet,
) -> Result<FleetSummary, RolloutError> {
    let mut conn = services.db.reader().begin().await?;
    let tenant = &request.tenant_id;
    let pools = store::census::pools(&mut conn, tenant).await?;
    let mut versions = store::census::versions(&mut conn, tenant).await?;
    let frozen = store::freeze::read(&mut conn, tenant).await?.map(frozen);
    let pools: Vec<PoolSummary> = pools
        .into_iter()
        .map(|mut pool| {
            pool.census.versions = versions.remove(&pool.pool_id).unwrap_or_default();
            pool
        })
        .collect();
    let total = pools
        .iter()
        .fold(Census::default(), |sum, pool| sum.plus(&pool.census));
    Ok(FleetSummary {
        frozen,
        total,
        pools,
    })
}

impl Census {
    /// These nodes and those.
    #[must_use]
    fn plus(self, other: &Self) -> Self {
        let mut versions: BTreeMap<_, u32> = self.versions;
        for (version, nodes) in &other.versions {
            let count = versions.entry(version.clone()).or_default();
            *count = count.saturating_add(*nodes);
        }
        Self {
            nodes: self.nodes.saturating_add(other.nodes),
            online: self.online.saturating_add(other.online),
            disrupted: self.disrupted.saturating_add(other.disrupted),
            refusing: self.refusing.saturating_add(other.refusing),
            on_trial: self.on_trial.saturating_add(other.on_trial),
            late: self.late.saturating_add(other.late),
            held: self.held.saturating_add(other.held),
            maintenance: self.maintenance.saturating_add(other.maintenance),
            versions,
        }
    }
}

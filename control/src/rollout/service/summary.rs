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

#[cfg(test)]
mod tests {
    use bc_protocol::{
        id::NodeId,
        session::{AttemptFacts, Outcome},
    };

    use crate::{
        api::{
            freeze::OneFleet,
            rollout::{AbortRollout, Rollout, RowState},
        },
        clock::Moment,
        rollout::service::{abort, summary},
        spec::tests::fleet::{Fleet, states},
    };

    async fn refuses(fleet: &mut Fleet, node: &NodeId) {
        let section = fleet.spec(node).await.daemon.unwrap();
        let mut facts = fleet.facts_of(node);
        facts.last_attempt = Some(AttemptFacts {
            id: section.attempt,
            target: section.version.to_string(),
            outcome: Outcome::Refused,
            is_final: true,
            tries: 1,
            code: "threshold".to_owned(),
            message: String::new(),
            exit_status: None,
            signal: None,
            log: String::new(),
        });
        fleet.report(node, facts).await;
        fleet.pass().await;
    }

    /// By people's count, and by that of the alert.
    async fn refusing(fleet: &Fleet) -> (u32, bool) {
        let services = &fleet.services;
        let tenant_id = "root".parse().unwrap();
        let counted = summary(services, OneFleet { tenant_id }).await.unwrap();
        services.metrics.look(&services.db, Moment::now()).await;
        let text = services.metrics.text();
        let rings = !text.contains("bc_control_nodes_refusing 0\n");
        (counted.total.refusing, rings)
    }

    async fn gives_up(fleet: &Fleet, rollout: &Rollout) {
        let request = AbortRollout {
            tenant_id: "root".parse().unwrap(),
            rollout_id: rollout.id.clone(),
            reason: None,
            rollback: false,
        };
        abort(&fleet.services, "alice", request).await.unwrap();
    }

    #[tokio::test]
    async fn nobody_refuses_what_is_not_wanted_any_more() {
        let mut fleet = Fleet::of(&[(4, 1_000_000)]).await;
        let rollout = fleet.create("1.1.0").await.unwrap();
        fleet.pass().await;
        let told = states(&fleet.get(&rollout.id).await, RowState::Upgrading);
        let node = told.first().unwrap();
        assert_eq!(refusing(&fleet).await, (0, false));
        refuses(&mut fleet, node).await;
        assert_eq!(refusing(&fleet).await, (1, true));
        gives_up(&fleet, &rollout).await;
        assert_eq!(refusing(&fleet).await, (0, false));
        // What is wanted next is refused anew, or not at all.
        let next = fleet.create("1.1.0").await.unwrap();
        fleet.pass().await;
        assert_eq!(refusing(&fleet).await, (0, false));
        let told = states(&fleet.get(&next.id).await, RowState::Upgrading);
        refuses(&mut fleet, told.first().unwrap()).await;
        assert_eq!(refusing(&fleet).await, (1, true));
    }
}

//! A pool is archived with nodes in it: what waits is passed over, what is on its way ends as ever, and nothing begins.

use bc_protocol::id::{NodeId, PoolId, RolloutId};

use super::fleet::{Fleet, request, states};
use crate::{
    api::{
        fleet::OnePool,
        freeze::OneFleet,
        rollout::{
            CreateRollout, ExplainRollout, OneRollout, PauseRollout, Rollout, RolloutState,
            RowState,
        },
    },
    clock::Moment,
    db::query_scalar,
    fleet::pool,
    rollout::service::{self, RolloutError},
};

async fn archive(fleet: &Fleet, pool: &PoolId) {
    let request = OnePool {
        tenant_id: "root".parse().unwrap(),
        pool_id: pool.clone(),
    };
    let archived = pool::archive(&fleet.services.db, "alice", &request, Moment::now())
        .await
        .unwrap();
    assert!(archived.archived_at.is_some() && archived.nodes > 0);
    fleet.services.waker.wake();
}

/// In one wave, so that every pool has its turn at once.
async fn begin(fleet: &Fleet) -> RolloutId {
    let request = CreateRollout {
        waves: Some(vec!["100".parse().unwrap()]),
        ..request("1.1.0")
    };
    let created = service::create(&fleet.services, "alice", request);
    created.await.unwrap().id
}

fn of_pool(rollout: &Rollout, pool: &PoolId, state: RowState) -> Vec<NodeId> {
    let listed = rollout.node_list.iter().flatten();
    listed
        .filter(|row| row.pool_id == *pool && row.state == state)
        .map(|row| row.node_id.clone())
        .collect()
}

async fn disrupted(fleet: &Fleet, pool: &PoolId) -> i64 {
    query_scalar("SELECT disrupted FROM pools WHERE id = $1")
        .bind(pool.as_str())
        .fetch_one(fleet.services.db.reader())
        .await
        .unwrap()
}

async fn explained(fleet: &Fleet, id: &RolloutId, node: &NodeId) -> String {
    let request = ExplainRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: id.clone(),
        node_id: node.clone(),
    };
    let explanation = service::explain(&fleet.services, request).await.unwrap();
    explanation.sentence
}

#[tokio::test]
async fn who_waits_in_an_archived_pool_is_skipped_and_who_is_on_his_way_arrives() {
    let mut fleet = Fleet::of(&[(3, 0), (2, 0)]).await;
    let (retired, kept) = (fleet.pools[0].clone(), fleet.pools[1].clone());
    let id = begin(&fleet).await;
    fleet.pass().await;
    let [flying] = of_pool(&fleet.get(&id).await, &retired, RowState::Upgrading)
        .try_into()
        .unwrap();
    archive(&fleet, &retired).await;
    fleet.pass().await;
    let rollout = fleet.get(&id).await;
    let skipped = of_pool(&rollout, &retired, RowState::Skipped);
    assert_eq!(skipped.len(), 2, "{rollout:?}");
    for row in rollout.node_list.iter().flatten() {
        if skipped.contains(&row.node_id) {
            let error = row.error.as_ref().unwrap();
            assert!(error.contains("the node's pool was archived"), "{error}");
        }
    }
    let said = explained(&fleet, &id, &skipped[0]).await;
    assert!(said.contains("the node's pool was archived"), "{said}");
    // The one in flight is still told to update, and gives its place back when it has.
    let told = fleet.spec(&flying).await.daemon.unwrap();
    assert_eq!(told.version.as_str(), "1.1.0");
    assert_eq!(disrupted(&fleet, &retired).await, 1);
    for _ in 0..4 {
        fleet.nodes_obey().await;
        fleet.pass().await;
    }
    let rollout = fleet.get(&id).await;
    assert_eq!(rollout.state, RolloutState::Completed, "{rollout:?}");
    assert_eq!(
        of_pool(&rollout, &retired, RowState::Succeeded),
        std::slice::from_ref(&flying)
    );
    assert_eq!(of_pool(&rollout, &kept, RowState::Succeeded).len(), 2);
    assert_eq!(disrupted(&fleet, &retired).await, 0);
    // Nobody of it is late, nothing new takes it in, and whoever was touched keeps what he has.
    for _ in 0..2 {
        fleet.pass().await;
        fleet.nodes_obey().await;
    }
    assert_eq!(fleet.get(&id).await.late_nodes, Some(vec![]));
    assert_eq!(fleet.spec(&skipped[0]).await.daemon, None);
    assert_eq!(
        fleet.spec(&flying).await.daemon.unwrap().version,
        told.version
    );
    let next = begin(&fleet).await;
    let scope = fleet.get(&next).await.node_list.unwrap();
    assert!(scope.iter().all(|row| row.pool_id == kept), "{scope:?}");
    let only = CreateRollout {
        pool_ids: Some(vec![retired.clone()]),
        ..request("1.1.0")
    };
    let refused = service::create(&fleet.services, "alice", only).await;
    assert!(
        matches!(refused, Err(RolloutError::NoPool { .. })),
        "{refused:?}"
    );
    let whole = OneFleet {
        tenant_id: "root".parse().unwrap(),
    };
    let summary = service::summary(&fleet.services, whole).await.unwrap();
    let told = summary.pools.iter().find(|pool| pool.pool_id == retired);
    assert!(told.unwrap().archived_at.is_some() && told.unwrap().census.nodes == 3);
}

#[tokio::test]
async fn a_paused_rollout_passes_an_archived_pool_over_too() {
    let fleet = Fleet::of(&[(3, 0), (2, 0)]).await;
    let id = begin(&fleet).await;
    let pause = PauseRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: id.clone(),
        reason: None,
    };
    service::pause(&fleet.services, "alice", pause)
        .await
        .unwrap();
    archive(&fleet, &fleet.pools[0].clone()).await;
    fleet.pass().await;
    let rollout = fleet.get(&id).await;
    assert_eq!(
        (rollout.state, rollout.nodes.skipped, rollout.nodes.pending),
        (RolloutState::Paused, 3, 2)
    );
}

/// Where every pool is archived nobody has tried the release, which is told and not passed over.
#[tokio::test]
async fn a_rollout_of_which_every_pool_is_archived_pauses_untried() {
    let fleet = Fleet::of(&[(3, 0)]).await;
    let id = begin(&fleet).await;
    archive(&fleet, &fleet.pools[0].clone()).await;
    fleet.pass().await;
    fleet.pass().await;
    let rollout = fleet.get(&id).await;
    assert_eq!(states(&rollout, RowState::Skipped).len(), 3);
    assert_eq!(rollout.state, RolloutState::Paused, "{rollout:?}");
    let resume = OneRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: id.clone(),
    };
    service::resume(&fleet.services, "alice", resume)
        .await
        .unwrap();
    for _ in 0..4 {
        fleet.pass().await;
    }
    let rollout = fleet.get(&id).await;
    assert_eq!(rollout.state, RolloutState::Completed, "{rollout:?}");
}

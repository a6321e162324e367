//! Late nodes on a real database: who is late, when he is started, and that nobody is forgotten.

mod play;

use std::collections::BTreeSet;

use bc_protocol::id::{NodeId, RolloutId};

use super::fleet::{BAD, Fleet, request};
use crate::{
    api::{
        fleet::UpdateNode,
        rollout::{CreateRollout, LateNode, OneRollout, RolloutState, RowState},
    },
    clock::Moment,
    db::query,
    fleet::change,
    rollout::service,
};

async fn pass_and_obey(fleet: &mut Fleet, times: usize) {
    for _ in 0..times {
        fleet.pass().await;
        fleet.nodes_obey().await;
    }
    fleet.pass().await;
}

async fn late_of(fleet: &Fleet, id: &RolloutId) -> Vec<LateNode> {
    fleet.get(id).await.late_nodes.unwrap()
}

async fn completed(fleet: &mut Fleet, version: &str) -> RolloutId {
    let id = fleet.create(version).await.unwrap().id;
    pass_and_obey(fleet, 8).await;
    assert_eq!(fleet.get(&id).await.state, RolloutState::Completed);
    id
}

pub(super) async fn maintain(fleet: &Fleet, node: &NodeId, maintenance: bool) {
    let update = UpdateNode {
        tenant_id: "root".parse().unwrap(),
        node_id: node.clone(),
        labels: [].into(),
        maintenance: Some(maintenance),
    };
    change::update(&fleet.services.db, "alice", &update, Moment::now())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_node_that_joined_later_converges() {
    let mut fleet = Fleet::of(&[(2, 0)]).await;
    let id = completed(&mut fleet, "1.1.0").await;
    let before = fleet.get(&id).await;
    let pool = fleet.pools[0].clone();
    let (one, two) = (fleet.joins(&pool).await, fleet.joins(&pool).await);
    fleet.pass().await;
    let started = late_of(&fleet, &id).await;
    assert_eq!(started.len(), 1, "one place in the pool");
    assert_eq!(started[0].state, RowState::Upgrading);
    pass_and_obey(&mut fleet, 3).await;

    let after = fleet.get(&id).await;
    let late = after.late_nodes.clone().unwrap();
    assert!(late.iter().all(|row| row.state == RowState::Succeeded));
    let nodes: BTreeSet<_> = late.iter().map(|row| row.node_id.clone()).collect();
    assert_eq!(nodes, BTreeSet::from([one.clone(), two.clone()]));
    assert_eq!(
        (after.nodes, after.node_list),
        (before.nodes, before.node_list)
    );
    assert_eq!(after.updated_at, before.updated_at);
    for node in [one, two] {
        assert_eq!(fleet.runs(&node), ("1.1.0".to_owned(), 11));
        assert!(fleet.spec(&node).await.daemon.is_some());
    }
    assert_eq!(fleet.count("disruptions").await, 0);
}

#[tokio::test]
async fn a_node_that_was_passed_over_converges_when_it_returns() {
    let mut fleet = Fleet::of(&[(3, 1_000_000)]).await;
    let first = completed(&mut fleet, "1.1.0").await;
    let away = fleet.nodes[1].clone();
    maintain(&fleet, &away, true).await;
    // It is left out of this one, and what an older one brought it has no say any more.
    let second = fleet.create("1.1.0").await.unwrap().id;
    pass_and_obey(&mut fleet, 3).await;
    assert_eq!(fleet.get(&second).await.state, RolloutState::Completed);
    assert!(
        late_of(&fleet, &second).await.is_empty(),
        "maintenance waits"
    );
    assert_eq!(fleet.spec(&away).await.daemon, None);
    maintain(&fleet, &away, false).await;
    pass_and_obey(&mut fleet, 2).await;
    let late = late_of(&fleet, &second).await;
    assert_eq!((late.len(), late[0].state), (1, RowState::Succeeded));
    assert_eq!(late[0].from_version, None, "it ran it already");
    assert!(late_of(&fleet, &first).await.is_empty());
}

#[tokio::test]
async fn a_late_node_that_failed_is_not_tried_again_before_somebody_asks() {
    let mut fleet = Fleet::of(&[(2, 0)]).await;
    // A rollout of the bad release that an operator lets complete.
    let lenient = CreateRollout {
        max_failure_ratio: Some("1".parse().unwrap()),
        waves: Some(vec!["100".parse().unwrap()]),
        ..request(BAD)
    };
    let id = service::create(&fleet.services, "alice", lenient)
        .await
        .unwrap()
        .id;
    pass_and_obey(&mut fleet, 4).await;
    let resume = OneRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: id.clone(),
    };
    service::resume(&fleet.services, "alice", resume)
        .await
        .unwrap();
    pass_and_obey(&mut fleet, 2).await;
    assert_eq!(fleet.get(&id).await.state, RolloutState::Completed);

    let pool = fleet.pools[0].clone();
    let node = fleet.joins(&pool).await;
    pass_and_obey(&mut fleet, 4).await;
    let late = late_of(&fleet, &id).await;
    assert_eq!((late.len(), late[0].state), (1, RowState::Failed));
    let section = fleet.spec(&node).await.daemon.unwrap();
    assert_eq!(section.version.as_str(), "1.0.0", "what it ran before");
    fleet.leave(&node).await;
    fleet.comes(&node).await;
    pass_and_obey(&mut fleet, 2).await;
    assert_eq!(late_of(&fleet, &id).await, late);

    let newer = completed(&mut fleet, "1.1.0").await;
    assert_eq!(fleet.get(&newer).await.nodes.succeeded, 3);
}

#[tokio::test]
async fn an_archived_pool_and_a_narrowed_rollout_have_no_late_nodes() {
    let mut fleet = Fleet::of(&[(2, 0)]).await;
    let narrowed = CreateRollout {
        node_ids: Some(fleet.nodes[..1].to_vec()),
        ..request("1.1.0")
    };
    let id = service::create(&fleet.services, "alice", narrowed)
        .await
        .unwrap()
        .id;
    pass_and_obey(&mut fleet, 3).await;
    let rollout = fleet.get(&id).await;
    assert_eq!(rollout.state, RolloutState::Completed);
    assert_eq!(rollout.late_nodes, Some(vec![]));
    assert_eq!(fleet.spec(&fleet.nodes[1].clone()).await.daemon, None);

    let all = completed(&mut fleet, "1.1.0").await;
    let pool = fleet.pools[0].clone();
    let node = fleet.joins(&pool).await;
    let mut tx = fleet.services.db.begin().await.unwrap();
    query("UPDATE pools SET archived_at = 1")
        .execute(&mut tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    pass_and_obey(&mut fleet, 2).await;
    assert!(late_of(&fleet, &all).await.is_empty());
    assert_eq!(fleet.runs(&node).0, "1.0.0");
}

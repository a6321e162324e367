//! Nodes that wait in packs start in the rollout's order all the same.

use bc_protocol::id::NodeId;

use super::fleet::{Fleet, request, states};
use crate::{
    api::rollout::{Rollout, RowState},
    db::query_scalar,
    rollout::service,
};

/// Many packs, and more nodes than a pass looks at whatever they wait for.
const NODES: u32 = 48;

async fn order(fleet: &Fleet, rollout: &Rollout) -> Vec<NodeId> {
    let rollout = fleet.get(&rollout.id).await;
    let listed = rollout.node_list.into_iter().flatten();
    listed.map(|row| row.node_id).collect()
}

async fn packs(fleet: &Fleet) -> i64 {
    query_scalar("SELECT count(*) FROM rollout_packs")
        .fetch_one(fleet.services.db.reader())
        .await
        .unwrap()
}

async fn waves(fleet: &Fleet, percents: &[&str]) -> Rollout {
    let mut request = request("1.1.0");
    request.waves = Some(percents.iter().map(|text| text.parse().unwrap()).collect());
    service::create(&fleet.services, "alice", request)
        .await
        .unwrap()
}

/// I20, I21: in order, as many as there is room for, whichever pack they stand in, and nobody who is away.
#[tokio::test]
async fn nodes_start_in_order_across_packs() {
    let mut fleet = Fleet::of(&[(NODES, 250_000)]).await;
    let rollout = waves(&fleet, &["100"]).await;
    let order = order(&fleet, &rollout).await;
    assert_eq!(packs(&fleet).await, 16);
    let is_away = |place: usize| place.is_multiple_of(10);
    let mut there = Vec::new();
    for (place, node) in order.iter().enumerate() {
        if is_away(place) {
            fleet.leave(node).await;
        } else {
            there.push(node.clone());
        }
    }
    for batch in there.chunks(12) {
        fleet.pass().await;
        let rollout = fleet.get(&rollout.id).await;
        assert_eq!(states(&rollout, RowState::Upgrading), batch);
        fleet.nodes_obey().await;
    }
    // Nobody of the last pack is left, nor of any before.
    assert_eq!(packs(&fleet).await, 0);
    fleet.comes(&order[0]).await;
    fleet.pass().await;
    let rollout = fleet.get(&rollout.id).await;
    assert_eq!(states(&rollout, RowState::Upgrading), order[..1]);
}

/// Packs are opened one after the other, and only those of which somebody starts.
#[tokio::test]
async fn packs_stay_closed_until_somebody_starts() {
    let fleet = Fleet::of(&[(NODES, 100_000), (NODES, 0)]).await;
    waves(&fleet, &["100"]).await;
    assert_eq!(packs(&fleet).await, 32);
    // Four of the one pool stand in two packs, one of the other in a third.
    fleet.pass().await;
    assert_eq!(packs(&fleet).await, 29);
}

/// I24: an abort passes everybody over, in packs or not.
#[tokio::test]
async fn an_abort_reaches_into_packs() {
    let fleet = Fleet::of(&[(NODES, 10_000)]).await;
    let rollout = waves(&fleet, &["60", "100"]).await;
    fleet.pass().await;
    let request = crate::api::rollout::AbortRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: rollout.id.clone(),
        reason: None,
        rollback: false,
    };
    service::abort(&fleet.services, "alice", request)
        .await
        .unwrap();
    let rollout = fleet.get(&rollout.id).await;
    let skipped = states(&rollout, RowState::Skipped).len();
    assert_eq!(
        (skipped, rollout.nodes.pending),
        (usize::try_from(NODES).unwrap() - 1, 0)
    );
    assert_eq!(packs(&fleet).await, 0);
}

//! Passes that are told what is new.

use std::time::Duration;

use bc_protocol::id::NodeId;

use super::fleet::{Fleet, states};
use crate::{
    api::rollout::RowState,
    clock::Moment,
    db::query,
    rollout::controller::{News, pass, pass_over},
};

fn news(node: &NodeId) -> News {
    let mut news = News::default();
    news.nodes.insert(node.clone());
    news
}

/// I21, I24: what is not named stays as it is, its place too; and what is named settles and makes room.
#[tokio::test]
async fn a_pass_settles_whom_it_is_told_of_and_starts_as_many() {
    let mut fleet = Fleet::of(&[(80, 100_000)]).await;
    let id = fleet.create("1.1.0").await.unwrap().id;
    // The canary's wave is one node; after it come more than a pass reads whatever they wait for.
    fleet.pass().await;
    fleet.nodes_obey().await;
    fleet.pass().await;
    let before = fleet.get(&id).await;
    let flying = states(&before, RowState::Upgrading);
    assert!(flying.len() > 2, "{:?}", before.nodes);
    for node in &flying[..2] {
        fleet.obeys(node).await;
    }
    let passed = pass_over(&fleet.services, &id, &news(&flying[0]), Moment::now).await;
    assert!(!passed.unwrap().stale.contains(&flying[1]));
    let after = fleet.get(&id).await;
    assert_eq!(after.nodes.succeeded, before.nodes.succeeded + 1);
    assert!(states(&after, RowState::Upgrading).contains(&flying[1]));
    assert!(after.nodes.upgrading <= 8, "{:?}", after.nodes);
    // A look at everything finds what nobody named.
    fleet.pass().await;
    let after = fleet.get(&id).await;
    assert_eq!(after.nodes.succeeded, before.nodes.succeeded + 2);
}

/// Everybody settles, though one transaction takes a few; and they are told once.
#[tokio::test]
async fn a_look_at_everything_settles_all_of_them_a_few_at_a_time() {
    let mut fleet = Fleet::of(&[(8, 1_000_000)]).await;
    let id = fleet.create("1.1.0").await.unwrap().id;
    for _ in 0..4 {
        fleet.pass().await;
        let flying = states(&fleet.get(&id).await, RowState::Upgrading);
        for node in &flying {
            fleet.obeys(node).await;
        }
    }
    let passed = pass(&fleet.services, &id, Moment::now).await.unwrap();
    assert!(passed.stale.is_empty());
    let rollout = fleet.get(&id).await;
    assert_eq!(rollout.nodes.succeeded, 8, "{:?}", rollout.nodes);
}

/// Whoever only looks waits for nobody, and nobody waits for him.
#[tokio::test]
async fn a_look_at_everything_that_changes_nothing_takes_no_lock() {
    let fleet = Fleet::of(&[(4, 1_000_000)]).await;
    let id = fleet.create("1.1.0").await.unwrap().id;
    fleet.pass().await;
    let mut writing = fleet.services.db.begin().await.unwrap();
    query("SELECT id FROM rollouts WHERE id = $1")
        .bind(id.as_str())
        .for_update()
        .fetch_one(&mut writing)
        .await
        .unwrap();
    let passed = pass(&fleet.services, &id, Moment::now).await.unwrap();
    writing.give_up().await.unwrap();
    // The deadline of those in flight, not a moment later.
    let (at, _) = passed.next.unwrap();
    assert!(at > Moment::now().plus(Duration::from_secs(30)), "{at}");
}

/// A flight that nobody names ends at its deadline all the same.
#[tokio::test]
async fn whoever_is_overdue_needs_no_name() {
    let fleet = Fleet::of(&[(4, 1_000_000)]).await;
    let id = fleet.create("1.1.0").await.unwrap().id;
    fleet.pass().await;
    let flying = states(&fleet.get(&id).await, RowState::Upgrading);
    let stranger = NodeId::derived(&[b"somebody else's"]);
    let passed = pass_over(&fleet.services, &id, &news(&stranger), Moment::now).await;
    let (at, _) = passed.unwrap().next.unwrap();
    let after = pass_over(&fleet.services, &id, &news(&stranger), || at).await;
    assert!(after.unwrap().stale.len() <= flying.len());
    let rollout = fleet.get(&id).await;
    assert!(
        states(&rollout, RowState::Upgrading).is_empty(),
        "{:?}",
        rollout.nodes
    );
}

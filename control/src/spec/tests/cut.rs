//! An abort that goes back, of which a node cannot hear: it may finish what it knew of, and is told of as it is.

use super::fleet::{Fleet, after, states};
use crate::{
    api::rollout::{AbortRollout, ExplainRollout, RolloutState, RowState},
    db::query_scalar,
    rollout::service,
};

#[tokio::test]
async fn a_node_that_was_not_told_to_go_back_has_succeeded() {
    let mut fleet = Fleet::of(&[(3, 1_000_000)]).await;
    let id = fleet.create("1.1.0").await.unwrap().id;
    fleet.pass().await;
    let flying = states(&fleet.get(&id).await, RowState::Upgrading).remove(0);
    // What it knows, before its gateway is cut off.
    let known = fleet.spec(&flying).await;
    let section = known.daemon.unwrap();
    let abort = AbortRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: id.clone(),
        reason: None,
        rollback: true,
    };
    service::abort(&fleet.services, "alice", abort)
        .await
        .unwrap();
    fleet.pass().await;
    let rollout = fleet.get(&id).await;
    assert_eq!(
        states(&rollout, RowState::RollingBack),
        std::slice::from_ref(&flying)
    );
    // It finishes that attempt, which is not the one that takes it back.
    let facts = after(&fleet.facts_of(&flying), &section, known.generation).unwrap();
    fleet.report(&flying, facts).await;
    fleet.pass().await;
    let rollout = fleet.get(&id).await;
    assert_eq!(
        states(&rollout, RowState::Succeeded),
        std::slice::from_ref(&flying)
    );
    assert_eq!(rollout.state, RolloutState::Aborted);
    assert!(rollout.finished_at.is_some(), "{rollout:?}");
    assert_eq!(fleet.count("disruptions").await, 0);
    // Nothing sends it below what it has confirmed.
    let told = fleet.spec(&flying).await.daemon.unwrap();
    assert_eq!(told.version, section.version);
    assert_eq!(fleet.runs(&flying).0, "1.1.0");
    let told: Vec<String> = query_scalar("SELECT type FROM events WHERE type LIKE 'node.up%'")
        .fetch_all(fleet.services.db.reader())
        .await
        .unwrap();
    assert_eq!(told, ["node.upgraded"]);
    let request = ExplainRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: id,
        node_id: flying,
    };
    let said = service::explain(&fleet.services, request).await.unwrap();
    assert_eq!(said.state, Some(RowState::Succeeded), "{}", said.sentence);
}

//! Operators' calls at every point of a pass: whichever comes first, nothing starts behind the answer.

use std::time::Duration;

use bc_protocol::id::{NodeId, RolloutId};
use tokio::time::timeout;

use super::fleet::{Fleet, states};
use crate::{
    api::{
        fleet::OneNode,
        rollout::{AbortRollout, OneRollout, PauseRollout, Rollout, RolloutState, RowState},
    },
    clock::Moment,
    db::{point::Stop, query_scalar},
    fleet::{change, disruption},
    rollout::{
        controller,
        service::{self, RolloutError, Services},
    },
};

/// For so long a call may show that it does not have to wait for the pass. Where it takes longer it counts as waiting, which
/// changes what is tested and not whether it passes.
const A_MOMENT: Duration = Duration::from_millis(40);

/// What an operator calls in the middle of a pass.
#[derive(Clone, Copy, Debug)]
enum Call {
    Pause,
    Resume,
    Abort,
    RollBack,
}

impl Call {
    async fn make(self, services: Services, id: RolloutId) -> Result<Rollout, RolloutError> {
        let tenant_id = "root".parse().unwrap();
        let (rollout_id, reason) = (id, None);
        match self {
            Self::Pause => {
                let request = PauseRollout {
                    tenant_id,
                    rollout_id,
                    reason,
                };
                service::pause(&services, "alice", request).await
            }
            Self::Resume => {
                let request = OneRollout {
                    tenant_id,
                    rollout_id,
                };
                service::resume(&services, "alice", request).await
            }
            Self::Abort | Self::RollBack => {
                let request = AbortRollout {
                    tenant_id,
                    rollout_id,
                    reason,
                    rollback: matches!(self, Self::RollBack),
                };
                service::abort(&services, "alice", request).await
            }
        }
    }

    fn leads_to(self) -> RolloutState {
        match self {
            Self::Pause => RolloutState::Paused,
            Self::Resume => RolloutState::Running,
            Self::Abort | Self::RollBack => RolloutState::Aborted,
        }
    }
}

/// A rollout in its second wave: some nodes have arrived and not settled yet, some fly, some wait.
async fn under_way() -> (Fleet, RolloutId) {
    let mut fleet = Fleet::of(&[(9, 400_000)]).await;
    let id = fleet.create("1.1.0").await.unwrap().id;
    fleet.pass().await;
    fleet.nodes_obey().await;
    fleet.pass().await;
    let flying = states(&fleet.get(&id).await, RowState::Upgrading);
    assert_eq!(flying.len(), 3);
    for node in &flying[..2] {
        fleet.obeys(node).await;
    }
    (fleet, id)
}

/// Nodes that are, or were, told.
async fn started(fleet: &Fleet, id: &RolloutId) -> Vec<NodeId> {
    let rows = fleet.get(id).await.node_list.unwrap();
    let started = rows.into_iter().filter(|row| row.started_at.is_some());
    started.map(|row| row.node_id).collect()
}

/// Makes the call at that point; whether the pass has so many.
async fn at_point(call: Call, point: usize) -> bool {
    let (mut fleet, id) = under_way().await;
    if let Call::Resume = call {
        let paused = Call::Pause.make(fleet.services.clone(), id.clone()).await;
        paused.unwrap();
    }
    let stop = Stop::before(point);
    let services = fleet.services.clone();
    let held = stop.clone();
    let mut pass = tokio::spawn(held.within(async move { controller::pass_all(&services).await }));
    tokio::select! {
        () = stop.reached() => {}
        done = &mut pass => {
            done.unwrap();
            return false;
        }
    }
    let mut made = tokio::spawn(call.make(fleet.services.clone(), id.clone()));
    // It comes first, or it waits for the pass.
    let first = timeout(A_MOMENT, &mut made).await;
    stop.go_on();
    let answered = match first {
        Ok(answered) => answered,
        Err(_) => made.await,
    };
    let answered = answered.unwrap().unwrap();
    assert_eq!(answered.state, call.leads_to(), "{call:?} at {point}");
    let at_answer = started(&fleet, &id).await;
    pass.await.unwrap();
    for _ in 0..2 {
        fleet.pass().await;
        fleet.nodes_obey().await;
    }
    fleet.pass().await;
    let after = started(&fleet, &id).await;
    let rollout = fleet.get(&id).await;
    match call {
        Call::Pause | Call::Abort | Call::RollBack => {
            assert_eq!(after, at_answer, "I23: {call:?} at {point}");
            assert_eq!(rollout.state, call.leads_to(), "{call:?} at {point}");
            assert_eq!(rollout.nodes.in_flight(), 0, "{call:?} at {point}");
            assert_eq!(fleet.count("disruptions").await, 0);
        }
        Call::Resume => {
            assert!(after.len() > at_answer.len(), "{call:?} at {point}");
            assert_ne!(rollout.state, RolloutState::Paused, "{call:?} at {point}");
        }
    }
    assert_eq!(rollout.nodes.total(), 9, "I24");
    let distinct = fleet.count("disruptions").await;
    assert_eq!(fleet.count("disrupted").await, distinct, "I21");
    true
}

async fn at_every_point(call: Call) {
    let mut points = 0;
    while at_point(call, points).await {
        points += 1;
    }
    // Its locks, what it reads and what it writes, the events' counter, the event and the COMMIT.
    assert!(points >= 10, "{points} points");
}

// I23
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_at_any_point_of_a_pass_wins() {
    at_every_point(Call::Pause).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resume_at_any_point_of_a_pass_wins() {
    at_every_point(Call::Resume).await;
}

// I23
#[tokio::test(flavor = "multi_thread")]
async fn an_abort_at_any_point_of_a_pass_wins() {
    at_every_point(Call::Abort).await;
}

// I23, I33
#[tokio::test(flavor = "multi_thread")]
async fn an_abort_with_rollback_at_any_point_of_a_pass_wins() {
    at_every_point(Call::RollBack).await;
}

/// I21: a node that is removed in flight, and disrupted by somebody else too, gives its one place back once, whatever comes
/// first: its removal, the pass that settles its row, or the end of the other reason.
#[tokio::test]
async fn a_removed_node_gives_its_place_back_once() {
    let (fleet, id) = under_way().await;
    let (node, pool) = {
        let flying = states(&fleet.get(&id).await, RowState::Upgrading);
        (flying[2].clone(), fleet.pools[0].clone())
    };
    let mut tx = fleet.services.db.begin().await.unwrap();
    let now = Moment::now();
    disruption::occupy(&mut tx, &node, &pool, "wf_1", now)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let request = OneNode {
        tenant_id: "root".parse().unwrap(),
        node_id: node.clone(),
    };
    for _ in 0..2 {
        change::remove(&fleet.services.db, "alice", &request, now)
            .await
            .unwrap();
        agree(&fleet).await;
    }
    for _ in 0..2 {
        fleet.pass().await;
        agree(&fleet).await;
    }
    let mut tx = fleet.services.db.begin().await.unwrap();
    disruption::vacate(&mut tx, &node, "wf_1").await.unwrap();
    tx.commit().await.unwrap();
    fleet.pass().await;
    agree(&fleet).await;
    let rollout = fleet.get(&id).await;
    assert!(states(&rollout, RowState::Failed).contains(&node));
    // The gate holds the rest back: everybody else has arrived, so no place is taken.
    assert_eq!(rollout.state, RolloutState::Paused);
    assert_eq!(fleet.count("disrupted").await, 0);
}

/// A pool's counter is what its rows are.
async fn agree(fleet: &Fleet) {
    let counted: i64 = query_scalar("SELECT count(DISTINCT node_id) FROM disruptions")
        .fetch_one(fleet.services.db.reader())
        .await
        .unwrap();
    assert_eq!(fleet.count("disrupted").await, counted);
    assert!(counted <= 3, "{counted}");
}

//! Operators' calls on a real database: what they refuse, and what no pass may do after them.

use bc_protocol::id::RolloutId;
use tokio_util::sync::CancellationToken;

use super::fleet::{Fleet, foreign_attempt, states};
use crate::{
    api::{
        error::{Code, ErrorObject},
        rollout::{AbortRollout, OneRollout, PauseRollout, RolloutState, RowState},
    },
    clock::Moment,
    rollout::{controller, service},
};

fn one(id: &RolloutId) -> OneRollout {
    OneRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: id.clone(),
    }
}

fn pause(id: &RolloutId, reason: Option<String>) -> PauseRollout {
    PauseRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: id.clone(),
        reason,
    }
}

#[tokio::test]
async fn calls_on_what_has_ended_or_is_not_there_are_refused() {
    let mut fleet = Fleet::of(&[(1, 0)]).await;
    let id = fleet.create("1.1.0").await.unwrap().id;
    let foreign = PauseRollout {
        tenant_id: "other".parse().unwrap(),
        ..pause(&id, None)
    };
    let error: ErrorObject = service::pause(&fleet.services, "alice", foreign)
        .await
        .unwrap_err()
        .into();
    assert_eq!(error.code, Code::NotFound);
    let long = service::pause(&fleet.services, "alice", pause(&id, Some("é".repeat(501)))).await;
    let error: ErrorObject = long.unwrap_err().into();
    assert_eq!(
        (error.code, &error.details["field"]),
        (Code::InvalidInput, &"reason".into())
    );
    let fits = service::pause(&fleet.services, "alice", pause(&id, Some("é".repeat(500))))
        .await
        .unwrap();
    assert_eq!(fits.state, RolloutState::Paused);
    let resumed = service::resume(&fleet.services, "alice", one(&id))
        .await
        .unwrap();
    assert_eq!(
        (resumed.state, resumed.reason),
        (RolloutState::Running, None)
    );

    for _ in 0..2 {
        fleet.pass().await;
        fleet.nodes_obey().await;
    }
    fleet.pass().await;
    assert_eq!(fleet.get(&id).await.state, RolloutState::Completed);
    let abort = AbortRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: id.clone(),
        reason: None,
        rollback: false,
    };
    for error in [
        service::pause(&fleet.services, "alice", pause(&id, None))
            .await
            .unwrap_err(),
        service::resume(&fleet.services, "alice", one(&id))
            .await
            .unwrap_err(),
        service::abort(&fleet.services, "alice", abort)
            .await
            .unwrap_err(),
    ] {
        assert_eq!(ErrorObject::from(error).code, Code::InvalidState);
    }
}

/// I23: whatever passes run beside it, once a pause has answered nothing starts, until a resume.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_starts_after_a_pause_has_answered() {
    let mut fleet = Fleet::of(&[(40, 100_000)]).await;
    let stop = CancellationToken::new();
    let controller = controller::spawn(fleet.services.clone(), stop.clone());
    let id = fleet.create("1.1.0").await.unwrap().id;
    for round in 0..12 {
        let beside = {
            let (services, id) = (fleet.services.clone(), id.clone());
            tokio::spawn(async move {
                for _ in 0..5 {
                    let now = Moment::now();
                    controller::pass(&services, &id, || now).await.unwrap();
                }
            })
        };
        // A place falls free, so that somebody could start.
        if let Some(node) = states(&fleet.get(&id).await, RowState::Upgrading).first() {
            fleet.obeys(node).await;
        }
        let answer = service::pause(&fleet.services, "alice", pause(&id, None))
            .await
            .unwrap();
        let pending = answer.nodes.pending;
        beside.await.unwrap();
        for node in states(&fleet.get(&id).await, RowState::Upgrading)
            .iter()
            .take(2)
        {
            fleet.obeys(node).await;
        }
        controller::pass(&fleet.services, &id, Moment::now)
            .await
            .unwrap();
        assert_eq!(fleet.get(&id).await.nodes.pending, pending, "round {round}");
        service::resume(&fleet.services, "alice", one(&id))
            .await
            .unwrap();
    }
    assert!(fleet.get(&id).await.nodes.succeeded > 0);
    stop.cancel();
    controller.task.await.unwrap();
}

/// I19: a report of somebody else's attempt is a fact, and settles nothing.
#[tokio::test]
async fn reports_of_another_attempt_settle_nothing() {
    let mut fleet = Fleet::of(&[(1, 0)]).await;
    let id = fleet.create("1.1.0").await.unwrap().id;
    fleet.pass().await;
    let node = fleet.nodes[0].clone();
    let before = fleet.facts_of(&node);
    fleet.nodes_obey().await;
    let mut facts = fleet.facts_of(&node);
    facts.last_attempt.as_mut().unwrap().id = foreign_attempt();
    fleet.report(&node, facts).await;
    fleet.pass().await;
    assert_eq!(
        states(&fleet.get(&id).await, RowState::Upgrading),
        std::slice::from_ref(&node)
    );
    fleet.report(&node, before).await;
    fleet.leave(&node).await;
    fleet.pass().await;
    assert_eq!(states(&fleet.get(&id).await, RowState::Upgrading), [node]);
}

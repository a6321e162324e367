//! What operators are told: plans before a rollout, reasons during it, and the fleet in numbers.

use bc_protocol::{
    id::{NodeId, RolloutId},
    sequence::{ReleaseFloor, Sequence},
};

use super::{
    fleet::{BAD, Fleet, request, states},
    late::maintain,
};
use crate::{
    api::{
        error::{Code, ErrorObject},
        freeze::{FreezeFleet, OneFleet},
        rollout::{
            AbortRollout, CreateRollout, ExplainRollout, Explanation, OneRollout, PauseRollout,
            RetryRollout, RolloutState, RowState,
        },
    },
    rollout::service,
};

async fn explain(fleet: &Fleet, id: &RolloutId, node: &NodeId) -> Explanation {
    let request = ExplainRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: id.clone(),
        node_id: node.clone(),
    };
    service::explain(&fleet.services, request).await.unwrap()
}

fn one(id: &RolloutId) -> OneRollout {
    OneRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: id.clone(),
    }
}

fn whole() -> OneFleet {
    OneFleet {
        tenant_id: "root".parse().unwrap(),
    }
}

async fn freeze(fleet: &Fleet, reason: &str) {
    let request = FreezeFleet {
        tenant_id: "root".parse().unwrap(),
        reason: Some(reason.to_owned()),
    };
    let answer = service::freeze(&fleet.services, "alice", request)
        .await
        .unwrap();
    assert_eq!(answer.frozen.unwrap().reason, reason);
}

/// Whoever says it again without a reason does not take back the one that was given.
#[tokio::test]
async fn a_reason_stays_until_another_is_given() {
    let fleet = Fleet::of(&[(2, 0)]).await;
    let id = fleet.create("1.1.0").await.unwrap().id;
    let tenant = || "root".parse().unwrap();
    for (given, stands) in [
        (None, "paused by an operator"),
        (Some("lunch"), "lunch"),
        (None, "lunch"),
        (Some("dinner"), "dinner"),
    ] {
        let pause = PauseRollout {
            tenant_id: tenant(),
            rollout_id: id.clone(),
            reason: given.map(str::to_owned),
        };
        let paused = service::pause(&fleet.services, "alice", pause).await;
        assert_eq!(paused.unwrap().reason.as_deref(), Some(stands), "{given:?}");
    }
    for (by, given, stands) in [
        ("alice", Some("incident 7"), ("alice", "incident 7")),
        ("bob", None, ("alice", "incident 7")),
        ("bob", Some("incident 8"), ("bob", "incident 8")),
    ] {
        let freeze = FreezeFleet {
            tenant_id: tenant(),
            reason: given.map(str::to_owned),
        };
        let frozen = service::freeze(&fleet.services, by, freeze).await.unwrap();
        let frozen = frozen.frozen.unwrap();
        assert_eq!((frozen.by.as_str(), frozen.reason.as_str()), stands);
    }
}

/// I23: frozen, nothing starts: no node of a wave, and no late one.
#[tokio::test]
async fn nothing_starts_in_a_frozen_fleet() {
    let mut fleet = Fleet::of(&[(2, 0)]).await;
    freeze(&fleet, "incident 7").await;
    let planned = service::plan(&fleet.services, "alice", request("1.1.0"))
        .await
        .unwrap();
    let first = &planned.warnings[0];
    assert_eq!(first.code, "frozen");
    let said = "nothing starts until the fleet is unfrozen: alice has frozen it since ";
    assert!(first.message.starts_with(said), "{}", first.message);
    assert!(first.message.ends_with(": incident 7"), "{}", first.message);
    let id = fleet.create("1.1.0").await.unwrap().id;
    fleet.pass().await;
    assert_eq!(fleet.get(&id).await.nodes.pending, 2);
    let node = fleet.nodes[0].clone();
    let said = explain(&fleet, &id, &node).await;
    assert_eq!(
        (said.code.as_str(), said.state),
        ("frozen", Some(RowState::Pending))
    );
    assert!(said.sentence.contains("incident 7"), "{}", said.sentence);

    let open = service::unfreeze(&fleet.services, "bob", whole())
        .await
        .unwrap();
    assert_eq!(open.frozen, None);
    for _ in 0..4 {
        fleet.pass().await;
        fleet.nodes_obey().await;
    }
    fleet.pass().await;
    assert_eq!(fleet.get(&id).await.state, RolloutState::Completed);

    freeze(&fleet, "again").await;
    let pool = fleet.pools[0].clone();
    let late = fleet.joins(&pool).await;
    fleet.pass().await;
    assert_eq!(fleet.get(&id).await.late_nodes, Some(vec![]));
    let said = explain(&fleet, &id, &late).await;
    assert_eq!((said.code.as_str(), said.state), ("frozen", None));
    assert!(
        said.sentence.starts_with("it is late for 1.1.0 and waits"),
        "{}",
        said.sentence
    );
    let summary = service::summary(&fleet.services, whole()).await.unwrap();
    assert_eq!(summary.frozen.unwrap().reason, "again");
    assert_eq!((summary.total.late, summary.total.nodes), (1, 3));

    service::unfreeze(&fleet.services, "bob", whole())
        .await
        .unwrap();
    fleet.pass().await;
    assert_eq!(fleet.get(&id).await.late_nodes.unwrap().len(), 1);
}

#[tokio::test]
async fn every_state_has_a_sentence() {
    let mut fleet = Fleet::of(&[(4, 0)]).await;
    let id = fleet.create("1.1.0").await.unwrap().id;
    fleet.pass().await;
    let rollout = fleet.get(&id).await;
    let flying = states(&rollout, RowState::Upgrading).remove(0);
    let waiting = states(&rollout, RowState::Pending).remove(0);
    let said = explain(&fleet, &id, &flying).await;
    assert_eq!(
        (said.code.as_str(), said.state),
        ("upgrading", Some(RowState::Upgrading))
    );
    let said = explain(&fleet, &id, &waiting).await;
    assert_eq!(said.code, "wave");
    assert_eq!(
        said.sentence,
        "it waits for wave 2 of 2: wave 1 is open, and 0 of its 1 nodes have settled"
    );
    fleet.obeys(&flying).await;
    fleet.pass().await;
    let rollout = fleet.get(&id).await;
    let second = states(&rollout, RowState::Upgrading).remove(0);
    let waiting = states(&rollout, RowState::Pending).remove(0);
    let said = explain(&fleet, &id, &waiting).await;
    assert_eq!(said.code, "budget");
    let budget = "it waits: 1 node of its pool is disrupted where 1 may be: ";
    assert_eq!(said.sentence, format!("{budget}{second} by {id}"));
    let said = explain(&fleet, &id, &flying).await;
    assert!(
        said.sentence
            .starts_with("it went from 1.0.0 to 1.1.0, confirmed at"),
        "{said:?}"
    );

    let pause = PauseRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: id.clone(),
        reason: Some("looks odd".to_owned()),
    };
    service::pause(&fleet.services, "alice", pause)
        .await
        .unwrap();
    let said = explain(&fleet, &id, &waiting).await;
    assert_eq!(
        said.sentence,
        "it waits: the rollout is paused because: looks odd"
    );
    abort_says_why(&fleet, &id, (&second, &waiting)).await;

    let stranger = ExplainRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: id.clone(),
        node_id: NodeId::derived(&[b"nobody"]),
    };
    let error: ErrorObject = service::explain(&fleet.services, stranger)
        .await
        .unwrap_err()
        .into();
    assert_eq!(error.code, Code::NotFound);
}

/// One node is on its way back, and one was never started.
async fn abort_says_why(fleet: &Fleet, id: &RolloutId, (second, waiting): (&NodeId, &NodeId)) {
    let abort = AbortRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: id.clone(),
        reason: None,
        rollback: true,
    };
    service::abort(&fleet.services, "alice", abort)
        .await
        .unwrap();
    let said = explain(fleet, id, second).await;
    assert_eq!(
        (said.code.as_str(), said.state),
        ("rolling-back", Some(RowState::RollingBack))
    );
    let said = explain(fleet, id, waiting).await;
    assert_eq!(
        (said.code.as_str(), said.state),
        ("aborted", Some(RowState::Skipped))
    );
}

#[tokio::test]
async fn failed_nodes_of_a_completed_rollout_are_tried_again_when_somebody_asks() {
    let mut fleet = Fleet::of(&[(2, 1_000_000)]).await;
    let lenient = CreateRollout {
        max_failure_ratio: Some("1".parse().unwrap()),
        ..request(BAD)
    };
    let id = service::create(&fleet.services, "alice", lenient)
        .await
        .unwrap()
        .id;
    let asked = |nodes: Option<Vec<NodeId>>| RetryRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: id.clone(),
        node_ids: nodes,
    };
    let early = service::retry(&fleet.services, "alice", asked(None)).await;
    assert_eq!(
        ErrorObject::from(early.unwrap_err()).code,
        Code::InvalidState
    );
    for _ in 0..6 {
        fleet.pass().await;
        fleet.nodes_obey().await;
        drop(service::resume(&fleet.services, "alice", one(&id)).await);
    }
    let before = fleet.get(&id).await;
    assert_eq!(
        (before.state, before.nodes.failed),
        (RolloutState::Completed, 2)
    );

    let node = fleet.nodes[0].clone();
    let first = fleet.spec(&node).await.daemon.unwrap().attempt;
    let nobody = asked(Some(vec![NodeId::derived(&[b"nobody"])]));
    let refused = service::retry(&fleet.services, "alice", nobody).await;
    assert_eq!(
        ErrorObject::from(refused.unwrap_err()).code,
        Code::InvalidState
    );
    let only = asked(Some(vec![node.clone()]));
    service::retry(&fleet.services, "alice", only)
        .await
        .unwrap();
    fleet.pass().await;
    let section = fleet.spec(&node).await.daemon.unwrap();
    assert_eq!(section.version.as_str(), BAD);
    assert_ne!(section.attempt, first);
    fleet.nodes_obey().await;
    fleet.pass().await;
    let after = fleet.get(&id).await;
    let late = after.late_nodes.unwrap();
    assert_eq!((late.len(), late[0].state), (1, RowState::Failed));
    assert_eq!(
        (after.nodes, after.node_list),
        (before.nodes, before.node_list)
    );

    service::retry(&fleet.services, "alice", asked(None))
        .await
        .unwrap();
    fleet.pass().await;
    let again = fleet.spec(&node).await.daemon.unwrap();
    assert_ne!(again.attempt, section.attempt, "every try has its own name");
    assert_eq!(fleet.get(&id).await.late_nodes.unwrap().len(), 2);
}

#[tokio::test]
async fn a_plan_says_what_creating_would_do_and_stores_nothing() {
    let fleet = Fleet::of(&[(5, 0), (5, 400_000)]).await;
    for node in &fleet.nodes[5..] {
        fleet.leave(node).await;
    }
    let asked = || CreateRollout {
        idempotency_key: Some("k".to_owned()),
        upgrade_timeout_seconds: Some(60.0),
        soak_seconds: Some(30.0),
        ..request("1.1.0")
    };
    let planned = service::plan(&fleet.services, "alice", asked())
        .await
        .unwrap();
    assert_eq!(fleet.count("rollouts").await, 0);
    assert!(fleet.events().await.is_empty());
    assert_eq!((planned.nodes, planned.already), (10, 0));
    let codes: Vec<_> = planned
        .warnings
        .iter()
        .map(|warning| warning.code.as_str())
        .collect();
    let mut expected = vec!["short-timeout", "nobody-online"];
    // The one canary may be of either pool: ids are drawn.
    if planned.waves[0].pools.contains_key(&fleet.pools[1]) {
        expected.push("no-canary");
    }
    assert_eq!(codes, expected);
    let concurrency: Vec<u32> = fleet
        .pools
        .iter()
        .map(|pool| {
            planned
                .pools
                .iter()
                .find(|known| known.pool_id == *pool)
                .unwrap()
        })
        .map(|pool| pool.concurrency)
        .collect();
    assert_eq!(concurrency, [1, 2]);

    let made = service::create(&fleet.services, "alice", asked())
        .await
        .unwrap();
    let listed = fleet.get(&made.id).await.node_list.unwrap();
    for (wave, planned) in (0_u32..).zip(&planned.waves) {
        let nodes = listed.iter().filter(|row| row.wave == wave).count();
        assert_eq!(planned.nodes as usize, nodes, "wave {wave}");
    }
    let other = CreateRollout {
        idempotency_key: None,
        ..asked()
    };
    let busy = service::plan(&fleet.services, "alice", other)
        .await
        .unwrap_err();
    assert_eq!(ErrorObject::from(busy).code, Code::Conflict);
}

#[tokio::test]
async fn a_fleet_in_numbers() {
    let mut fleet = Fleet::of(&[(3, 0), (2, 0)]).await;
    let id = fleet.create("1.1.0").await.unwrap().id;
    fleet.pass().await;
    fleet.nodes_obey().await;
    let away = states(&fleet.get(&id).await, RowState::Pending).remove(0);
    fleet.leave(&away).await;
    let held = states(&fleet.get(&id).await, RowState::Pending).remove(1);
    let mut facts = fleet.facts_of(&held);
    facts.held = Some("mine".to_owned());
    fleet.report(&held, facts).await;
    let summary = service::summary(&fleet.services, whole()).await.unwrap();
    let total = &summary.total;
    assert_eq!((total.nodes, total.online, total.held), (5, 4, 1));
    assert_eq!((total.disrupted, total.late, total.on_trial), (1, 0, 0));
    let versions: Vec<_> = total
        .versions
        .iter()
        .map(|(v, n)| (v.as_str(), *n))
        .collect();
    assert_eq!(versions, [("1.0.0", 4), ("1.1.0", 1)]);
    let nodes: u32 = summary.pools.iter().map(|pool| pool.census.nodes).sum();
    assert_eq!((summary.pools.len(), nodes), (2, 5));
}

/// What the planner would pass over is warned of, and so is what somebody has given up.
#[tokio::test]
async fn a_plan_warns_of_each_node_that_would_not_take_it() {
    let mut fleet = Fleet::of(&[(5, 200_000)]).await;
    let id = fleet.create("1.1.0").await.unwrap().id;
    let abort = AbortRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: id.clone(),
        reason: Some("it is bad".to_owned()),
        rollback: false,
    };
    service::pause(&fleet.services, "alice", pause(&id))
        .await
        .unwrap();
    let aborted = service::abort(&fleet.services, "alice", abort)
        .await
        .unwrap();
    let reasons = (aborted.reason.as_deref(), aborted.paused_reason.as_deref());
    assert_eq!(reasons, (Some("it is bad"), Some("it looks odd")));

    let [held, floored, away, ..] = &fleet.nodes.clone()[..] else {
        panic!("expected five nodes");
    };
    let mut facts = fleet.facts_of(held);
    facts.held = Some("mine".to_owned());
    fleet.report(held, facts).await;
    let mut facts = fleet.facts_of(floored);
    facts.floor = ReleaseFloor::starting_at(Sequence::new(99).unwrap());
    fleet.report(floored, facts).await;
    maintain(&fleet, away, true).await;
    let plan = service::plan(&fleet.services, "alice", request("1.1.0"))
        .await
        .unwrap();
    assert_eq!(plan.nodes, 4);
    let warned: Vec<String> = plan
        .warnings
        .iter()
        .map(|warning| format!("{}: {}", warning.code, warning.message))
        .collect();
    insta::assert_snapshot!(warned.join("\n").replace(id.as_str(), "ID"), @r"
    floor: 1 node would be passed over: expected a sequence of at least the node's floor 99, found 11
    held: 1 node would be passed over: its owner holds the node: mine
    maintenance: 1 node in maintenance would be left out
    aborted-before: the last rollout of this version, ID, was aborted: it is bad
    ");
}

fn pause(id: &RolloutId) -> PauseRollout {
    PauseRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: id.clone(),
        reason: Some("it looks odd".to_owned()),
    }
}

//! The road on a real database: rollouts are created, passes are made, nodes read their specs and report.

mod archive;
mod arms;
mod calls;
mod create;
mod cut;
pub(crate) mod fleet;
mod late;
mod news;
mod packs;
mod points;
mod words;

use std::{sync::Arc, time::Duration};

use bc_protocol::id::NodeId;
use tokio_util::sync::CancellationToken;

use super::store;
use crate::{
    api::rollout::{AbortRollout, RolloutState, RowState},
    clock::Moment,
    db::query,
    rollout::{controller, service},
};
use fleet::{BAD, Fleet, states};

#[tokio::test]
async fn a_good_release_reaches_every_node() {
    let mut fleet = Fleet::of(&[(7, 50_000), (5, 400_000)]).await;
    let rollout = fleet.create("1.1.0").await.unwrap();
    for _ in 0..20 {
        fleet.pass().await;
        let flying = fleet.count("disruptions").await;
        assert!(flying <= 3, "I21: {flying}");
        assert_eq!(flying, fleet.count("disrupted").await);
        fleet.nodes_obey().await;
    }
    let rollout = fleet.get(&rollout.id).await;
    assert_eq!(
        (rollout.state, rollout.nodes.succeeded),
        (RolloutState::Completed, 12)
    );
    assert_eq!(fleet.count("disruptions").await, 0);
    for node in &fleet.nodes {
        assert_eq!(fleet.runs(node), ("1.1.0".to_owned(), 11));
    }
    assert_eq!(
        fleet.events().await,
        ["rollout.started", "rollout.wave", "rollout.completed"]
    );
    let completed: String =
        crate::db::query_scalar("SELECT data FROM events WHERE type = 'rollout.completed'")
            .fetch_one(fleet.services.db.reader())
            .await
            .unwrap();
    let completed: serde_json::Value = serde_json::from_str(&completed).unwrap();
    assert_eq!(
        (&completed["succeeded"], &completed["failed"]),
        (&12.into(), &0.into())
    );
}

#[tokio::test]
async fn a_bad_release_stops_at_its_canary_and_an_abort_ends_it() {
    let mut fleet = Fleet::of(&[(6, 1_000_000)]).await;
    let id = fleet.create(BAD).await.unwrap().id;
    for _ in 0..3 {
        fleet.pass().await;
        fleet.nodes_obey().await;
    }
    let paused = fleet.get(&id).await;
    let reason = "wave 1 of 2: 1 of 1 nodes failed, a ratio of 1 where 0.05 is allowed; most often no-welcome";
    assert_eq!(
        (paused.state, paused.reason.as_deref()),
        (RolloutState::Paused, Some(reason))
    );
    assert_eq!((paused.nodes.failed, paused.nodes.pending), (1, 5));

    let request = AbortRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: id.clone(),
        reason: None,
        rollback: true,
    };
    let aborted = service::abort(&fleet.services, "alice", request)
        .await
        .unwrap();
    assert_eq!(aborted.reason.as_deref(), Some("aborted by an operator"));
    fleet.pass().await;
    fleet.nodes_obey().await;

    let ended = fleet.get(&id).await;
    assert_eq!(
        (ended.state, ended.finished_at.is_some()),
        (RolloutState::Aborted, true)
    );
    assert_eq!((ended.nodes.failed, ended.nodes.skipped), (1, 5));
    let canary = states(&ended, RowState::Failed).remove(0);
    let section = fleet.spec(&canary).await.daemon.unwrap();
    assert_eq!(section.version.as_str(), "1.0.0");
    for node in &fleet.nodes {
        assert_eq!(fleet.runs(node), ("1.0.0".to_owned(), 10));
        let left_alone = fleet.spec(node).await.daemon.is_none();
        assert_eq!(left_alone, *node != canary);
    }
    let events = ["rollout.started", "rollout.paused", "rollout.aborted"];
    assert_eq!(fleet.events().await, events);
    assert_eq!(fleet.count("disruptions").await, 0);
}

#[tokio::test]
async fn a_spec_changes_its_generation_only_with_what_it_says() {
    let mut fleet = Fleet::of(&[(1, 0)]).await;
    let node = fleet.nodes[0].clone();
    let joined = fleet.spec(&node).await;
    assert_eq!((joined.generation, joined.daemon), (1, None));

    let id = fleet.create("1.1.0").await.unwrap().id;
    assert_eq!(fleet.spec(&node).await.generation, 1, "not told yet");
    fleet.pass().await;
    let told = fleet.spec(&node).await;
    let section = told.daemon.clone().unwrap();
    assert_eq!((told.generation, section.version.as_str()), (2, "1.1.0"));
    assert_eq!(section.url, "http://127.0.0.1/d/bcd/1.1.0/linux-amd64");
    assert_eq!(section.sha256, bc_protocol::digest::Sha256::of(b"1.1.0"));
    assert_eq!(fleet.spec(&node).await, told);

    fleet.nodes_obey().await;
    fleet.pass().await;
    assert_eq!(fleet.get(&id).await.state, RolloutState::Completed);
    assert_eq!(
        fleet.spec(&node).await,
        told,
        "what it runs is what it was told"
    );
    assert_eq!(
        fleet.create("1.1.0").await.unwrap().nodes.succeeded,
        1,
        "it runs it already"
    );
    let again = fleet.spec(&node).await;
    assert_eq!(
        (again.generation, again.daemon.unwrap().version),
        (3, section.version)
    );
}

/// What a pass commits is pushed after its commit, and a report's effect needs no timer: the controller is woken.
#[tokio::test]
async fn the_controller_follows_reports_at_once() {
    let mut fleet = Fleet::of(&[(9, 0)]).await;
    let stop = CancellationToken::new();
    let mut stale = fleet.services.stale.subscribe();
    let controller = controller::spawn(fleet.services.clone(), stop.clone());

    let id = fleet.create("1.1.0").await.unwrap().id;
    for _ in 0..9 {
        let told: Arc<[NodeId]> = tokio::time::timeout(Duration::from_secs(5), stale.recv())
            .await
            .expect("far below the safety net")
            .unwrap();
        assert_eq!(told.len(), 1, "one place in the pool");
        assert_eq!(
            fleet.spec(&told[0]).await.daemon.unwrap().version.as_str(),
            "1.1.0"
        );
        fleet.nodes_obey().await;
    }
    stop.cancel();
    controller.task.await.unwrap();
    fleet.pass().await;
    assert_eq!(fleet.get(&id).await.state, RolloutState::Completed);
}

/// A rollout whose rows cannot be read delays nobody.
#[tokio::test]
async fn one_rollout_that_errs_does_not_stop_the_others() {
    let mut fleet = Fleet::of(&[(1, 0), (1, 0)]).await;
    let mut ids = Vec::new();
    for pool in fleet.pools.clone() {
        let request = crate::api::rollout::CreateRollout {
            pool_ids: Some(vec![pool]),
            ..fleet::request("1.1.0")
        };
        ids.push(
            service::create(&fleet.services, "alice", request)
                .await
                .unwrap()
                .id,
        );
    }
    let mut tx = fleet.services.db.begin().await.unwrap();
    query("UPDATE rollouts SET soak_ms = -1 WHERE id = $1")
        .bind(ids[0].as_str())
        .execute(&mut *tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    for _ in 0..2 {
        fleet.pass().await;
        fleet.nodes_obey().await;
    }
    fleet.pass().await;
    assert_eq!(fleet.get(&ids[1]).await.state, RolloutState::Completed);
}

/// A row that timed out while its node was at work holds its place, also when the rollout is over.
#[tokio::test]
async fn places_outlive_rollouts_and_are_given_back() {
    let mut fleet = Fleet::of(&[(1, 0)]).await;
    let node = fleet.nodes[0].clone();
    let request = crate::api::rollout::CreateRollout {
        max_failure_ratio: Some("1".parse().unwrap()),
        ..fleet::request("1.1.0")
    };
    let id = service::create(&fleet.services, "alice", request)
        .await
        .unwrap()
        .id;
    fleet.pass().await;
    let spec = fleet.spec(&node).await;
    let mut facts = fleet.facts_of(&node);
    facts.progress = Some(bc_protocol::session::Progress {
        attempt: spec.daemon.unwrap().attempt,
        phase: bc_protocol::session::Phase::Downloading,
        percent: 1,
    });
    fleet.report(&node, facts.clone()).await;

    let late = Moment::now().plus(Duration::from_secs(901));
    controller::pass(&fleet.services, &id, || late)
        .await
        .unwrap();
    let failed = fleet.get(&id).await;
    assert_eq!(
        states(&failed, RowState::Failed),
        std::slice::from_ref(&node)
    );
    service::abort(
        &fleet.services,
        "alice",
        AbortRollout {
            tenant_id: "root".parse().unwrap(),
            rollout_id: id.clone(),
            reason: None,
            rollback: false,
        },
    )
    .await
    .unwrap();
    fleet.pass().await;
    assert_eq!(fleet.count("disrupted").await, 1);

    facts.progress = None;
    fleet.report(&node, facts).await;
    fleet.pass().await;
    assert_eq!(
        (
            fleet.count("disrupted").await,
            fleet.count("disruptions").await
        ),
        (0, 0)
    );
}

/// A node that has a release as its target and has not installed it needs the manifest that has not expired.
#[tokio::test]
async fn whoever_has_a_release_as_its_target_hears_of_its_renewal() {
    let fleet = Fleet::of(&[(3, 0)]).await;
    let id = fleet.create("1.1.0").await.unwrap().id;
    fleet.pass().await;
    let version = "1.1.0".parse().unwrap();
    let carrying = async || store::carrying(&fleet.services.db, &version).await.unwrap();
    let told = states(&fleet.get(&id).await, RowState::Upgrading);
    fleet.spec(&told[0]).await;
    assert_eq!(carrying().await, told);
    fleet.leave(&told[0]).await;
    assert!(carrying().await.is_empty(), "it reads it when it returns");
}

/// A daemon that starts twice with the same binary, with nobody asking for it, counts against its wave.
#[tokio::test]
async fn a_node_that_restarts_by_itself_shuts_the_gate() {
    let mut fleet = Fleet::of(&[(2, 0)]).await;
    let soaking = crate::api::rollout::CreateRollout {
        soak_seconds: Some(600.0),
        ..fleet::request("1.1.0")
    };
    let id = service::create(&fleet.services, "alice", soaking)
        .await
        .unwrap()
        .id;
    fleet.pass().await;
    let node = states(&fleet.get(&id).await, RowState::Upgrading).remove(0);
    fleet.restarts(&node).await;
    fleet.obeys(&node).await;
    fleet.pass().await;
    for expected in [RolloutState::Running, RolloutState::Paused] {
        fleet.restarts(&node).await;
        fleet.pass().await;
        assert_eq!(fleet.get(&id).await.state, expected);
    }
    let reason = fleet.get(&id).await.reason.unwrap();
    assert!(reason.ends_with("most often restarted"), "{reason}");
}

/// A wave with more nodes than a pass looks at, of which many are away: whoever can be reached has his turn, and at the
/// end the others are passed over.
#[tokio::test]
async fn a_wave_larger_than_what_a_pass_reads() {
    let mut fleet = Fleet::of(&[(90, 100_000), (20, 0)]).await;
    let everything = crate::api::rollout::CreateRollout {
        waves: Some(vec!["100".parse().unwrap()]),
        ..fleet::request("1.1.0")
    };
    let id = service::create(&fleet.services, "alice", everything)
        .await
        .unwrap()
        .id;
    let order: Vec<NodeId> = fleet
        .get(&id)
        .await
        .node_list
        .unwrap()
        .into_iter()
        .map(|row| row.node_id)
        .collect();
    for node in &order[..50] {
        fleet.leave(node).await;
    }
    // Asked about, also one whose turn has not come says what it waits for.
    fleet.pass().await;
    let last = crate::api::rollout::ExplainRollout {
        tenant_id: "root".parse().unwrap(),
        rollout_id: id.clone(),
        node_id: order[109].clone(),
    };
    let said = service::explain(&fleet.services, last).await.unwrap();
    assert_eq!(said.code, "budget", "{}", said.sentence);
    for _ in 0..30 {
        fleet.pass().await;
        let flying = fleet.get(&id).await.nodes.upgrading;
        assert!(flying <= 10, "I21: {flying}");
        for node in &order[50..] {
            fleet.obeys(node).await;
        }
    }
    let nodes = fleet.get(&id).await.nodes;
    assert_eq!((nodes.succeeded, nodes.pending), (60, 50));
    let later = || Moment::now().plus(Duration::from_secs(3600));
    controller::pass(&fleet.services, &id, later).await.unwrap();
    let ended = fleet.get(&id).await;
    assert_eq!(
        (ended.state, ended.nodes.skipped),
        (RolloutState::Completed, 50)
    );
}

/// What fails in every pass is counted, so that somebody hears of it before the fleet's operators do.
#[tokio::test]
async fn a_pass_that_fails_is_counted() {
    let fleet = Fleet::of(&[(2, 0)]).await;
    fleet.create("1.1.0").await.unwrap();
    let mut tx = fleet.services.db.begin().await.unwrap();
    query("ALTER TABLE rollout_waves RENAME TO elsewhere")
        .execute(&mut tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    fleet.pass().await;
    fleet.pass().await;
    let text = fleet.services.metrics.text();
    let failed = "bc_control_work_failed_total{work=\"pass\"} 2";
    assert!(text.lines().any(|line| line == failed), "{text}");
}

use std::{collections::BTreeMap, time::Duration};

use bc_protocol::{
    digest::Sha256,
    id::{NodeId, PoolId, RolloutId},
    platform::Platform,
    sequence::{ReleaseFloor, Sequence},
    share::Share,
};
use proptest::prelude::*;

use super::{Candidate, LatePlan, LateSnapshot, Lateness, Leave, Runs, plan};
use crate::{
    clock::Moment,
    rollout::{
        budget::Budget,
        plan::{PlaceMove, Step},
        snapshot::{Context, Freeze, Node, Offer, Pool, Presence, Read, Said, Scope, Terms},
        target::Target,
    },
};

const NOW: Moment = Moment::from_millis(1_000_000_000_000);

fn pool() -> PoolId {
    PoolId::derived(&[b"pool"])
}

fn candidate(number: u32) -> Candidate {
    Candidate {
        pool: pool(),
        lateness: Lateness::Late,
        tries: 0,
        disrupted_by: None,
        runs: Runs::Other,
        node: Node {
            id: NodeId::derived(&[&number.to_be_bytes()]),
            removed: false,
            maintenance: false,
            arch: Some("x86_64".to_owned()),
            presence: Presence::Online,
            said: Some(Said {
                version: "1.0.0".parse().unwrap(),
                floor: ReleaseFloor::starting_at(Sequence::new(10).unwrap()),
                trial: None,
                working_on: None,
                read: Read::Behind,
                attempt: None,
                held: None,
            }),
        },
    }
}

fn snapshot(nodes: u32, disrupted: u32, candidates: Vec<Candidate>) -> LateSnapshot {
    let sequence = Sequence::new(11).unwrap();
    let budget = Budget::new(nodes, "0.2".parse::<Share>().unwrap(), disrupted);
    let binary = (
        Platform::from_arch_label("x86_64").unwrap(),
        Sha256::of(b"1.1.0"),
    );
    LateSnapshot {
        terms: Terms {
            id: RolloutId::derived(&[b"r"]),
            version: "1.1.0".parse().unwrap(),
            sequence,
            max_failure_ratio: Share::ZERO,
            soak: Duration::ZERO,
            timeout: Duration::from_secs(900),
            scope: Scope::NotInMaintenance,
        },
        revision: 0,
        pools: BTreeMap::from([(
            pool(),
            Pool {
                budget,
                archived: false,
            },
        )]),
        flights: Vec::new(),
        lingering: Vec::new(),
        candidates,
        offer: Offer::Good(Target::new(sequence, BTreeMap::from([binary]))),
        freeze: None,
        context: Context {
            started_at: NOW,
            links_since: Some(NOW),
            offline_grace: Duration::from_secs(300),
        },
    }
}

fn starts(plan: &LatePlan) -> usize {
    let is_start = |change: &&super::LateChange| matches!(change.step, Step::Start { .. });
    plan.rows.iter().filter(is_start).count()
}

/// What becomes of one candidate: whether it starts, how it leaves the queue, and what holds it.
fn check(change: impl FnOnce(&mut Candidate), started: bool, leave: Option<Leave>, held: &str) {
    let mut one = candidate(1);
    change(&mut one);
    let made = plan(&snapshot(10, 0, vec![one]), NOW);
    let held_by = made.held.first().map_or("", |held| held.hold.code());
    let left = made.leave.first().map(|(_, leave)| *leave);
    assert_eq!((starts(&made) == 1, left, held_by), (started, leave, held));
}

#[test]
fn a_late_node_starts_and_leaves_the_queue() {
    check(|_| {}, true, Some(Leave::Park), "");
}

#[test]
fn whoever_cannot_go_waits_aside_for_something_to_happen() {
    let aside = Some(Leave::Park);
    check(
        |late| late.node.presence = Presence::Offline(NOW),
        false,
        aside,
        "offline",
    );
    check(
        |late| late.node.maintenance = true,
        false,
        aside,
        "maintenance",
    );
    check(
        |late| late.disrupted_by = Some("wf_1".to_owned()),
        false,
        aside,
        "disrupted",
    );
    check(
        |late| late.node.said.as_mut().unwrap().held = Some("mine".to_owned()),
        false,
        aside,
        "held",
    );
    check(|late| late.node.arch = None, false, aside, "platform");
    let high = ReleaseFloor::starting_at(Sequence::new(12).unwrap());
    check(
        |late| late.node.said.as_mut().unwrap().floor = high,
        false,
        aside,
        "floor",
    );
}

#[test]
fn whoever_is_not_late_is_forgotten_unless_a_rollout_under_way_may_pass_it_over() {
    check(
        |late| late.lateness = Lateness::Done,
        false,
        Some(Leave::Forget),
        "",
    );
    check(
        |late| late.lateness = Lateness::Settled,
        false,
        Some(Leave::Park),
        "",
    );
    check(
        |late| late.node.removed = true,
        false,
        Some(Leave::Forget),
        "",
    );
}

#[test]
fn a_node_that_runs_the_release_takes_no_place() {
    let mut one = candidate(1);
    one.runs = Runs::Release;
    let made = plan(&snapshot(1, 1, vec![one]), NOW);
    assert!(matches!(made.rows[0].step, Step::Succeed));
    assert!(made.places.is_empty());
    assert_eq!(made.stale.len(), 1, "its row gives it its say");
}

#[test]
fn a_full_pool_keeps_its_late_nodes_in_the_queue() {
    let made = plan(&snapshot(10, 2, vec![candidate(1)]), NOW);
    assert!(made.is_idle());
    assert_eq!(made.held[0].hold.code(), "budget");
}

proptest! {
    /// I21, I23
    #[test]
    fn no_more_start_than_there_is_room_for_and_none_in_a_frozen_fleet(
        nodes in 0_u32..60,
        disrupted in 0_u32..20,
        waiting in 0_u32..40,
        frozen: bool,
    ) {
        let mut given = snapshot(nodes, disrupted, (0..waiting).map(candidate).collect());
        given.freeze = frozen.then(|| Freeze {
            reason: "incident".to_owned(),
            by: "alice".to_owned(),
            since: NOW,
        });
        let made = plan(&given, NOW);
        let room = (nodes / 5).max(1).saturating_sub(disrupted).min(waiting);
        let expected = if frozen { 0 } else { room };
        prop_assert_eq!(starts(&made), expected as usize);
        let taken = made.places.iter().filter(|place| matches!(place, PlaceMove::Occupy(..)));
        prop_assert_eq!(taken.count(), expected as usize);
        prop_assert_eq!(plan(&given, NOW), made, "I25");
    }
}

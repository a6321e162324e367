//! Random hands on a fleet. Whatever they do, the world's checks hold; and once they rest, the rollout ends.

use std::time::Duration;

use bc_protocol::{session::Outcome, share::Share};
use proptest::prelude::*;

use super::world::{Setup, Stale, World};
use crate::{
    api::rollout::{RolloutState, RowState},
    rollout::{
        operator::{Call, Flights},
        plan::{Step, plan},
        snapshot::{Freeze, Presence, Trouble},
    },
};

#[derive(Clone, Debug)]
pub(super) enum Hand {
    Pass,
    Wait(u64),
    /// The node does what it was told.
    Obey(usize),
    /// It reports about its attempt: the outcome, and whether for good.
    Report(usize, Outcome, bool),
    /// It reports about an attempt that is not its row's.
    ReportAnother(usize),
    Trial(usize),
    Rest(usize),
    Offline(usize),
    Online(usize),
    Hold(usize),
    Restart(usize),
    Remove(usize),
    Maintenance(usize),
    Disrupt(usize),
    LeaveAlone(usize),
    Archive(usize),
    Freeze,
    Unfreeze,
    CutLinks,
    Link,
    Call(Call),
    /// A plan is made, something else is written first, and then the plan is tried.
    PlanThenPause,
}

pub(super) fn hand() -> impl Strategy<Value = Hand> {
    let node = 0_usize..24;
    let outcome = prop_oneof![
        Just(Outcome::Running),
        Just(Outcome::Crashed),
        Just(Outcome::NoWelcome),
        Just(Outcome::Environment),
    ];
    prop_oneof![
        12 => Just(Hand::Pass),
        6 => prop_oneof![Just(1), Just(30), Just(61), Just(301), Just(901)].prop_map(Hand::Wait),
        12 => node.clone().prop_map(Hand::Obey),
        6 => (node.clone(), outcome, any::<bool>())
            .prop_map(|(node, outcome, is_final)| Hand::Report(node, outcome, is_final)),
        1 => node.clone().prop_map(Hand::ReportAnother),
        2 => node.clone().prop_map(Hand::Trial),
        2 => node.clone().prop_map(Hand::Rest),
        2 => node.clone().prop_map(Hand::Offline),
        3 => node.clone().prop_map(Hand::Online),
        1 => node.clone().prop_map(Hand::Hold),
        2 => node.clone().prop_map(Hand::Restart),
        1 => node.clone().prop_map(Hand::Remove),
        1 => node.clone().prop_map(Hand::Maintenance),
        2 => node.clone().prop_map(Hand::Disrupt),
        2 => node.prop_map(Hand::LeaveAlone),
        1 => (0_usize..3).prop_map(Hand::Archive),
        1 => Just(Hand::Freeze),
        3 => Just(Hand::Unfreeze),
        1 => Just(Hand::CutLinks),
        1 => Just(Hand::Link),
        5 => call().prop_map(Hand::Call),
        2 => Just(Hand::PlanThenPause),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let abort = |flights| Call::Abort {
        reason: "a".into(),
        flights,
    };
    prop_oneof![
        2 => Just(Call::Pause {
            reason: Some("p".into()),
        }),
        6 => Just(Call::Resume),
        1 => Just(abort(Flights::Fail)),
        1 => Just(abort(Flights::RollBack)),
    ]
}

pub(super) fn act(world: &mut World, hand: &Hand) {
    let nodes = world.nodes.len();
    let node = |place: &usize| *place % nodes;
    match hand {
        Hand::Pass => drop(world.pass()),
        Hand::Wait(seconds) => world.now = world.now.plus(Duration::from_secs(*seconds)),
        Hand::Obey(place) => world.obey(node(place)),
        Hand::Report(place, outcome, is_final) => {
            let code = if *outcome == Outcome::Running {
                ""
            } else {
                "trouble"
            };
            world.report(
                node(place),
                *outcome,
                *is_final && *outcome != Outcome::Running,
                code,
            );
        }
        Hand::ReportAnother(place) => {
            let place = node(place);
            world.report(place, Outcome::Crashed, true, "crashed");
            if let Some(attempt) = &mut world.said(place).attempt {
                attempt.id = bc_protocol::id::AttemptId::derived(&[b"another"]);
            }
        }
        Hand::Trial(place) => {
            let place = node(place);
            world.said(place).trial = world.rows[place].attempt.clone();
        }
        Hand::Rest(place) => rest(world, node(place)),
        Hand::Offline(place) => world.nodes[node(place)].presence = Presence::Offline(world.now),
        Hand::Online(place) => world.nodes[node(place)].presence = Presence::Online,
        Hand::Hold(place) => world.said(node(place)).held = Some("mine".to_owned()),
        Hand::Restart(place) => world.restart(node(place)),
        Hand::Remove(place) => world.remove(node(place)),
        Hand::Maintenance(place) => world.nodes[node(place)].maintenance ^= true,
        Hand::Disrupt(place) => world.disrupt(node(place), "wf_1"),
        Hand::LeaveAlone(place) => world.leave_alone(node(place), "wf_1"),
        Hand::Archive(pool) => {
            let pool = *pool % world.pools.len();
            world.pools[pool].archived = true;
        }
        Hand::Freeze => {
            world.freeze = Some(Freeze {
                reason: "incident".to_owned(),
                by: "alice".to_owned(),
                since: world.now,
            });
        }
        Hand::Unfreeze => world.freeze = None,
        Hand::CutLinks => world.context.links_since = None,
        Hand::Link => world.context.links_since = Some(world.now),
        Hand::Call(call) => drop(world.call(call)),
        Hand::PlanThenPause => plan_then_pause(world),
    }
    world.check();
}

fn rest(world: &mut World, place: usize) {
    let said = world.said(place);
    said.trial = None;
    said.working_on = None;
    if let Some(attempt) = &mut said.attempt {
        attempt.is_final = true;
        attempt.trouble = Some(Trouble::new("cancelled", ""));
    }
}

/// I23, I29: what was planned before a call has answered is refused.
fn plan_then_pause(world: &mut World) {
    let snapshot = world.snapshot();
    let old = plan(&snapshot, world.now);
    if world
        .call(&Call::Pause {
            reason: Some("p".into()),
        })
        .is_ok()
    {
        assert_eq!(world.apply(&old), Err(Stale));
        for made in world.pass() {
            assert!(
                made.rows
                    .iter()
                    .all(|change| !matches!(change.step, Step::Start { .. }))
            );
        }
    }
}

/// Everything heals, nodes do as they are told, and nobody interferes.
fn heal(world: &mut World) {
    world.context.links_since = Some(world.now);
    world.freeze = None;
    for place in 0..world.nodes.len() {
        world.leave_alone(place, "wf_1");
        world.nodes[place].presence = Presence::Online;
        rest(world, place);
    }
}

/// I32
fn ends(world: &mut World) -> Result<(), TestCaseError> {
    for _ in 0..400 {
        let plans = world.pass();
        let flies = world.rows.iter().any(|row| row.row.state.is_in_flight());
        let over = world.head.state != RolloutState::Running && !flies;
        if over {
            return Ok(());
        }
        let before: Vec<RowState> = world.rows.iter().map(|row| row.row.state).collect();
        for (place, state) in before.iter().enumerate() {
            if state.is_in_flight() {
                world.obey(place);
            }
        }
        if !flies {
            let next = plans.last().and_then(|plan| plan.next);
            prop_assert!(next.is_some(), "it waits for nothing: {:?}", plans.last());
            world.now = next.unwrap().0;
        }
    }
    Err(TestCaseError::fail(format!(
        "it goes on for ever: {:?}",
        world.head
    )))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// I19, I21–I25, I29, I32, I33
    #[test]
    fn whatever_happens(
        pools in prop::collection::vec((1_u32..9, prop_oneof![Just(50_000), Just(300_000), Just(1_000_000)]), 1..4),
        waves in prop_oneof![Just(vec!["100"]), Just(vec!["10", "50", "100"]), Just(vec!["1", "10", "50", "100"])],
        ratio in prop_oneof![Just(0), Just(50_000), Just(500_000), Just(1_000_000)],
        soak in prop_oneof![Just(0), Just(60), Just(600)],
        hands in prop::collection::vec(hand(), 0..120),
    ) {
        let pools: Vec<_> = pools
            .into_iter()
            .map(|(nodes, ppm)| (nodes, Share::from_millionths(ppm).unwrap()))
            .collect();
        let mut world = World::new(&pools, &Setup {
            waves: waves.iter().map(|text| text.parse().unwrap()).collect(),
            ratio: Share::from_millionths(ratio).unwrap(),
            soak: Duration::from_secs(soak),
            timeout: Duration::from_secs(900),
        });
        for hand in &hands {
            let succeeded: Vec<usize> = (0..world.rows.len())
                .filter(|place| world.rows[*place].row.state == RowState::Succeeded)
                .collect();
            act(&mut world, hand);
            for place in succeeded {
                prop_assert_eq!(world.rows[place].row.state, RowState::Succeeded, "I33");
            }
        }
        heal(&mut world);
        ends(&mut world)?;
    }
}

//! Lives of commands: tables, and whole histories against a node that remembers what it did.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn id(name: u8) -> CommandId {
    CommandId::derived(&[&[name]])
}

fn open(name: u8, kind: Kind, state: CommandState) -> Open {
    let expires_at = Moment::from_millis(100);
    Open {
        id: id(name),
        kind,
        state,
        expires_at,
    }
}

const NOW: Moment = Moment::from_millis(50);
use CommandState::{Dispatched, Pending};
use Kind::{Diagnostics, Restart, Upgrade};

fn check(rows: &[(u8, Kind, CommandState)], carries: Carries, expected: &str) {
    let rows: Vec<Open> = rows.iter().map(|(n, k, s)| open(*n, *k, *s)).collect();
    let plan = plan(&rows, carries, NOW);
    let names = |ids: &[CommandId]| {
        let name = |of: &CommandId| (0..=u8::MAX).find(|name| id(*name) == *of).unwrap();
        ids.iter()
            .map(|id| name(id).to_string())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let shown = format!(
        "back [{}] drop [{}] begin [{}] send [{}]",
        names(&plan.call_back),
        names(&plan.withdraw),
        names(&plan.begin),
        names(&plan.send)
    );
    assert_eq!(shown, expected);
}

#[test]
fn words_are_those_of_the_api() {
    for state in CommandState::ALL {
        let json = serde_json::to_string(&state).unwrap();
        assert_eq!(json, format!("\"{}\"", state.word()));
        assert_eq!(CommandState::from_word(state.word()), Some(state));
    }
}

#[test]
fn what_may_become_of_a_command() {
    let happenings = [
        Happened::Sent,
        Happened::CalledBack,
        Happened::Did,
        Happened::DidNot { code: "on-trial" },
        Happened::DidNot { code: "expired" },
        Happened::Withdrawn,
        Happened::TimeIsUp,
    ];
    let table = |state: CommandState| {
        happenings.map(|happened| state.after(&happened).map_or("-", CommandState::word))
    };
    assert_eq!(
        table(Pending),
        [
            "dispatched",
            "-",
            "succeeded",
            "failed",
            "expired",
            "failed",
            "expired"
        ]
    );
    assert_eq!(
        table(Dispatched),
        [
            "-",
            "pending",
            "succeeded",
            "failed",
            "expired",
            "failed",
            "timed-out"
        ]
    );
    for state in CommandState::ALL
        .into_iter()
        .filter(|state| !state.is_open())
    {
        assert_eq!(table(state), ["-"; 7]);
    }
}

#[test]
fn one_of_a_lane_at_a_time_and_what_was_dispatched_first() {
    check(
        &[
            (1, Restart, Pending),
            (2, Diagnostics, Pending),
            (3, Diagnostics, Dispatched),
            (4, Restart, Pending),
        ],
        Carries::Everything,
        "back [] drop [] begin [1] send [3 1]",
    );
}

#[test]
fn an_upgrade_only_session_has_upgrades_and_the_rest_waits() {
    check(
        &[
            (1, Restart, Dispatched),
            (2, Diagnostics, Dispatched),
            (3, Diagnostics, Pending),
            (4, Upgrade, Pending),
        ],
        Carries::Upgrades,
        "back [1 2] drop [] begin [4] send [4]",
    );
}

#[test]
fn on_trial_a_restart_waits_and_the_rest_does_not() {
    check(
        &[
            (1, Restart, Dispatched),
            (2, Restart, Pending),
            (3, Diagnostics, Pending),
        ],
        Carries::ButRestarts,
        "back [1] drop [] begin [3] send [3]",
    );
}

#[test]
fn an_upgrade_whose_binary_is_on_trial_ends_with_the_trial() {
    check(
        &[
            (1, Upgrade, Dispatched),
            (2, Restart, Pending),
            (3, Diagnostics, Pending),
        ],
        Carries::ButRestarts,
        "back [] drop [] begin [3] send [3]",
    );
}

#[test]
fn a_node_that_takes_specs_needs_no_upgrade() {
    check(
        &[
            (1, Upgrade, Dispatched),
            (2, Upgrade, Pending),
            (3, Restart, Pending),
        ],
        Carries::Everything,
        "back [] drop [1 2] begin [3] send [3]",
    );
}

#[test]
fn what_has_expired_is_not_begun() {
    let rows = [open(1, Restart, Pending), open(2, Diagnostics, Dispatched)];
    let plan = plan(&rows, Carries::Everything, Moment::from_millis(100));
    assert!(plan.begin.is_empty());
    assert_eq!(plan.send, [id(2)]);
}

/// Rows, a line that repeats and forgets, and a node with its journal.
#[derive(Default)]
struct World {
    rows: Vec<Row>,
    /// Sent, and not arrived; any of it may arrive, any number of times.
    wire: Vec<CommandId>,
    /// What the node answered, likewise.
    answers: Vec<CommandId>,
    effects: BTreeMap<CommandId, u32>,
    /// The order in which effects came, by kind.
    order: BTreeMap<&'static str, Vec<usize>>,
    carries: Option<Carries>,
}

struct Row {
    id: CommandId,
    kind: Kind,
    state: CommandState,
}

impl World {
    fn row(&mut self, id: &CommandId) -> &mut Row {
        self.rows.iter_mut().find(|row| row.id == *id).unwrap()
    }

    fn happen(&mut self, id: &CommandId, happened: Happened<'_>) {
        let row = self.row(id);
        if let Some(after) = row.state.after(&happened) {
            row.state = after;
        }
    }

    fn plan(&mut self) {
        let Some(carries) = self.carries else { return };
        let open: Vec<Open> = self
            .rows
            .iter()
            .filter(|row| row.state.is_open())
            .map(|row| Open {
                id: row.id.clone(),
                kind: row.kind,
                state: row.state,
                expires_at: Moment::from_millis(1000),
            })
            .collect();
        let plan = plan(&open, carries, NOW);
        for id in &plan.call_back {
            self.happen(id, Happened::CalledBack);
        }
        for id in &plan.withdraw {
            self.happen(id, Happened::Withdrawn);
        }
        for id in &plan.begin {
            self.happen(id, Happened::Sent);
        }
        for id in &plan.send {
            let kind = self.row(id).kind;
            assert_eq!(carries == Carries::Upgrades, kind == Upgrade, "I27");
        }
        self.wire.extend(plan.send);
    }

    fn arrive(&mut self, at: usize) {
        if self.wire.is_empty() {
            return;
        }
        let id = self.wire[at % self.wire.len()].clone();
        if !self.effects.contains_key(&id) {
            let place = self.rows.iter().position(|row| row.id == id).unwrap();
            let word = self.rows[place].kind.lane().word();
            self.order.entry(word).or_default().push(place);
        }
        // The journal: whatever comes again is answered and not done.
        self.effects.entry(id.clone()).or_insert(1);
        self.answers.push(id);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Make(u8),
    Session(bool),
    Lose,
    Arrive(usize),
    Answer(usize),
    /// Whatever is on the wire is lost.
    Cut,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0_u8..2).prop_map(Step::Make),
        any::<bool>().prop_map(Step::Session),
        Just(Step::Lose),
        any::<usize>().prop_map(Step::Arrive),
        any::<usize>().prop_map(Step::Answer),
        Just(Step::Cut),
    ]
}

proptest! {
    /// I26, I27: whatever is repeated, reordered, lost or interrupted, a command has one effect at most and one end;
    /// and once a node stays where everything is carried, all of them are done, each lane in order.
    #[test]
    fn every_command_is_done_once_and_in_order(steps in prop::collection::vec(step(), 0..120)) {
        let mut world = World::default();
        for step in steps {
            match step {
                Step::Make(kind) => {
                    let name = u8::try_from(world.rows.len()).unwrap();
                    let kind = if kind == 0 { Restart } else { Diagnostics };
                    world.rows.push(Row { id: id(name), kind, state: Pending });
                }
                Step::Session(old) => {
                    world.carries = Some(if old { Carries::Upgrades } else { Carries::Everything });
                }
                Step::Lose => world.carries = None,
                Step::Arrive(at) => world.arrive(at),
                Step::Answer(at) => {
                    if !world.answers.is_empty() {
                        let id = world.answers[at % world.answers.len()].clone();
                        world.happen(&id, Happened::Did);
                    }
                }
                Step::Cut => {
                    world.wire.clear();
                    world.answers.clear();
                }
            }
            world.plan();
            for lane in ["control", "work"] {
                let under_way = world.rows.iter()
                    .filter(|row| row.state == Dispatched && row.kind.lane().word() == lane);
                prop_assert!(under_way.count() <= 1);
            }
        }
        world.carries = Some(Carries::Everything);
        for _ in 0..world.rows.len() + 1 {
            world.plan();
            while let Some(sent) = world.wire.pop() {
                world.wire.push(sent.clone());
                world.arrive(world.wire.len() - 1);
                world.wire.retain(|id| *id != sent);
                world.happen(&sent, Happened::Did);
            }
        }
        for row in &world.rows {
            prop_assert_eq!(row.state, CommandState::Succeeded);
            prop_assert_eq!(world.effects.get(&row.id), Some(&1));
        }
        for places in world.order.values() {
            prop_assert!(places.is_sorted(), "{:?}", places);
        }
    }
}

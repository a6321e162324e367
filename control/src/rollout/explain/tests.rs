use std::time::Duration;

use bc_protocol::{
    id::{NodeId, RolloutId},
    sequence::Sequence,
};

use super::{Absence, Account, Case, Part, Reach, User, explain};
use crate::{
    api::rollout::{RolloutState, RowCounts, RowState},
    clock::Moment,
    rollout::{
        hold::Hold,
        snapshot::{Freeze, Head, Node, Presence, Scope, Tally, Terms, Trouble},
    },
};

mod every;

fn moment(text: &str) -> Moment {
    text.parse().unwrap()
}

fn node() -> Node {
    Node {
        id: NodeId::derived(&[b"n"]),
        removed: false,
        maintenance: false,
        arch: None,
        presence: Presence::Online,
        said: None,
    }
}

fn account(state: RowState) -> Account {
    Account {
        state,
        from: Some("1.0.0".parse().unwrap()),
        started_at: Some(moment("2026-11-30T10:00:00Z")),
        deadline_at: None,
        finished_at: None,
        trouble: None,
    }
}

struct Given {
    part: Part,
    hold: Option<Hold>,
    freeze: Option<Freeze>,
    state: RolloutState,
    node: Node,
    reach: Reach,
}

impl Given {
    fn of(part: Part) -> Self {
        Self {
            part,
            hold: None,
            freeze: None,
            state: RolloutState::Running,
            node: node(),
            reach: Reach::WholePools,
        }
    }

    fn held(part: Part, hold: Hold) -> Self {
        Self {
            hold: Some(hold),
            ..Self::of(part)
        }
    }
}

#[track_caller]
fn check(given: &Given, code: &str, sentence: &str) {
    let terms = Terms {
        id: RolloutId::derived(&[b"r"]),
        version: "1.1.0".parse().unwrap(),
        sequence: Sequence::new(11).unwrap(),
        max_failure_ratio: "0.05".parse().unwrap(),
        soak: Duration::from_secs(600),
        timeout: Duration::from_secs(900),
        scope: Scope::NotInMaintenance,
    };
    let head = Head {
        state: given.state,
        reason: None,
        paused_reason: None,
        wave: 0,
        wave_settled_at: None,
        accepted_failures: 0,
        accepted_untried: false,
        finished_at: None,
    };
    let open = Tally {
        started: 4,
        rows: RowCounts {
            pending: 2,
            upgrading: 1,
            succeeded: 3,
            failed: 1,
            ..RowCounts::default()
        },
    };
    let later = Tally {
        started: 0,
        rows: RowCounts {
            pending: 1,
            ..RowCounts::default()
        },
    };
    let users = ["a", "b", "c", "d", "e"].map(|name| User {
        node: NodeId::derived(&[name.as_bytes()]),
        reason: format!("wf_{name}"),
    });
    let answer = explain(Case {
        terms: &terms,
        head: &head,
        waves: &[open, later, later, Tally::default()],
        freeze: given.freeze.as_ref(),
        part: &given.part,
        hold: given.hold.as_ref(),
        users: &users,
        node: &given.node,
        reach: given.reach,
    });
    let mut said = answer.sentence;
    for user in &users {
        said = said.replace(user.node.as_str(), &user.reason[3..]);
    }
    assert_eq!((answer.code.as_str(), said.as_str()), (code, sentence));
}

fn pending(wave: u32) -> Part {
    let account = Account {
        from: None,
        started_at: None,
        ..account(RowState::Pending)
    };
    Part::Wave(wave, account)
}

#[test]
fn a_node_of_a_later_wave() {
    let text = "it waits for wave 2 of 3: wave 1 is open, and 4 of its 7 nodes have settled";
    check(&Given::of(pending(1)), "wave", text);
    let until = moment("2026-11-30T11:00:00Z");
    check(
        &Given::held(pending(1), Hold::Soaking { until }),
        "wave",
        &format!("{text}; the wave has settled and soaks until 2026-11-30T11:00:00Z"),
    );
    let paused = Hold::NotRunning {
        state: RolloutState::Paused,
        reason: Some("looks odd".into()),
    };
    let given = Given {
        state: RolloutState::Paused,
        ..Given::held(pending(1), paused)
    };
    check(
        &given,
        "paused",
        &format!("{text}; the rollout is paused because: looks odd"),
    );
}

#[test]
fn a_node_of_the_open_wave() {
    check(
        &Given::of(pending(0)),
        "next",
        "it starts with the next pass",
    );
    let budget = Hold::Budget {
        disrupted: 5,
        max: 5,
    };
    check(
        &Given::held(pending(0), budget),
        "budget",
        "it waits: 5 nodes of its pool are disrupted where 5 may be: a by wf_a, b by wf_b, c by wf_c, and 2 more",
    );
    let hold = Hold::Disrupted { by: "wf_x".into() };
    check(
        &Given::held(pending(0), hold),
        "disrupted",
        "it waits: wf_x disrupts the node already",
    );
    let hold = Hold::Offline {
        since: moment("2026-11-30T09:00:00Z"),
        skipped_at: Some(moment("2026-11-30T09:06:00Z")),
    };
    check(
        &Given::held(pending(0), hold),
        "offline",
        "it waits: the node has been offline since 2026-11-30T09:00:00Z, and is passed over at 2026-11-30T09:06:00Z",
    );
}

#[test]
fn a_frozen_fleet_is_the_first_reason() {
    let freeze = Freeze {
        reason: "incident 7".into(),
        by: "alice".into(),
        since: moment("2026-11-30T08:00:00Z"),
    };
    for (part, text) in [
        (pending(0), "it waits"),
        (pending(2), "it waits"),
        (Part::Awaited, "it is late for 1.1.0 and waits"),
    ] {
        let given = Given {
            freeze: Some(freeze.clone()),
            ..Given::of(part)
        };
        let why = "alice froze the fleet at 2026-11-30T08:00:00Z, so nothing starts: incident 7";
        check(&given, "frozen", &format!("{text}: {why}"));
    }
}

#[test]
fn a_node_in_flight() {
    let flying = Account {
        deadline_at: Some(moment("2026-11-30T10:15:00Z")),
        ..account(RowState::Upgrading)
    };
    let text = "from 1.0.0 since 2026-11-30T10:00:00Z and has time until 2026-11-30T10:15:00Z";
    check(
        &Given::of(Part::Wave(0, flying.clone())),
        "upgrading",
        &format!("it is upgrading to 1.1.0 {text}"),
    );
    let retries = Account {
        trouble: Some(Trouble::new("download", "connection reset")),
        ..flying.clone()
    };
    let mut given = Given::of(Part::Late(retries));
    given.node.presence = Presence::Offline(moment("2026-11-30T10:01:00Z"));
    check(
        &given,
        "upgrading",
        &format!(
            "it is upgrading late to 1.1.0 {text}, last error download: connection reset, and has been offline since 2026-11-30T10:01:00Z"
        ),
    );
    let back = Account {
        state: RowState::RollingBack,
        ..flying
    };
    check(
        &Given::of(Part::Wave(0, back)),
        "rolling-back",
        "it is going back from 1.1.0 to 1.0.0 since 2026-11-30T10:00:00Z and has time until 2026-11-30T10:15:00Z",
    );
}

#[test]
fn a_node_that_has_settled() {
    let settled = |state, trouble: Option<Trouble>| Account {
        finished_at: Some(moment("2026-11-30T10:05:00Z")),
        trouble,
        ..account(state)
    };
    check(
        &Given::of(Part::Wave(0, settled(RowState::Succeeded, None))),
        "succeeded",
        "it went from 1.0.0 to 1.1.0, confirmed at 2026-11-30T10:05:00Z",
    );
    let again = Account {
        from: Some("1.1.0".parse().unwrap()),
        ..settled(RowState::Succeeded, None)
    };
    check(
        &Given::of(Part::Wave(0, again)),
        "succeeded",
        "it took the release 1.1.0, and ran a 1.1.0 before, confirmed at 2026-11-30T10:05:00Z",
    );
    let already = Account {
        from: None,
        ..settled(RowState::Succeeded, None)
    };
    check(
        &Given::of(Part::Late(already)),
        "succeeded",
        "it ran 1.1.0 already, confirmed",
    );
    let failed = settled(RowState::Failed, Some(Trouble::new("crashed", "signal 11")));
    check(
        &Given::held(Part::Wave(0, failed), Hold::StillAtWork),
        "crashed",
        "upgrading to 1.1.0 failed at 2026-11-30T10:05:00Z: crashed: signal 11; the node is still at work, so its place is not free yet",
    );
    let skipped = settled(RowState::Skipped, Some(Trouble::new("floor", "too old")));
    check(
        &Given::of(Part::Wave(0, skipped)),
        "floor",
        "it was passed over at 2026-11-30T10:05:00Z: floor: too old",
    );
    check(
        &Given::of(Part::Wave(0, settled(RowState::RolledBack, None))),
        "rolled-back",
        "it went back to 1.0.0 at 2026-11-30T10:05:00Z",
    );
}

#[test]
fn a_late_node_and_one_without_a_part() {
    check(
        &Given::of(Part::Awaited),
        "late",
        "it is late for 1.1.0 and starts with one of the next passes",
    );
    check(
        &Given::held(Part::Awaited, Hold::Maintenance),
        "maintenance",
        "it is late for 1.1.0 and waits: the node is in maintenance",
    );
    check(
        &Given::of(Part::Stranger(Absence::OtherPool)),
        "other-pool",
        "it has no part in the rollout, which does not move through its pool",
    );
}

/// What stops everybody of the open wave.
#[test]
fn a_node_that_failed_gets_another_try_when_somebody_says_so() {
    let failed = Account {
        trouble: Some(Trouble::new("threshold", "")),
        ..account(RowState::Failed)
    };
    let given = Given {
        state: RolloutState::Completed,
        ..Given::of(Part::Wave(0, failed))
    };
    check(
        &given,
        "threshold",
        "upgrading to 1.1.0 failed: threshold; rollouts retry tries it again",
    );
    let narrowed = Given {
        reach: Reach::Narrowed,
        ..given
    };
    check(
        &narrowed,
        "threshold",
        "upgrading to 1.1.0 failed: threshold; only another rollout tries it again",
    );
}

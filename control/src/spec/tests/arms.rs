//! Which version a node should run, arm by arm, from rows as the service writes them.

use bc_protocol::{
    id::NodeId,
    release::Trust,
    sequence::{ReleaseFloor, Sequence},
    session::Facts,
};

use super::fleet::{BAD, Fleet};
use crate::{
    api::rollout::AbortRollout, db::query, rollout::service, rollout::tests::signed,
    spec::store::current,
};

/// What happens to a fleet of one node.
#[derive(Clone, Copy)]
enum Step {
    /// A rollout of this version is created.
    Create(&'static str),
    /// A pass is made over every rollout.
    Pass,
    /// The node does what it is told.
    Obey,
    /// The newest rollout is aborted, with rollback or without.
    Abort(bool),
    /// The node has these labels.
    Labels(&'static str),
    /// The node says something else of itself.
    Says(fn(&mut Facts)),
    /// Another node joins: from here on it is the one that is asked about.
    Joins,
}

use Step::{Abort, Create, Joins, Labels, Obey, Pass, Says};

const FLOOR_OF_11: Step = Says(|facts| facts.floor = floor(11));
const FLOOR_OF_12: Step = Says(|facts| facts.floor = floor(12));
const RUNS_NO_RELEASE: Step = Says(|facts| facts.version = "0.9.0".parse().unwrap());

fn floor(sequence: u64) -> ReleaseFloor {
    ReleaseFloor::starting_at(Sequence::new(sequence).unwrap())
}

/// The fleet after the steps, and the node that is asked about.
async fn after(steps: &[Step]) -> (Fleet, NodeId) {
    let mut fleet = Fleet::of(&[(1, 1_000_000)]).await;
    let mut node = fleet.nodes[0].clone();
    let mut newest = None;
    for step in steps {
        match step {
            Create(version) => newest = Some(fleet.create(version).await.unwrap().id),
            Pass => fleet.pass().await,
            Obey => fleet.obeys(&node).await,
            Abort(rollback) => {
                let request = AbortRollout {
                    tenant_id: "root".parse().unwrap(),
                    rollout_id: newest.clone().unwrap(),
                    reason: None,
                    rollback: *rollback,
                };
                let aborted = service::abort(&fleet.services, "alice", request).await;
                aborted.unwrap();
            }
            Labels(labels) => label(&fleet, &node, labels).await,
            Says(change) => {
                let mut facts = fleet.facts_of(&node);
                change(&mut facts);
                fleet.report(&node, facts).await;
            }
            Joins => {
                let pool = fleet.pools[0].clone();
                node = fleet.joins(&pool).await;
            }
        }
    }
    (fleet, node)
}

async fn label(fleet: &Fleet, node: &NodeId, labels: &str) {
    let mut tx = fleet.services.db.begin().await.unwrap();
    query("UPDATE nodes SET labels = $2 WHERE id = $1")
        .bind(node.as_str())
        .bind(labels)
        .execute(&mut tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
}

type Arm = (&'static str, &'static [Step], Option<&'static str>);

/// By the row of the rollout that touched it last.
const ROWS: &[Arm] = &[
    ("nobody has touched it", &[], None),
    ("its turn has not come", &[Create("1.1.0")], None),
    ("upgrading", &[Create("1.1.0"), Pass], Some("1.1.0")),
    (
        "succeeded",
        &[Create("1.1.0"), Pass, Obey, Pass],
        Some("1.1.0"),
    ),
    ("failed", &[Create(BAD), Pass, Obey, Pass], Some("1.0.0")),
    (
        "failed by an abort",
        &[Create("1.1.0"), Pass, Abort(false)],
        Some("1.0.0"),
    ),
    (
        "rolling back",
        &[Create("1.1.0"), Pass, Abort(true)],
        Some("1.0.0"),
    ),
    (
        "rolled back",
        &[Create("1.1.0"), Pass, Abort(true), Obey, Pass],
        Some("1.0.0"),
    ),
    ("skipped by an abort", &[Create("1.1.0"), Abort(true)], None),
    // The newer row decides, also where the older rollout has completed.
    (
        "failed after a success",
        &[
            Create("1.1.0"),
            Pass,
            Obey,
            Pass,
            Create(BAD),
            Pass,
            Obey,
            Pass,
        ],
        Some("1.1.0"),
    ),
    (
        "skipped by an abort after a success",
        &[Create("1.1.0"), Pass, Obey, Pass, Create(BAD), Abort(false)],
        Some("1.1.0"),
    ),
];

/// By the rollout that its pool has completed.
const LATE: &[Arm] = &[
    (
        "nothing has completed",
        &[Create("1.1.0"), Pass, Joins],
        None,
    ),
    (
        "late, and not started",
        &[Create("1.1.0"), Pass, Obey, Pass, Joins],
        None,
    ),
    (
        "late, and started",
        &[Create("1.1.0"), Pass, Obey, Pass, Joins, Pass],
        Some("1.1.0"),
    ),
    (
        "late, and arrived",
        &[Create("1.1.0"), Pass, Obey, Pass, Joins, Pass, Obey, Pass],
        Some("1.1.0"),
    ),
    (
        "an aborted one does not count",
        &[Create("1.1.0"), Pass, Abort(false), Joins, Pass],
        None,
    ),
];

/// A version is chosen, and there is no section for it.
const WITHOUT: &[Arm] = &[
    (
        "it ran no release before",
        &[RUNS_NO_RELEASE, Create(BAD), Pass, Obey, Pass],
        None,
    ),
    (
        "what it ran is below its floor",
        &[Create(BAD), Pass, FLOOR_OF_11, Obey, Pass],
        None,
    ),
    (
        "its floor is past the rollout's release",
        &[Create("1.1.0"), Pass, FLOOR_OF_12],
        None,
    ),
    (
        "its floor is the rollout's release",
        &[Create("1.1.0"), Pass, FLOOR_OF_11],
        Some("1.1.0"),
    ),
    ("no processor", &[Create("1.1.0"), Pass, Labels("{}")], None),
    (
        "a processor by its other name",
        &[Create("1.1.0"), Pass, Labels(r#"{"cpu.arch":"amd64"}"#)],
        Some("1.1.0"),
    ),
    (
        "a processor that the release has nothing for",
        &[Create("1.1.0"), Pass, Labels(r#"{"cpu.arch":"aarch64"}"#)],
        None,
    ),
    (
        "a processor that nobody knows",
        &[Create("1.1.0"), Pass, Labels(r#"{"cpu.arch":"riscv64"}"#)],
        None,
    ),
];

async fn check(arms: &[Arm]) {
    for (name, steps, expected) in arms {
        let (fleet, node) = after(steps).await;
        let spec = fleet.spec(&node).await;
        let version = spec.daemon.map(|section| section.version.to_string());
        assert_eq!(version.as_deref(), *expected, "{name}");
    }
}

#[tokio::test]
async fn the_newest_row_that_touched_the_node_decides() {
    check(ROWS).await;
}

#[tokio::test]
async fn what_the_pool_has_completed_decides_where_no_newer_row_does() {
    check(LATE).await;
}

#[tokio::test]
async fn a_version_that_the_node_cannot_run_gives_no_section() {
    check(WITHOUT).await;
}

#[tokio::test]
async fn a_release_that_todays_pins_do_not_cover_gives_no_section() {
    let (fleet, node) = after(&[Create("1.1.0"), Pass]).await;
    let nobodys = Trust::new([bc_protocol::digest::Pin::of_spki(b"nobody's")], 1).unwrap();
    for (trust, expected) in [(signed::trust(), true), (nobodys, false)] {
        let spec = current(&fleet.services.db, &node, &trust, "http://127.0.0.1/d").await;
        assert_eq!(spec.unwrap().unwrap().daemon.is_some(), expected);
    }
}

/// "Newer" is the order of creation, whoever's clock was ahead.
#[tokio::test]
async fn a_rollout_is_newer_than_what_a_clock_that_was_ahead_has_created() {
    let (mut fleet, node) = after(&[Create("1.1.0"), Pass, Obey, Pass]).await;
    let mut tx = fleet.services.db.begin().await.unwrap();
    query("UPDATE rollouts SET created_at = created_at + 3600000")
        .execute(&mut tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let newer = fleet.create(BAD).await.unwrap();
    let listed = fleet.list().await;
    assert_eq!(listed[0].id, newer.id);
    assert!(listed[0].created_at > listed[1].created_at);
    fleet.pass().await;
    let section = fleet.spec(&node).await.daemon.unwrap();
    assert_eq!(section.version.as_str(), BAD);
    fleet.obeys(&node).await;
    fleet.pass().await;
    let section = fleet.spec(&node).await.daemon.unwrap();
    assert_eq!(section.version.as_str(), "1.1.0", "what it ran before");
}

/// A control that was restored from a copy does not know what its nodes have seen since.
#[tokio::test]
async fn a_generation_is_past_whatever_the_node_has_seen() {
    let ahead: &[Step] = &[
        Says(|facts| facts.observed_generation = 40),
        Create("1.1.0"),
        Pass,
    ];
    let (mut fleet, node) = after(ahead).await;
    let told = fleet.spec(&node).await;
    assert_eq!(told.generation, 41);
    assert!(told.daemon.is_some());
    fleet.obeys(&node).await;
    assert_eq!(fleet.runs(&node), ("1.1.0".to_owned(), 11));
}

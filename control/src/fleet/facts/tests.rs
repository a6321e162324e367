mod given;
mod told;
mod upgraded;

use bc_protocol::{
    digest::Sha256,
    id::{AttemptId, GatewayId, NodeId, SessionId},
    link::{Event, NodeReport, SessionClosed, SessionOpened},
    sequence::{ReleaseFloor, Sequence},
    session::{AttemptFacts, Facts, Outcome},
};
use proptest::prelude::*;

use given::{give, send};

use super::{Applied, apply, link_closed, link_opened};
use crate::{
    clock::Moment,
    db::{Db, query, query_scalar, tests::fresh},
};

const NOW: Moment = Moment::from_millis(1_790_000_000_000);

fn node() -> NodeId {
    NodeId::derived(&[b"node"])
}

fn gateway(name: &str) -> GatewayId {
    GatewayId::derived(&[name.as_bytes()])
}

fn session(connect_seq: u64) -> SessionId {
    SessionId::derived(&[&connect_seq.to_be_bytes()])
}

/// One node in one pool, and two gateways.
async fn fleet() -> (Db, tempfile::TempDir) {
    let (db, dir) = fresh().await;
    let mut tx = db.begin().await.unwrap();
    for statement in [
        "INSERT INTO pools (id, tenant, name, budget_ppm, nodes, created_at) VALUES ('p', 'root', 'p', 0, 1, 0)",
        "INSERT INTO join_tokens (id, tenant, pool_id, secret_sha256, uses_max, expires_at, created_at, created_by)
         VALUES ('t', 'root', 'p', cast('' AS BLOB), 1, 0, 0, 'x')",
    ] {
        query(statement).execute(&mut *tx).await.unwrap();
    }
    query(
        "INSERT INTO nodes (id, tenant, pool_id, join_token_id, spki, labels, joined_at)
         VALUES ($1, 'root', 'p', 't', cast('' AS BLOB), '{}', 0)",
    )
    .bind(node().as_str())
    .execute(&mut *tx)
    .await
    .unwrap();
    for name in ["a", "b"] {
        query(
            "INSERT INTO gateways (id, name, url, token_sha256, token_expires_at, created_at, created_by)
             VALUES ($1, $2, 'wss://x/session', cast('' AS BLOB), 0, 0, 'x')",
        )
        .bind(gateway(name).as_str())
        .bind(name)
        .execute(&mut *tx)
        .await
        .unwrap();
    }
    tx.commit().await.unwrap();
    (db, dir)
}

fn facts(generation: u64) -> Facts {
    Facts {
        version: "1.0.0".parse().unwrap(),
        platform: "linux-amd64".parse().unwrap(),
        boot_id: "boot".to_owned(),
        slot: None,
        sequence: Sequence::PACKAGED,
        digest: Sha256::of(b"x"),
        floor: ReleaseFloor::NONE,
        trial: None,
        last_attempt: None,
        progress: None,
        observed_generation: generation,
        held: None,
        notice: None,
        helper: None,
        started: None,
    }
}

fn attempt(name: &str, outcome: Outcome, is_final: bool) -> Facts {
    let last_attempt = AttemptFacts {
        id: AttemptId::derived(&[name.as_bytes()]),
        target: "1.1.0".to_owned(),
        outcome,
        is_final,
        tries: 1,
        code: "x".to_owned(),
        message: "x".to_owned(),
        exit_status: None,
        signal: None,
        log: String::new(),
    };
    Facts {
        last_attempt: Some(last_attempt),
        ..facts(1)
    }
}

fn opened(connect_seq: u64) -> Event {
    opened_with(connect_seq, 0, facts(connect_seq * 100))
}

fn opened_with(connect_seq: u64, report: u64, facts: Facts) -> Event {
    Event::Opened(SessionOpened {
        node: node(),
        session: session(connect_seq),
        connect_seq,
        protocol: 1,
        upgrade_only: connect_seq.is_multiple_of(2),
        report,
        facts,
        labels: [("hello".to_owned(), connect_seq.to_string())].into(),
        company: None,
    })
}

fn report(connect_seq: u64, report: u64) -> Event {
    report_with(connect_seq, report, facts(connect_seq * 100 + report))
}

fn report_with(connect_seq: u64, report: u64, facts: Facts) -> Event {
    Event::Report(NodeReport {
        node: node(),
        session: session(connect_seq),
        connect_seq,
        report,
        facts,
    })
}

fn closed(connect_seq: u64) -> Event {
    Event::Closed(SessionClosed {
        node: node(),
        session: session(connect_seq),
        connect_seq,
        reason: "x".to_owned(),
    })
}

async fn say(db: &Db, from: &str, events: &[Event]) -> Applied {
    let mut tx = db.begin().await.unwrap();
    let applied = apply(&mut tx, &gateway(from), events, NOW).await.unwrap();
    tx.commit().await.unwrap();
    applied
}

async fn link(db: &Db, from: &str) -> u64 {
    let mut tx = db.begin().await.unwrap();
    let number = link_opened(&mut tx, &gateway(from), NOW).await.unwrap();
    tx.commit().await.unwrap();
    number.unwrap()
}

/// Connection, report, what was observed, online, upgrade-only, labels: all that facts leave behind.
async fn state(db: &Db) -> Option<(i64, i64, i64, bool, bool, String)> {
    let row = query(
        "SELECT f.*, n.labels FROM node_facts f JOIN nodes n ON n.id = f.node_id WHERE n.id = $1",
    )
    .bind(node().as_str())
    .fetch_optional(db.reader())
    .await
    .unwrap()?;
    Some((
        row.get("connect_seq"),
        row.get("report"),
        row.get("observed_generation"),
        row.get("online"),
        row.get("upgrade_only"),
        row.get("labels"),
    ))
}

async fn online(db: &Db) -> bool {
    state(db).await.unwrap().3
}

async fn events(db: &Db) -> Vec<String> {
    query_scalar("SELECT type FROM events ORDER BY position")
        .fetch_all(db.reader())
        .await
        .unwrap()
}

#[tokio::test]
async fn a_session_comes_reports_and_goes() {
    let (db, _dir) = fleet().await;
    say(&db, "a", &[opened(1), report(1, 1), report(1, 2)]).await;
    let labels = "{\"hello\":\"1\"}".to_owned();
    assert_eq!(state(&db).await, Some((1, 2, 102, true, false, labels)));
    say(&db, "a", &[closed(1)]).await;
    assert!(!online(&db).await);
    assert_eq!(events(&db).await, ["node.online", "node.offline"]);
}

// I35
#[tokio::test]
async fn a_late_report_of_an_older_session_changes_nothing() {
    let (db, _dir) = fleet().await;
    say(&db, "a", &[opened(1), opened(2)]).await;
    let before = state(&db).await;
    let applied = say(&db, "b", &[report(1, 9), closed(1)]).await;
    assert_eq!(state(&db).await, before);
    assert!(applied.changed.is_empty());
    let [superseded] = applied.superseded.as_slice() else {
        panic!("{applied:?}");
    };
    assert_eq!((superseded.connect_seq, superseded.winning), (1, 2));
}

#[tokio::test]
async fn a_second_session_with_the_same_number_is_told_to_count_on() {
    let (db, _dir) = fleet().await;
    say(&db, "a", &[opened(3)]).await;
    let Event::Opened(mut twin) = opened_with(3, 7, facts(999)) else {
        unreachable!()
    };
    twin.session = SessionId::derived(&[b"twin"]);
    let end = Event::Closed(SessionClosed {
        node: node(),
        session: twin.session.clone(),
        connect_seq: 3,
        reason: String::new(),
    });
    let applied = say(&db, "b", &[Event::Opened(twin), end]).await;
    assert_eq!(applied.superseded.first().map(|lost| lost.winning), Some(3));
    // The first one lives on, also when the second has been closed.
    assert_eq!(
        state(&db).await.map(|state| (state.1, state.3)),
        Some((0, true))
    );
    say(&db, "a", &[opened(3)]).await;
    assert!(online(&db).await);
}

// I30: one event, however often its cause is told.
#[tokio::test]
async fn a_batch_that_comes_again_is_no_news() {
    let (db, _dir) = fleet().await;
    let batch = [
        opened(1),
        report_with(1, 1, attempt("x", Outcome::Crashed, true)),
        closed(1),
    ];
    say(&db, "a", &batch).await;
    let once = (state(&db).await, events(&db).await);
    say(&db, "a", &batch).await;
    assert_eq!((state(&db).await, events(&db).await), once);
}

#[tokio::test]
async fn sessions_that_a_new_link_does_not_name_have_ended() {
    let (db, _dir) = fleet().await;
    link(&db, "a").await;
    say(&db, "a", &[opened(1), Event::Listed]).await;
    assert!(online(&db).await);
    // The gateway lost its link and still holds the session.
    link(&db, "a").await;
    say(&db, "a", &[opened(1), Event::Listed]).await;
    assert!(online(&db).await);
    // It was killed and holds nothing.
    link(&db, "a").await;
    let applied = say(&db, "a", &[Event::Listed]).await;
    assert!(!online(&db).await && applied.changed.contains(&node()));
    assert_eq!(events(&db).await, ["node.online", "node.offline"]);
    // It was only slow: the session is named again, and lives.
    say(&db, "a", &[opened(1)]).await;
    assert!(online(&db).await);
}

#[tokio::test]
async fn another_gateways_list_takes_no_node_away() {
    let (db, _dir) = fleet().await;
    link(&db, "a").await;
    say(&db, "a", &[opened(1)]).await;
    link(&db, "b").await;
    say(&db, "b", &[opened(2), Event::Listed]).await;
    link(&db, "a").await;
    say(&db, "a", &[Event::Listed]).await;
    assert!(online(&db).await);
}

#[tokio::test]
async fn only_the_newest_link_of_a_gateway_ends_it() {
    let (db, _dir) = fleet().await;
    let first = link(&db, "a").await;
    let second = link(&db, "a").await;
    for (number, linked) in [(first, true), (second, false)] {
        let mut tx = db.begin().await.unwrap();
        link_closed(&mut tx, &gateway("a"), number, NOW)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        let found: bool = query_scalar("SELECT linked FROM gateways WHERE name = 'a'")
            .fetch_one(db.reader())
            .await
            .unwrap();
        assert_eq!(found, linked);
    }
}

#[tokio::test]
async fn strangers_and_removed_nodes_are_named_and_not_stored() {
    let (db, _dir) = fleet().await;
    let mut tx = db.begin().await.unwrap();
    query("UPDATE nodes SET removed_at = 1")
        .execute(&mut *tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let applied = say(&db, "a", &[opened(1)]).await;
    assert!(applied.strangers.contains(&node()));
    assert_eq!(state(&db).await, None);
}

#[tokio::test]
async fn a_hello_without_labels_keeps_those_that_are_known() {
    let (db, _dir) = fleet().await;
    let Event::Opened(mut bare) = opened(2) else {
        unreachable!()
    };
    bare.labels.clear();
    say(&db, "a", &[opened(1), Event::Opened(bare)]).await;
    assert_eq!(state(&db).await.unwrap().5, "{\"hello\":\"1\"}");
}

/// Three sessions with reports; the last may have ended.
fn story(last_has_ended: bool) -> Vec<Event> {
    let mut story = Vec::new();
    for connect_seq in 1..=3 {
        story.push(opened(connect_seq));
        story.extend((1..=3).map(|number| report(connect_seq, number)));
        if connect_seq < 3 || last_has_ended {
            story.push(closed(connect_seq));
        }
    }
    story
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_order_and_repetition_ends_in_the_same_state(
        last_has_ended: bool,
        (order, batch) in (
            proptest::collection::vec(0_usize..1000, 15..40),
            1_usize..6,
        ),
        shuffled in Just((0..15).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let story = story(last_has_ended);
            // Every event at least once, in any order, with any of them again in between.
            let indexes = shuffled.iter().chain(&order).map(|index| index % story.len());
            let told: Vec<Event> = indexes.map(|index| story[index].clone()).collect();
            let (db, _dir) = fleet().await;
            for (number, batch) in told.chunks(batch).enumerate() {
                say(&db, if number % 2 == 0 { "a" } else { "b" }, batch).await;
            }
            let labels = "{\"hello\":\"3\"}".to_owned();
            let expected = Some((3, 3, 303, !last_has_ended, false, labels));
            assert_eq!(state(&db).await, expected, "{told:?}");
        });
    }
}

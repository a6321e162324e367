//! From which version a node came, and that each of its attempts is told of once.

use bc_protocol::session::{Slot, TrialFacts};
use serde_json::Value;

use super::{
    AttemptId, Db, Event, Facts, Outcome, ReleaseFloor, Sequence, Sha256, attempt, closed, facts,
    fleet, give, opened, opened_with, query, report_with, say, send,
};
use crate::db::{Tx, tests::upgraded};

/// What runs in a trial of an attempt.
fn on_trial(name: &str, version: &str) -> Facts {
    let running = attempt(name, Outcome::Running, false);
    let trial = TrialFacts {
        slot: Slot::B,
        sequence: Sequence::PACKAGED,
        digest: Sha256::of(b"x"),
        attempt: AttemptId::derived(&[name.as_bytes()]),
        starts: 1,
    };
    Facts {
        version: version.parse().unwrap(),
        trial: Some(trial),
        ..running
    }
}

fn ended(name: &str, version: &str, outcome: Outcome) -> Facts {
    Facts {
        version: version.parse().unwrap(),
        floor: ReleaseFloor::NONE,
        ..attempt(name, outcome, true)
    }
}

/// What was told of attempts: type, version and the one before.
async fn told(db: &Db) -> Vec<(String, String, Option<String>)> {
    let rows =
        query("SELECT type, data FROM events WHERE type LIKE 'node.upgrade%' ORDER BY position")
            .fetch_all(db.reader())
            .await
            .unwrap();
    rows.iter()
        .map(|row| {
            let data: Value = serde_json::from_str(&row.get::<String>("data")).unwrap();
            let version = data["version"].as_str().unwrap().to_owned();
            let before = data["versionBefore"].as_str().map(str::to_owned);
            (row.get("type"), version, before)
        })
        .collect()
}

fn upgrade(version: &str, before: &str) -> (String, String, Option<String>) {
    (
        "node.upgraded".to_owned(),
        version.to_owned(),
        Some(before.to_owned()),
    )
}

fn failure(version: &str, before: &str) -> (String, String, Option<String>) {
    let (_, version, before) = upgrade(version, before);
    ("node.upgrade-failed".to_owned(), version, before)
}

#[tokio::test]
async fn the_version_before_is_the_last_that_ran_without_a_trial() {
    let (db, _dir) = fleet().await;
    give(&db, &["a", "b", "c"]).await;
    let story = [
        opened(1),
        closed(1),
        // The trial has sessions of its own, and reports in them.
        opened_with(2, 0, on_trial("a", "1.1.0")),
        report_with(2, 1, on_trial("a", "1.1.0")),
        closed(2),
        opened_with(3, 0, on_trial("a", "1.1.0")),
        report_with(3, 1, ended("a", "1.1.0", Outcome::Confirmed)),
        // The next one goes back.
        opened_with(4, 0, on_trial("b", "1.2.0")),
        opened_with(5, 0, ended("b", "1.1.0", Outcome::Crashed)),
        // Nothing was heard of the third until it had ended.
        opened_with(6, 0, ended("c", "1.3.0", Outcome::Confirmed)),
    ];
    for event in story {
        say(&db, "a", &[event]).await;
    }
    let expected = [
        upgrade("1.1.0", "1.0.0"),
        failure("1.1.0", "1.1.0"),
        upgrade("1.3.0", "1.1.0"),
    ];
    assert_eq!(told(&db).await, expected);
}

#[tokio::test]
async fn of_a_node_first_seen_in_a_trial_no_version_before_is_known() {
    let (db, _dir) = fleet().await;
    give(&db, &["a"]).await;
    let story = [
        opened_with(1, 0, on_trial("a", "1.1.0")),
        report_with(1, 1, ended("a", "1.1.0", Outcome::Confirmed)),
    ];
    say(&db, "a", &story).await;
    let expected = ("node.upgraded".to_owned(), "1.1.0".to_owned(), None);
    assert_eq!(told(&db).await, [expected]);
}

/// A node that refuses a release speaks of its last attempt again: that one was told.
#[tokio::test]
async fn an_attempt_is_told_once_whatever_ends_in_between() {
    let (db, _dir) = fleet().await;
    give(&db, &["a", "b", "c", "d"]).await;
    let story = |connect_seq| -> Vec<Event> {
        let a = || ended("a", "1.1.0", Outcome::Confirmed);
        let running = attempt("b", Outcome::Running, false);
        let said = [
            a(),
            running,
            a(),
            ended("b", "1.1.0", Outcome::Refused),
            a(),
            ended("c", "1.1.0", Outcome::Refused),
            ended("d", "1.1.0", Outcome::Refused),
            a(),
        ];
        let reports = (1..).zip(said);
        let reports = reports.map(|(number, facts)| report_with(connect_seq, number, facts));
        std::iter::once(opened_with(connect_seq, 0, facts(1)))
            .chain(reports)
            .collect()
    };
    for event in story(1) {
        say(&db, "a", &[event]).await;
    }
    let kinds = |told: Vec<(String, String, Option<String>)>| -> Vec<String> {
        told.into_iter().map(|(kind, ..)| kind).collect()
    };
    let expected = [
        "node.upgraded",
        "node.upgrade-failed",
        "node.upgrade-failed",
        "node.upgrade-failed",
    ];
    assert_eq!(kinds(told(&db).await), expected);
    // A gateway that is linked again repeats them, and a new process of the node's all in one batch.
    say(&db, "a", &story(1)).await;
    say(&db, "b", &story(2)).await;
    assert_eq!(kinds(told(&db).await), expected);
}

/// Nodes forget, and control does not keep every id: the list is bounded, and holds the newest.
#[tokio::test]
async fn what_was_told_of_a_node_stays_short() {
    let (db, _dir) = fleet().await;
    say(&db, "a", &[opened(1)]).await;
    for number in 1..=20_u64 {
        send(&db, &number.to_string()).await;
        let facts = ended(&number.to_string(), "1.0.0", Outcome::Refused);
        say(&db, "a", &[report_with(1, number, facts)]).await;
    }
    let row = query("SELECT attempts FROM attempts_told")
        .fetch_one(db.reader())
        .await
        .unwrap();
    let kept: String = row.get("attempts");
    let newest = AttemptId::derived(&[b"20"]);
    assert!(
        kept.len() <= 456 && kept.starts_with(newest.as_str()),
        "{kept}"
    );
    let sixteenth = AttemptId::derived(&[b"16"]);
    assert!(kept.contains(sixteenth.as_str()), "{kept}");
}

/// A database of the schema before, with one node in the middle of a trial, whose upgrade before that was told.
const BEFORE: &str = "
    INSERT INTO pools (id, tenant, name, budget_ppm, nodes, created_at) VALUES ('p', 'root', 'p', 0, 1, 0);
    INSERT INTO join_tokens (id, tenant, pool_id, secret_sha256, uses_max, expires_at, created_at, created_by)
        VALUES ('t', 'root', 'p', cast('' AS BLOB), 1, 0, 0, 'x');
    INSERT INTO nodes (id, tenant, pool_id, join_token_id, spki, labels, joined_at)
        VALUES ('NODE', 'root', 'p', 't', cast('' AS BLOB), '{}', 0);
    INSERT INTO daemon_releases (id, version, sequence, published, registered_at, registered_by)
        VALUES ('r', '1.1.0', 2, cast('' AS BLOB), 0, 'x');
    INSERT INTO rollouts (id, tenant, version, state, wave, max_failure_ppm, soak_ms, timeout_ms, narrowed, maintenance,
                          created_at, created_by, updated_at)
        VALUES ('o', 'root', '1.1.0', 'running', 0, 0, 0, 0, 0, 0, 0, 'x', 0);
    INSERT INTO rollout_rows (rollout, node, place, pool, wave, state)
        SELECT o.number, n.number, 0, p.number, 0, 'upgrading' FROM rollouts o, nodes n, pools p;
    INSERT INTO rollout_notes (rollout, node, from_version, attempt) SELECT o.number, n.number, '1.0.0', 'TRIAL'
        FROM rollouts o, nodes n;
    INSERT INTO node_facts (node_id, connect_seq, report, session_id, gateway_id, link, upgrade_only, online, since,
                            version, sequence, digest, floor, trial_attempt, attempt_id, attempt_outcome, attempt_final,
                            observed_generation, facts, reported_at)
        VALUES ('NODE', 1, 0, 's', 'g', 0, 0, 1, 0, '1.1.0', 2, 'd', 0, 'TRIAL', 'TRIAL', 'running', 0, 1, '{}', 0);
    INSERT INTO events (position, id, type, subject, tenant, actor, data, at)
        VALUES (1, 'e', 'node.upgraded', 'node/NODE', 'root', 'x', '{\"attempt\": \"TOLD\"}', 0);";

#[tokio::test]
async fn a_database_from_before_is_brought_along_with_a_node_in_a_trial() {
    let script = BEFORE
        .replace("NODE", super::node().as_str())
        .replace("TRIAL", AttemptId::derived(&[b"b"]).as_str())
        .replace("TOLD", AttemptId::derived(&[b"a"]).as_str());
    let (db, _dir) = upgraded(2, script.leak()).await;
    let mut tx = db.begin().await.unwrap();
    forget_events(&mut tx).await;
    tx.commit().await.unwrap();
    send(&db, "a").await;
    let story = [
        opened_with(2, 0, on_trial("b", "1.1.0")),
        report_with(2, 1, ended("b", "1.1.0", Outcome::Confirmed)),
        // What was told before the upgrade stays told.
        report_with(2, 2, ended("a", "1.1.0", Outcome::Confirmed)),
    ];
    for event in story {
        say(&db, "a", &[event]).await;
    }
    assert_eq!(told(&db).await, [upgrade("1.1.0", "1.0.0")]);
}

async fn forget_events(tx: &mut Tx) {
    query("DELETE FROM events").execute(tx).await.unwrap();
}

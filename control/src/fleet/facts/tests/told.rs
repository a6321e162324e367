//! What sessions and reports are told as: type by type, with subject, actor and data.

use serde_json::{Value, json};

use super::{
    AttemptId, Db, Event, Facts, Outcome, attempt, closed, events, facts, fleet, give, link, node,
    opened, opened_with, query, report_with, say, send,
};

/// The events so far, each as its type and what it says.
async fn told(db: &Db) -> Vec<(String, Value)> {
    let rows = query("SELECT * FROM events ORDER BY position")
        .fetch_all(db.reader())
        .await
        .unwrap();
    let subject = format!("node/{}", node());
    rows.iter()
        .map(|row| {
            let text = |name: &str| row.try_get::<String>(name).unwrap();
            // The node itself is the cause, and its pool's tenant hears of it.
            assert_eq!(
                (text("subject"), text("actor")),
                (subject.clone(), subject.clone())
            );
            assert_eq!(text("tenant"), "root");
            // No call of anybody's has caused it.
            assert_eq!(row.try_get::<Option<String>>("request").unwrap(), None);
            let data = serde_json::from_str(&text("data")).unwrap();
            (text("type"), data)
        })
        .collect()
}

fn daemon(connect_seq: u64, started: u8) -> Event {
    let facts = Facts {
        started: Some([started; 16].into()),
        ..facts(connect_seq)
    };
    opened_with(connect_seq, 0, facts)
}

#[tokio::test]
async fn each_type_says_what_it_is_about() {
    let (db, _dir) = fleet().await;
    link(&db, "a").await;
    give(&db, &["bad", "good"]).await;
    let upgraded = Facts {
        version: "1.1.0".parse().unwrap(),
        ..attempt("good", Outcome::Confirmed, true)
    };
    let batch = [
        opened(1),
        report_with(1, 1, attempt("bad", Outcome::Crashed, true)),
        report_with(1, 2, upgraded),
        closed(1),
    ];
    say(&db, "a", &batch).await;
    let ended = |name: &str, outcome: &str, version: &str| {
        json!({
            "attempt": AttemptId::derived(&[name.as_bytes()]),
            "target": "1.1.0",
            "version": version,
            "versionBefore": "1.0.0",
            "outcome": outcome,
            "code": "x",
            "message": "x",
        })
    };
    let expected = [
        ("node.online".to_owned(), json!({})),
        (
            "node.upgrade-failed".to_owned(),
            ended("bad", "crashed", "1.0.0"),
        ),
        (
            "node.upgraded".to_owned(),
            ended("good", "confirmed", "1.1.0"),
        ),
        ("node.offline".to_owned(), json!({})),
    ];
    assert_eq!(told(&db).await, expected);
}

#[tokio::test]
async fn a_clone_is_told_with_what_finds_it() {
    let (db, _dir) = fleet().await;
    link(&db, "a").await;
    let Event::Opened(mut back) = daemon(3, 1) else {
        unreachable!()
    };
    back.labels.insert("hostname".to_owned(), "twin".to_owned());
    let batch = [daemon(1, 1), daemon(2, 2), Event::Opened(back)];
    say(&db, "a", &batch).await;
    let told = told(&db).await;
    let (kind, data) = told.last().unwrap();
    assert_eq!(kind, "node.duplicate");
    let expected = json!({ "connectSeq": 3, "bootId": "boot", "hostname": "twin" });
    assert_eq!(*data, expected);
    assert_eq!(told.len(), 2, "{told:?}");
}

/// Every outcome that an attempt may end with, and what is told of it.
#[tokio::test]
async fn every_outcome_is_told_as_one_of_two_or_not_at_all() {
    for (outcome, expected) in [
        (Outcome::Confirmed, Some("node.upgraded")),
        (Outcome::Refused, Some("node.upgrade-failed")),
        (Outcome::Failed, Some("node.upgrade-failed")),
        (Outcome::Crashed, Some("node.upgrade-failed")),
        (Outcome::Hung, Some("node.upgrade-failed")),
        (Outcome::NoWelcome, Some("node.upgrade-failed")),
        (Outcome::Unstable, Some("node.upgrade-failed")),
        (Outcome::Environment, Some("node.upgrade-failed")),
        (Outcome::Cancelled, None),
    ] {
        let (db, _dir) = fleet().await;
        give(&db, &["x"]).await;
        // One that will be tried again is no end of anything.
        let facts = [false, true].map(|is_final| attempt("x", outcome, is_final));
        let [first, last] = facts;
        let mut batch = vec![opened(1)];
        if outcome != Outcome::Confirmed {
            batch.push(report_with(1, 1, first));
        }
        batch.push(report_with(1, 2, last));
        say(&db, "a", &batch).await;
        let kinds: Vec<String> = told(&db).await.into_iter().map(|(kind, _)| kind).collect();
        let mut wanted = vec!["node.online".to_owned()];
        wanted.extend(expected.map(str::to_owned));
        assert_eq!(kinds, wanted, "{outcome:?}");
    }
}

#[tokio::test]
async fn an_attempt_that_ends_is_told_once() {
    let (db, _dir) = fleet().await;
    give(&db, &["x", "y", "z"]).await;
    let batch = [
        opened(1),
        report_with(1, 1, attempt("x", Outcome::Failed, false)),
        report_with(1, 2, attempt("x", Outcome::Failed, true)),
        report_with(1, 3, attempt("x", Outcome::Failed, true)),
        report_with(1, 4, attempt("y", Outcome::Cancelled, true)),
        report_with(1, 5, attempt("z", Outcome::Confirmed, true)),
        opened_with(2, 0, attempt("z", Outcome::Confirmed, true)),
    ];
    say(&db, "a", &batch).await;
    assert_eq!(
        events(&db).await,
        ["node.online", "node.upgrade-failed", "node.upgraded"]
    );
}

/// Who holds a node's credential says what they like, as often as reports are taken.
#[tokio::test]
async fn an_attempt_that_nobody_gave_the_node_is_told_to_nobody() {
    let (db, _dir) = fleet().await;
    give(&db, &["0", "1", "2", "3", "4"]).await;
    send(&db, "sent").await;
    say(&db, "a", &[opened(1)]).await;
    let mut number = 0;
    for _ in 0..3 {
        // Its own ones, of which four count beside the one that it is sent, and many that it has made up.
        for name in ["0", "1", "2", "3", "4", "sent"] {
            for made_up in 0..10 {
                number += 2;
                let made_up = format!("{number}-{made_up}");
                let batch = [
                    report_with(1, number - 1, attempt(name, Outcome::Failed, true)),
                    report_with(1, number, attempt(&made_up, Outcome::Crashed, true)),
                ];
                say(&db, "a", &batch).await;
            }
        }
    }
    let mut expected = vec!["node.online"];
    expected.extend(["node.upgrade-failed"; 5]);
    assert_eq!(events(&db).await, expected);
}

#[tokio::test]
async fn two_daemons_with_one_credential_are_told_of_now_and_then() {
    let (db, _dir) = fleet().await;
    link(&db, "a").await;
    let of = |connect_seq, daemon| {
        let started = Some([daemon; 16].into());
        let facts = Facts {
            started,
            ..facts(connect_seq)
        };
        opened_with(connect_seq, 0, facts)
    };
    // A daemon that starts again, and loses its session in between.
    say(
        &db,
        "a",
        &[of(1, 1), of(2, 1), of(3, 2), of(4, 2), of(5, 3)],
    )
    .await;
    assert_eq!(events(&db).await, ["node.online"]);
    // One that comes back after another was there has never ended.
    say(&db, "a", &[of(6, 2)]).await;
    assert_eq!(events(&db).await, ["node.online", "node.duplicate"]);
    say(&db, "a", &[of(7, 3), of(8, 2), of(9, 3)]).await;
    assert_eq!(events(&db).await, ["node.online", "node.duplicate"]);
}

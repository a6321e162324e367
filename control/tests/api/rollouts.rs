//! Rollouts as callers see them.

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    joining::{join_token, joined},
    server::{Release, Server},
};

/// I28: as many equal calls at once as a client's retries may make, over one socket each.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_equal_creates_at_once_make_one() {
    let server = Server::start();
    server.register(&Release::new("1.1.0", 2).manifest()).await;
    let pool = server.pool("edge").await;
    let token = join_token(&server, &pool, 3, 60.0).await;
    for _ in 0..3 {
        joined(&server, &token).await;
    }
    let request = json!({ "tenantId": "root", "version": "1.1.0", "idempotencyKey": "bcd-1.1.0" });
    let mut calls = JoinSet::new();
    for _ in 0..100 {
        let call = server.post("rollouts/create", &server.admin).json(&request);
        calls.spawn(async move {
            let answer = call.send().await.unwrap();
            let status = answer.status();
            (status, answer.json::<Value>().await.unwrap())
        });
    }
    let answers = calls.join_all().await;
    let (status, first) = &answers[0];
    assert_eq!(*status, StatusCode::OK, "{first}");
    for answer in &answers {
        assert_eq!(answer, &answers[0]);
    }
    let list = json!({ "tenantId": "root" });
    let listed = server.call("rollouts/list", list.clone()).await;
    assert_eq!(listed["rollouts"].as_array().unwrap().len(), 1);
    let started = json!({ "tenantId": "root", "types": ["rollout.started"] });
    let started = server.call("events/list", started).await;
    let started = started["events"].as_array().unwrap();
    assert_eq!(started.len(), 1, "{started:?}");
    assert_eq!(
        started[0]["subject"],
        format!("rollout/{}", first["id"].as_str().unwrap())
    );
    // Under the same key another version is another wish.
    server.register(&Release::new("1.2.0", 3).manifest()).await;
    let other = json!({ "tenantId": "root", "version": "1.2.0", "idempotencyKey": "bcd-1.1.0" });
    let refused = server.refused("rollouts/create", other).await;
    assert_eq!(refused["code"], "CONFLICT", "{refused}");
}

/// A fleet of so many nodes that have joined and never had a session, and a registered release.
async fn fleet(server: &Server, nodes: u32) -> String {
    server.register(&Release::new("1.0.0", 1).manifest()).await;
    let pool = server.pool("edge").await;
    let token = join_token(server, &pool, nodes, 60.0).await;
    for _ in 0..nodes {
        joined(server, &token).await;
    }
    pool
}

fn names(object: &Value) -> Vec<&str> {
    let names = object.as_object().unwrap().keys();
    names.map(String::as_str).collect()
}

/// The fields of a rollout are a contract, and so is what is meant where nothing is said.
#[tokio::test]
async fn a_rollout_has_its_fields_and_what_nobody_says_is_the_default() {
    let server = Server::start();
    let pool = fleet(&server, 3).await;
    let create = json!({ "tenantId": "root", "version": "v1.0.0" });
    let made = server.call("rollouts/create", create).await;
    let expected = [
        "createdAt",
        "createdBy",
        "id",
        "maxFailureRatio",
        "nodes",
        "soakSeconds",
        "state",
        "updatedAt",
        "upgradeTimeoutSeconds",
        "version",
        "wave",
        "waves",
    ];
    assert_eq!(names(&made), expected);
    for (field, value) in [
        ("version", json!("1.0.0")),
        ("state", json!("running")),
        ("wave", json!(0)),
        ("waves", json!([1, 10, 50, 100])),
        ("maxFailureRatio", json!(0.05)),
        ("soakSeconds", json!(600.0)),
        ("upgradeTimeoutSeconds", json!(900.0)),
        ("createdBy", json!("admin")),
    ] {
        let (found, value) = (made[field].to_string(), value.to_string());
        let plain = |text: &str| text.replace(".0", "");
        assert_eq!(plain(&found), plain(&value), "{field}");
    }
    let counts = json!({
        "pending": 3, "upgrading": 0, "succeeded": 0, "failed": 0, "skipped": 0,
        "rolling-back": 0, "rolled-back": 0,
    });
    assert_eq!(made["nodes"], counts);
    let id = made["id"].as_str().unwrap();
    let tail = id.strip_prefix("rollout_").unwrap();
    let crockford = |c: char| c.is_ascii_digit() || (c.is_ascii_lowercase() && !"ilou".contains(c));
    assert!(
        (26..=52).contains(&tail.len()) && tail.chars().all(crockford),
        "{id}"
    );

    let this = json!({ "tenantId": "root", "rolloutId": id });
    let whole = server.call("rollouts/get", this).await;
    let list = whole["nodeList"].as_array().unwrap();
    let waves: Vec<u64> = list
        .iter()
        .map(|row| row["wave"].as_u64().unwrap())
        .collect();
    assert_eq!(waves, [0, 1, 2]);
    for row in list {
        assert_eq!(names(row), ["nodeId", "poolId", "state", "wave"]);
        assert_eq!(
            (&row["poolId"], &row["state"]),
            (&json!(pool), &json!("pending"))
        );
    }
    let listed = server
        .call("rollouts/list", json!({ "tenantId": "root" }))
        .await;
    assert_eq!(names(&listed["rollouts"][0]), expected);
}

#[tokio::test]
async fn a_reason_that_nobody_gives_has_a_default_and_goes_with_a_resume() {
    let server = Server::start();
    fleet(&server, 3).await;
    let create = json!({ "tenantId": "root", "version": "1.0.0" });
    let made = server.call("rollouts/create", create).await;
    let this = json!({ "tenantId": "root", "rolloutId": made["id"] });
    let paused = server.call("rollouts/pause", this.clone()).await;
    assert_eq!(
        (&paused["state"], &paused["reason"]),
        (&json!("paused"), &json!("paused by an operator"))
    );
    let resumed = server.call("rollouts/resume", this.clone()).await;
    assert_eq!(
        (&resumed["state"], resumed.get("reason")),
        (&json!("running"), None)
    );
    let aborted = server.call("rollouts/abort", this).await;
    assert_eq!(
        (&aborted["state"], &aborted["reason"]),
        (&json!("aborted"), &json!("aborted by an operator"))
    );
    assert!(aborted["finishedAt"].is_string(), "{aborted}");
    assert_eq!(aborted["nodes"]["skipped"], 3);
}

/// The order of a rollout depends on its id alone, and its id on tenant, caller and key: whoever asks again, or on another
/// day, finds the same canaries.
#[tokio::test]
async fn a_key_is_its_callers_own_and_an_equal_call_finds_the_rollout_as_it_is_by_now() {
    let server = Server::start();
    fleet(&server, 2).await;
    let create = json!({ "tenantId": "root", "version": "1.0.0", "idempotencyKey": "k" });
    let made = server.call("rollouts/create", create.clone()).await;
    let this = json!({ "tenantId": "root", "rolloutId": made["id"] });
    server.call("rollouts/abort", this).await;
    let mut again = create.clone();
    again["waves"] = json!([100]);
    let found = server.call("rollouts/create", again).await;
    assert_eq!(
        (&found["id"], &found["state"]),
        (&made["id"], &json!("aborted"))
    );
    // The same key of somebody else is another one.
    let other = server.token("root", &["compute:fleet:admin"]).await;
    let (status, others) = server.call_as(&other, "rollouts/create", create).await;
    assert_eq!(status, 200, "{others}");
    assert_ne!(others["id"], made["id"]);
    assert_eq!(others["createdBy"], "bob");
}

#[tokio::test]
async fn lists_of_rollouts_hold_the_newest_first() {
    let server = Server::start();
    fleet(&server, 1).await;
    let mut made = Vec::new();
    for _ in 0..3 {
        let mut create = json!({ "tenantId": "root", "version": "1.0.0", "soakSeconds": 0.5 });
        create["upgradeTimeoutSeconds"] = json!(60.25);
        create["maxFailureRatio"] = json!(0.000001);
        create["waves"] = json!([0.0001, 12.5, 100]);
        let rollout = server.call("rollouts/create", create.clone()).await;
        // Fractions stay what they are.
        for field in ["soakSeconds", "upgradeTimeoutSeconds", "maxFailureRatio"] {
            assert_eq!(rollout[field], create[field], "{field}");
        }
        let waves = rollout["waves"].as_array().unwrap().iter();
        let waves: Vec<f64> = waves.map(|wave| wave.as_f64().unwrap()).collect();
        assert_eq!(waves, [0.0001, 12.5, 100.0]);
        let this = json!({ "tenantId": "root", "rolloutId": rollout["id"] });
        server.call("rollouts/abort", this).await;
        made.insert(0, rollout["id"].clone());
    }
    let listed = server
        .call("rollouts/list", json!({ "tenantId": "root" }))
        .await;
    let listed = listed["rollouts"].as_array().unwrap().iter();
    let listed: Vec<Value> = listed.map(|rollout| rollout["id"].clone()).collect();
    assert_eq!(listed, made);
}

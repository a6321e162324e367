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

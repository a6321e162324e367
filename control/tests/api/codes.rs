//! Every code that a call may be refused with, group by group, and that a refused call leaves nothing behind.

mod rows;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    joining::{join_token, joined},
    server::{Release, Server, read, write_config},
};

/// A control with one of everything, in every state that stands in somebody's way.
struct House {
    server: Server,
    pool: String,
    archived: String,
    empty: String,
    node: String,
    removed: String,
    running: String,
    aborted: String,
    ended: String,
    hook: String,
}

impl House {
    async fn new() -> Self {
        let server = Server::start();
        for (version, sequence) in [("1.0.0", 10), ("1.1.0", 11)] {
            let (status, answer) = server
                .register(&Release::new(version, sequence).manifest())
                .await;
            assert_eq!(status, 200, "{answer}");
        }
        let pool = server.pool("edge").await;
        let (archived, empty) = (server.pool("old").await, server.pool("empty").await);
        let token = join_token(&server, &pool, 2, 60.0).await;
        let (node, removed) = (joined(&server, &token).await, joined(&server, &token).await);
        let made = async |method: &str, mut body: Value| {
            body["tenantId"] = json!("root");
            let made = server.call(method, body).await;
            made["id"].as_str().unwrap_or_default().to_owned()
        };
        made("pools/archive", json!({ "poolId": archived })).await;
        // Its name is another's by now.
        server.pool("old").await;
        made("nodes/remove", json!({ "nodeId": removed })).await;
        let create = json!({ "version": "1.0.0", "idempotencyKey": "first" });
        let aborted = made("rollouts/create", create).await;
        made("rollouts/abort", json!({ "rolloutId": aborted })).await;
        let create = json!({ "version": "1.0.0", "idempotencyKey": "second" });
        let running = made("rollouts/create", create).await;
        let repair = json!({ "nodeId": node, "kind": "repair", "idempotencyKey": "k" });
        let ended = made("workflows/create", repair).await;
        let cancel = json!({ "workflowId": ended, "state": "cancelled" });
        made("workflows/update", cancel).await;
        let restart = json!({ "nodeId": node, "kind": "daemon.restart", "idempotencyKey": "k" });
        made("commands/create", restart).await;
        let gateway = json!({ "name": "gw1", "url": "wss://gw1.example/session" });
        made("gateways/enrol", gateway).await;
        let hook = made(
            "webhooks/create",
            json!({ "url": "https://hooks.example/" }),
        )
        .await;
        Self {
            pool,
            archived,
            empty,
            node,
            removed,
            running,
            aborted,
            ended,
            hook,
            server,
        }
    }
}

#[tokio::test]
async fn each_group_refuses_in_its_words_and_stores_nothing() {
    let house = House::new().await;
    let server = &house.server;
    let everything = json!({ "tenantId": "root", "limit": 1000 });
    let before = server.call("events/list", everything.clone()).await;
    let mut seen = BTreeSet::new();
    for (method, mut body, code, details) in house.rows() {
        body["tenantId"] = json!("root");
        let (status, answer) = server.call_as(&server.admin, method, body.clone()).await;
        let error = &answer["error"];
        let expected = match code {
            "INVALID_INPUT" => 400,
            "NOT_FOUND" => 404,
            "CONFLICT" | "INVALID_STATE" => 409,
            other => panic!("{other}"),
        };
        assert_eq!(
            (status, error["code"].as_str()),
            (expected, Some(code)),
            "{method} {body}: {answer}"
        );
        for (name, value) in details.as_object().unwrap() {
            assert_eq!(&error["details"][name], value, "{method} {body}: {answer}");
        }
        if code == "INVALID_INPUT" {
            assert!(
                error["details"]["rule"].is_string(),
                "{method} {body}: {answer}"
            );
        }
        let message = error["message"].as_str().unwrap();
        assert!(!message.is_empty() && !message.ends_with('.'), "{message}");
        seen.insert((method, code));
    }
    let contract = server.contract().await;
    let methods = contract.document["paths"].as_object().unwrap();
    let methods = methods
        .keys()
        .filter_map(|path| path.strip_prefix("/api/compute/"));
    // A last token that cannot be revoked, and pins that have changed, are held by tests of their own.
    let elsewhere = [
        ("tokens/revoke", "INVALID_STATE"),
        ("releases/get", "CONFLICT"),
    ];
    for method in methods.filter(|method| !method.starts_with("downloads/")) {
        for code in contract.refusals(method) {
            let known = seen.contains(&(method, code)) || elsewhere.contains(&(method, code));
            assert!(known, "nobody has seen {method} answer {code}");
        }
    }
    let after = server.call("events/list", everything).await;
    assert_eq!(after, before);
}

/// Bounds on how many there may be: the last that fits is taken, the next one is not, and nothing is lost by asking.
#[tokio::test]
async fn what_would_be_too_many_is_refused_and_room_is_room_again() {
    let server = Server::start();
    let pool = server.pool("edge").await;
    let token = join_token(&server, &pool, 1, 60.0).await;
    let node = joined(&server, &token).await;
    let restart = json!({ "tenantId": "root", "nodeId": node, "kind": "daemon.restart" });
    for _ in 0..64 {
        server.call("commands/create", restart.clone()).await;
    }
    let error = server.refused("commands/create", restart).await;
    assert_eq!(error["code"], "QUOTA_EXCEEDED", "{error}");

    let hook = json!({ "tenantId": "root", "url": "https://hooks.example/" });
    let mut last = Value::Null;
    for _ in 0..20 {
        last = server.call("webhooks/create", hook.clone()).await;
    }
    let error = server.refused("webhooks/create", hook.clone()).await;
    assert_eq!(error["code"], "QUOTA_EXCEEDED", "{error}");
    let one = json!({ "tenantId": "root", "webhookId": last["id"] });
    server.call("webhooks/delete", one).await;
    server.call("webhooks/create", hook).await;
}

/// What control cannot do here, and what went wrong inside: neither tells where things lie.
#[tokio::test]
async fn what_is_unsupported_and_what_failed_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    write_config(dir.path(), "downloads_url = \"https://files.example\"");
    let server = Server::start_in(dir);
    let path = "/api/compute/downloads/bcd/1.0.0/linux-amd64";
    let put = server.client().put(format!("{}{path}", server.url));
    let put = put.bearer_auth(&server.admin).body("x").send();
    let (status, error) = read(put.await.unwrap()).await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (501, &json!("UNSUPPORTED"))
    );

    let server = Server::start();
    let release = Release::new("1.0.0", 1);
    server.register(&release.manifest()).await;
    let wrong = Release {
        bytes: b"another file".to_vec(),
        ..release
    };
    wrong.put(&server);
    let answer = server.get(path).send().await.unwrap();
    let id = answer.headers()["x-request-id"]
        .to_str()
        .unwrap()
        .to_owned();
    let (status, error) = read(answer).await;
    assert_eq!((status, &error["error"]["code"]), (500, &json!("INTERNAL")));
    assert_eq!(error["error"]["details"], json!({ "requestId": id }));
    let told = error.to_string();
    let here = server.dir.path().to_str().unwrap();
    assert!(
        !told.contains(here) && !told.contains("bcd-linux"),
        "{told}"
    );
}

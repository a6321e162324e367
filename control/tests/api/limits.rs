//! Bounds of single fields: what stands on a bound is taken, what is just beyond it is refused by the field's name.

mod bounds;

use serde_json::{Value, json};

use crate::{
    joining::{join_token, joined},
    server::{Release, Server, read},
};
use bounds::{all, labels, many};

/// What a call needs beside the field that is tried.
struct Ground {
    pool: String,
    node: String,
    hook: String,
    rollout: String,
}

impl Ground {
    async fn of(server: &Server) -> Self {
        server.register(&Release::new("1.0.0", 1).manifest()).await;
        let pool = server.pool("edge").await;
        let token = join_token(server, &pool, 2, 60.0).await;
        let node = joined(server, &token).await;
        let hook = json!({ "tenantId": "root", "url": "https://hooks.example/" });
        let hook = server.call("webhooks/create", hook).await;
        // Of another tenant's pool: plans in this one find nobody busy.
        let other = json!({ "tenantId": "acme", "name": "edge" });
        let other = server.call("pools/create", other).await;
        let token = json!({
            "tenantId": "acme", "poolId": other["id"], "uses": 1, "expiresInSeconds": 60,
        });
        let token = server.call("joinTokens/create", token).await;
        joined(server, token["token"].as_str().unwrap()).await;
        let rollout = json!({ "tenantId": "acme", "version": "1.0.0" });
        let rollout = server.call("rollouts/create", rollout).await;
        let text = |of: &Value| of["id"].as_str().unwrap().to_owned();
        Self {
            pool,
            node,
            hook: text(&hook),
            rollout: text(&rollout),
        }
    }

    /// A call that is good. Names are new every time, since some must be.
    fn call(&self, method: &str, number: usize) -> Value {
        let mut body = match method {
            "rollouts/plan" => json!({ "version": "1.0.0" }),
            "rollouts/pause" => json!({ "rolloutId": self.rollout }),
            "pools/create" => json!({ "name": format!("p{number}") }),
            "pools/update" => json!({ "poolId": self.pool }),
            "joinTokens/create" => {
                json!({ "poolId": self.pool, "uses": 1, "expiresInSeconds": 60 })
            }
            "nodes/update" => json!({ "nodeId": self.node }),
            "commands/create" => json!({ "nodeId": self.node, "kind": "daemon.restart" }),
            "workflows/create" => json!({ "nodeId": self.node, "kind": "repair" }),
            "gateways/enrol" => json!({ "name": format!("g{number}"), "url": "wss://x/session" }),
            "tokens/create" => json!({ "subject": "eve", "permissions": ["compute:pool:read"] }),
            "events/list" | "fleet/freeze" | "nodes/list" => json!({}),
            "webhooks/create" => json!({ "url": "https://hooks.example/" }),
            "webhooks/deliveries" => json!({ "webhookId": self.hook }),
            other => panic!("{other}"),
        };
        let tenant = if method == "rollouts/pause" {
            "acme"
        } else {
            "root"
        };
        body["tenantId"] = json!(tenant);
        body
    }
}

#[tokio::test]
async fn what_stands_on_a_bound_is_taken_and_what_is_beyond_it_is_not() {
    let server = Server::start();
    let ground = Ground::of(&server).await;
    let mut number = 0;
    for bound in all() {
        let (field, _) = bound.field.split_once('.').unwrap_or((bound.field, ""));
        for value in bound.good {
            number += 1;
            let mut body = ground.call(bound.method, number);
            body[field] = value;
            server.call(bound.method, body).await;
        }
        for value in bound.bad {
            number += 1;
            let mut body = ground.call(bound.method, number);
            body[field] = value.clone();
            let error = server.refused(bound.method, body).await;
            let shown: String = value.to_string().chars().take(60).collect();
            let place = format!("{} {} {shown}: {error}", bound.method, bound.field);
            assert_eq!(error["code"], "INVALID_INPUT", "{place}");
            let named = error["details"]["field"].as_str().unwrap();
            // Of a list the one that is wrong is named.
            let named = named.split('[').next().unwrap();
            assert_eq!(named, bound.field, "{place}");
            assert!(error["details"]["rule"].is_string(), "{place}");
        }
    }
}

/// A list on its bound is read, and what it names is looked for.
#[tokio::test]
async fn the_longest_lists_are_read() {
    let server = Server::start();
    Ground::of(&server).await;
    for (field, kind, count) in [("poolIds", "pool", 1000), ("nodeIds", "node", 10_000)] {
        let mut body = json!({ "tenantId": "root", "version": "1.0.0" });
        body[field] = many(count, |number| format!("{kind}_{number:026}"));
        let error = server.refused("rollouts/plan", body).await;
        assert_eq!(error["code"], "NOT_FOUND", "{error}");
    }
    let mut body = json!({ "tenantId": "root", "version": "1.0.0" });
    body["selector"] = labels(64);
    let error = server.refused("rollouts/plan", body).await;
    assert_eq!(error["code"], "INVALID_STATE", "{error}");
    let body = json!({
        "tenantId": "root", "version": "1.0.0", "selector": { "a": "b" },
        "nodeIds": ["node_00000000000000000000000000"],
    });
    let error = server.refused("rollouts/plan", body).await;
    assert_eq!(error["details"]["field"], "selector", "{error}");
}

/// A body may have a mebibyte, to the byte.
#[tokio::test]
async fn a_body_of_a_mebibyte_is_read_and_one_more_byte_is_not() {
    let server = Server::start();
    let call = "{\"tenantId\": \"root\"}";
    for (length, expected) in [(1 << 20, 200), ((1 << 20) + 1, 400)] {
        let body = format!("{call}{}", " ".repeat(length - call.len()));
        let sent = server.post("pools/list", &server.admin).body(body);
        let (status, answer) = read(sent.send().await.unwrap()).await;
        assert_eq!(status, expected, "{answer}");
    }
}

/// Newest hundred, newest first: whoever wants more follows events.
#[tokio::test]
async fn lists_of_what_grows_hold_the_hundred_newest() {
    let server = Server::start();
    let ground = Ground::of(&server).await;
    for _ in 0..101 {
        let create = json!({ "tenantId": "root", "nodeId": ground.node, "kind": "repair" });
        server.call("workflows/create", create).await;
    }
    let listed = server
        .call("workflows/list", json!({ "tenantId": "root" }))
        .await;
    // Of two within one millisecond either may be the newer.
    let made: Vec<&str> = listed["workflows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|workflow| workflow["createdAt"].as_str().unwrap())
        .collect();
    assert_eq!(made.len(), 100);
    assert!(made.is_sorted_by(|one, next| one >= next), "{made:?}");
    let none = json!({ "tenantId": "root", "state": "succeeded" });
    let none = server.call("workflows/list", none).await;
    assert_eq!(none["workflows"], json!([]));
}

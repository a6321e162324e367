//! Who administers one pool, by the word of a decision service: its nodes are his, and no others.

use std::sync::{Arc, Mutex};

use axum::{Json, Router, extract::State, routing::post};
use serde_json::{Value, json};

use crate::{
    joining::{join_token, joined},
    server::{Server, write_config},
};

/// The pool that bob administers. The first administrator may do everything.
type Pool = Arc<Mutex<String>>;

async fn decide(State(pool): State<Pool>, Json(question): Json<Value>) -> Json<Value> {
    let of_bobs = question["resource"]["id"] == *pool.lock().unwrap();
    Json(json!({ "decision": question["subject"]["id"] == "admin" || of_bobs }))
}

/// A control that asks a service, and the pool that the service gives to bob.
async fn start() -> (Server, Pool) {
    let pool = Pool::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new()
        .route("/access/v1/evaluation", post(decide))
        .with_state(Arc::clone(&pool));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let dir = tempfile::tempdir().unwrap();
    write_config(
        dir.path(),
        &format!("access = {{ authzen_url = \"{url}\" }}"),
    );
    (Server::start_in(dir), pool)
}

#[tokio::test]
async fn who_administers_one_pool_has_its_nodes_and_no_others() {
    let (server, bobs) = start().await;
    let (mine, other) = (server.pool("mine").await, server.pool("other").await);
    mine.clone_into(&mut bobs.lock().unwrap());
    let bob = server.token("root", &["compute:pool:admin"]).await;
    for (pool, expected) in [(&other, 403), (&mine, 200)] {
        let token = join_token(&server, pool, 1, 60.0).await;
        let node = joined(&server, &token).await;
        let id = token.split('.').next().unwrap();
        let restart = json!({ "nodeId": node, "kind": "daemon.restart" });
        for (method, body) in [
            ("pools/get", json!({ "poolId": pool })),
            ("pools/update", json!({ "poolId": pool, "policy": {} })),
            ("nodes/list", json!({ "poolId": pool })),
            ("nodes/get", json!({ "nodeId": node })),
            (
                "nodes/update",
                json!({ "nodeId": node, "maintenance": true }),
            ),
            ("commands/create", restart),
            ("commands/list", json!({ "nodeId": node })),
            ("nodes/remove", json!({ "nodeId": node })),
            // Repeated, and of a node that is not there any more.
            ("nodes/remove", json!({ "nodeId": node })),
            (
                "joinTokens/create",
                json!({ "poolId": pool, "uses": 1, "expiresInSeconds": 60 }),
            ),
            ("joinTokens/list", json!({ "poolId": pool })),
            ("joinTokens/revoke", json!({ "joinTokenId": id })),
        ] {
            let mut body = body;
            body["tenantId"] = json!("root");
            let (status, answer) = server.call_as(&bob, method, body).await;
            assert_eq!(status, expected, "{method}: {answer}");
        }
    }
    // All pools at once are not his, nor is what is in none.
    for (method, body) in [
        ("nodes/list", json!({})),
        ("pools/list", json!({})),
        ("pools/create", json!({ "name": "another" })),
        (
            "nodes/get",
            json!({ "nodeId": format!("node_{}", "0".repeat(26)) }),
        ),
    ] {
        let mut body = body;
        body["tenantId"] = json!("root");
        let (status, answer) = server.call_as(&bob, method, body).await;
        assert_eq!(status, 403, "{method}: {answer}");
    }
}

fn subjects(answer: &Value) -> Vec<(&str, &str)> {
    let events = answer["events"].as_array().unwrap();
    events
        .iter()
        .map(|event| {
            (
                event["type"].as_str().unwrap(),
                event["subject"].as_str().unwrap(),
            )
        })
        .collect()
}

#[tokio::test]
async fn events_are_seen_pool_by_pool() {
    let (server, bobs) = start().await;
    let (mine, other) = (server.pool("mine").await, server.pool("other").await);
    let bob = server.token("root", &["compute:pool:admin"]).await;
    let list = json!({ "tenantId": "root", "after": 0 });
    // Whoever has no pool is refused.
    let (status, error) = server.call_as(&bob, "events/list", list.clone()).await;
    assert_eq!(status, 403, "{error}");
    mine.clone_into(&mut bobs.lock().unwrap());
    let mut nodes = Vec::new();
    for pool in [&other, &mine] {
        let token = join_token(&server, pool, 1, 60.0).await;
        nodes.push(joined(&server, &token).await);
    }
    let (status, seen) = server.call_as(&bob, "events/list", list.clone()).await;
    assert_eq!(status, 200, "{seen}");
    let told = subjects(&seen);
    let kinds: Vec<&str> = told.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, ["pool.created", "join-token.created", "node.joined"]);
    assert_eq!(told[0].1, format!("pool/{mine}"));
    assert_eq!(told[2].1, format!("node/{}", nodes[1]));
    // One thing of his, and one that is not.
    for (node, expected) in [(&nodes[1], 200), (&nodes[0], 403)] {
        let about = json!({ "tenantId": "root", "subject": format!("node/{node}") });
        let (status, answer) = server.call_as(&bob, "events/list", about).await;
        assert_eq!(status, expected, "{answer}");
    }
    // More pools than are asked about for one page: he goes on where it ended, and misses nothing of his.
    for number in 0..40 {
        server.pool(&format!("pool {number}")).await;
    }
    let last = server.pool("last").await;
    last.clone_into(&mut bobs.lock().unwrap());
    let (mut after, mut found) = (0, Vec::new());
    for _ in 0..10 {
        let page = json!({ "tenantId": "root", "after": after });
        let (status, page) = server.call_as(&bob, "events/list", page).await;
        assert_eq!(status, 200, "{page}");
        let next = page["next"].as_u64().unwrap();
        found.extend(
            subjects(&page)
                .iter()
                .map(|(_, subject)| (*subject).to_owned()),
        );
        if next == after {
            break;
        }
        after = next;
    }
    assert_eq!(found, [format!("pool/{last}")]);
}

//! Nodes and gateways that join.

use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

use crate::server::Server;

fn csr() -> String {
    let key = KeyPair::generate().unwrap();
    let request = CertificateParams::default()
        .serialize_request(&key)
        .unwrap();
    request.pem().unwrap()
}

pub(crate) async fn join_token(server: &Server, pool: &str, uses: u32, seconds: f64) -> String {
    let request = json!({
        "tenantId": "root", "poolId": pool, "uses": uses, "expiresInSeconds": seconds,
    });
    let token = server.call("joinTokens/create", request).await;
    token["token"].as_str().unwrap().to_owned()
}

/// A node that has just joined; gives its id.
pub(crate) async fn joined(server: &Server, token: &str) -> String {
    let request = json!({ "csr": csr() });
    let (status, joined) = server.call_as(token, "nodes/join", request).await;
    assert_eq!(status, 200, "{joined}");
    joined["nodeId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_node_joins_and_is_listed() {
    let server = Server::start();
    let pool = server.pool("edge").await;
    let token = join_token(&server, &pool, 1, 60.0).await;
    let request = json!({ "csr": csr(), "labels": { "cpu.arch": "x86_64" } });
    let (status, joined) = server.call_as(&token, "nodes/join", request.clone()).await;
    assert_eq!(status, 200, "{joined}");
    assert!(
        joined["certificate"]
            .as_str()
            .unwrap()
            .contains("BEGIN CERTIFICATE")
    );
    assert_eq!(
        server.call_as(&token, "nodes/join", request).await.1["nodeId"],
        joined["nodeId"]
    );
    let get = json!({ "tenantId": "root", "nodeId": joined["nodeId"] });
    let node = server.call("nodes/get", get).await;
    assert_eq!(node["poolId"], json!(pool));
    assert_eq!(
        (&node["online"], &node["generation"]),
        (&json!(false), &json!(1))
    );
    assert_eq!(node["labels"], json!({ "cpu.arch": "x86_64" }));
    let of_pool = json!({ "tenantId": "root", "poolId": pool });
    let nodes = server.call("nodes/list", of_pool.clone()).await;
    assert_eq!(nodes["nodes"], json!([node]));
    assert_eq!(server.call("pools/get", of_pool).await["nodes"], json!(1));
}

#[tokio::test]
async fn tokens_that_are_over_or_of_another_kind_open_nothing() {
    let server = Server::start();
    let pool = server.pool("edge").await;
    let request = || json!({ "csr": csr() });
    let spent = join_token(&server, &pool, 1, 60.0).await;
    server.call_as(&spent, "nodes/join", request()).await;
    // Less than a millisecond, which is as fine as times are kept: it is over when it is made.
    let short = join_token(&server, &pool, 1, 0.0001).await;
    for (token, reason) in [(&spent, "used-up"), (&short, "expired")] {
        let (status, error) = server.call_as(token, "nodes/join", request()).await;
        assert_eq!(
            (status, &error["error"]["code"]),
            (403, &json!("ACCESS_DENIED"))
        );
        assert_eq!(error["error"]["details"]["reason"], reason, "{error}");
    }
    for token in [server.admin.as_str(), "bcjt_x.y", "x"] {
        let (status, _) = server.call_as(token, "nodes/join", request()).await;
        assert_eq!(status, 401, "{token}");
    }
    // A join token is no API token either.
    let (status, _) = server
        .call_as(&spent, "pools/list", json!({ "tenantId": "root" }))
        .await;
    assert_eq!(status, 401);
}

#[tokio::test]
async fn a_gateway_enrols_with_one_key() {
    let server = Server::start();
    let request = json!({
        "tenantId": "root", "name": "gw1", "url": "wss://127.0.0.1:9443/session",
    });
    let enrolled = server.call("gateways/enrol", request.clone()).await;
    assert_eq!(
        server.refused("gateways/enrol", request).await["code"],
        "CONFLICT"
    );
    let token = enrolled["token"].as_str().unwrap();
    let list = || server.call("gateways/list", json!({ "tenantId": "root" }));
    let gateway = |listed: &Value| listed["gateways"][0]["enrolled"].clone();
    assert_eq!(gateway(&list().await), json!(false));
    let mine = json!({ "csr": csr() });
    let (status, joined) = server.call_as(token, "gateways/join", mine.clone()).await;
    assert_eq!(
        (status, &joined["gatewayId"]),
        (200, &enrolled["id"]),
        "{joined}"
    );
    assert!(
        joined["linkUrl"]
            .as_str()
            .unwrap()
            .starts_with("wss://127.0.0.1:")
    );
    assert_eq!(server.call_as(token, "gateways/join", mine).await.0, 200);
    let (status, error) = server
        .call_as(token, "gateways/join", json!({ "csr": csr() }))
        .await;
    assert_eq!(
        (status, &error["error"]["details"]["reason"]),
        (403, &json!("used-up"))
    );
    assert_eq!(gateway(&list().await), json!(true));
}

#[tokio::test]
async fn a_removed_gateway_is_nowhere_and_its_name_is_free() {
    let server = Server::start();
    let request = json!({
        "tenantId": "root", "name": "gw1", "url": "wss://127.0.0.1:9443/session",
    });
    let enrolled = server.call("gateways/enrol", request.clone()).await;
    let token = enrolled["token"].as_str().unwrap();
    let mine = json!({ "csr": csr() });
    assert_eq!(
        server.call_as(token, "gateways/join", mine.clone()).await.0,
        200
    );
    let pool = server.pool("edge").await;
    let node_token = join_token(&server, &pool, 2, 60.0).await;
    let gateways = async || {
        let request = json!({ "csr": csr() });
        let (status, joined) = server.call_as(&node_token, "nodes/join", request).await;
        assert_eq!(status, 200, "{joined}");
        joined["gateways"].clone()
    };
    assert_eq!(gateways().await, json!(["wss://127.0.0.1:9443/session"]));
    let this = json!({ "tenantId": "root", "gatewayId": enrolled["id"] });
    let removed = server.call("gateways/remove", this.clone()).await;
    assert_eq!(
        (&removed["id"], &removed["name"]),
        (&enrolled["id"], &json!("gw1"))
    );
    assert_eq!(server.call("gateways/remove", this.clone()).await, removed);
    let listed = server.call("gateways/list", json!({ "tenantId": "root" }));
    assert_eq!(listed.await["gateways"], json!([]));
    assert_eq!(gateways().await, json!([]));
    // What it enrolled with opens nothing any more, also to its own key.
    assert_eq!(server.call_as(token, "gateways/join", mine).await.0, 401);
    let another = server.call("gateways/enrol", request).await;
    assert_ne!(another["id"], enrolled["id"]);
    assert_eq!(server.call("gateways/remove", this).await, removed);
}

#[tokio::test]
async fn an_archived_pool_takes_nobody() {
    let server = Server::start();
    let pool = server.pool("edge").await;
    let token = join_token(&server, &pool, 1, 60.0).await;
    let this = json!({ "tenantId": "root", "poolId": pool });
    let archived = server.call("pools/archive", this.clone()).await;
    assert!(archived["archivedAt"].is_string());
    assert_eq!(server.call("pools/archive", this).await, archived);
    let (status, error) = server
        .call_as(&token, "nodes/join", json!({ "csr": csr() }))
        .await;
    assert_eq!(
        (status, &error["error"]["details"]["reason"]),
        (403, &json!("archived"))
    );
    let update = json!({ "tenantId": "root", "poolId": pool, "name": "y" });
    assert_eq!(
        server.refused("pools/update", update).await["code"],
        "INVALID_STATE"
    );
    // The name is free again.
    server.pool("edge").await;
}

#[tokio::test]
async fn a_pool_is_archived_with_its_nodes_and_comes_back_with_them() {
    let server = Server::start();
    let pool = server.pool("edge").await;
    let token = join_token(&server, &pool, 2, 60.0).await;
    let node = joined(&server, &token).await;
    let this = json!({ "tenantId": "root", "poolId": pool });
    let archived = server.call("pools/archive", this.clone()).await;
    assert!(archived["archivedAt"].is_string(), "{archived}");
    assert_eq!(archived["nodes"], json!(1), "{archived}");
    assert_eq!(server.call("pools/archive", this.clone()).await, archived);
    assert_eq!(server.call("pools/get", this.clone()).await, archived);
    let (status, error) = server
        .call_as(&token, "nodes/join", json!({ "csr": csr() }))
        .await;
    assert_eq!(
        (status, &error["error"]["details"]["reason"]),
        (403, &json!("archived"))
    );
    // Its nodes are still counted, and said to be in a pool out of use.
    let summary = server
        .call("fleet/summary", json!({ "tenantId": "root" }))
        .await;
    assert_eq!(summary["total"]["nodes"], json!(1), "{summary}");
    assert_eq!(summary["pools"][0]["archivedAt"], archived["archivedAt"]);
    // Two pools of one name with nodes in both would be mixed up.
    let again = json!({ "tenantId": "root", "name": "edge" });
    let refusal = server.refused("pools/create", again).await;
    assert_eq!(
        (&refusal["code"], &refusal["details"]["poolId"]),
        (&json!("CONFLICT"), &json!(pool)),
        "{refusal}"
    );
    let back = server.call("pools/unarchive", this.clone()).await;
    assert_eq!(back.get("archivedAt"), None);
    assert_eq!(server.call("pools/unarchive", this).await, back);
    let (status, answer) = server
        .call_as(&token, "nodes/join", json!({ "csr": csr() }))
        .await;
    assert_eq!(status, 200, "{node}: {answer}");
}

#[tokio::test]
async fn an_archived_pool_does_not_come_back_to_a_name_that_is_taken() {
    let server = Server::start();
    let this = json!({ "tenantId": "root", "poolId": server.pool("edge").await });
    server.call("pools/archive", this.clone()).await;
    server.pool("edge").await;
    let refusal = server.refused("pools/unarchive", this).await;
    assert_eq!(refusal["code"], "CONFLICT", "{refusal}");
}

#[tokio::test]
async fn a_node_renews_with_its_key_until_it_is_removed() {
    let server = Server::start();
    let pool = server.pool("edge").await;
    let token = join_token(&server, &pool, 1, 60.0).await;
    let csr = csr();
    let (_, joined) = server
        .call_as(&token, "nodes/join", json!({ "csr": csr }))
        .await;
    let renew = json!({ "nodeId": joined["nodeId"], "csr": csr });
    // The key is all that counts; a token would not help.
    let renewed = server.call("nodes/renew", renew.clone()).await;
    assert_eq!(renewed["nodeId"], joined["nodeId"]);
    assert_ne!(renewed["certificate"], joined["certificate"]);
    let node = json!({ "tenantId": "root", "nodeId": joined["nodeId"] });
    let removed = server.call("nodes/remove", node.clone()).await;
    assert_eq!(removed, server.call("nodes/remove", node.clone()).await);
    let of_pool = json!({ "tenantId": "root", "poolId": pool });
    assert_eq!(server.call("pools/get", of_pool).await["nodes"], json!(0));
    for (method, request, status, code) in [
        ("nodes/renew", renew, 403, "ACCESS_DENIED"),
        ("nodes/join", json!({ "csr": csr }), 403, "ACCESS_DENIED"),
    ] {
        let (found, refused) = server.call_as(&token, method, request).await;
        assert_eq!(
            (found, &refused["error"]["code"]),
            (status, &json!(code)),
            "{method}"
        );
        assert_eq!(refused["error"]["details"]["reason"], "removed");
    }
    let gone = server.refused("nodes/get", node).await;
    assert_eq!(gone["code"], "NOT_FOUND");
}

#[tokio::test]
async fn operators_set_labels_and_maintenance() {
    let server = Server::start();
    let pool = server.pool("edge").await;
    let token = join_token(&server, &pool, 1, 60.0).await;
    let join = json!({ "csr": csr(), "labels": { "rack": "7", "os.id": "debian" } });
    let (_, joined) = server.call_as(&token, "nodes/join", join).await;
    let id = &joined["nodeId"];
    let update = json!({
        "tenantId": "root", "nodeId": id, "labels": { "rack": "8", "tier": "a" }, "maintenance": true,
    });
    let node = server.call("nodes/update", update).await;
    assert_eq!(
        node["labels"],
        json!({ "rack": "8", "os.id": "debian", "tier": "a" })
    );
    assert_eq!(node["maintenance"], json!(true));
    let back =
        json!({ "tenantId": "root", "nodeId": id, "labels": { "rack": null, "none": null } });
    let node = server.call("nodes/update", back).await;
    assert_eq!(
        node["labels"],
        json!({ "rack": "7", "os.id": "debian", "tier": "a" })
    );
    assert_eq!(node["setLabels"], json!({ "tier": "a" }));
    assert_eq!(node["maintenance"], json!(true));
    let long = json!({ "tenantId": "root", "nodeId": id, "labels": { "": "x" } });
    let refused = server.refused("nodes/update", long).await;
    assert_eq!(refused["details"]["field"], "labels");
}

/// Whoever has a large fleet reads it a page at a time: every node once, and an end that is said.
#[tokio::test]
async fn a_fleet_is_read_page_by_page() {
    let server = Server::start();
    let (one, two) = (server.pool("one").await, server.pool("two").await);
    let mut of_one = Vec::new();
    for (pool, count) in [(&one, 5), (&two, 2)] {
        let token = join_token(&server, pool, count, 60.0).await;
        for _ in 0..count {
            let node = joined(&server, &token).await;
            if *pool == one {
                of_one.push(node);
            }
        }
    }
    of_one.sort_unstable();
    for (limit, calls) in [(1, 6), (2, 3), (3, 2), (5, 2), (6, 1), (10_000, 1)] {
        let mut request = json!({ "tenantId": "root", "poolId": one, "limit": limit });
        let (mut met, mut asked) = (Vec::new(), 0);
        loop {
            let page = server.call("nodes/list", request.clone()).await;
            asked += 1;
            let nodes = page["nodes"].as_array().unwrap().iter();
            met.extend(nodes.map(|node| node["id"].as_str().unwrap().to_owned()));
            if page["next"].is_null() {
                break;
            }
            request["after"] = page["next"].clone();
        }
        assert_eq!((&met, asked), (&of_one, calls), "by {limit}");
    }
    let all = server
        .call("nodes/list", json!({ "tenantId": "root" }))
        .await;
    assert_eq!(
        (all["nodes"].as_array().unwrap().len(), all.get("next")),
        (7, None)
    );
}

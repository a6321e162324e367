//! Who may do what, and what he learns where he may not.

use serde_json::{Value, json};

use crate::{
    joining::joined,
    server::{Server, read},
};

#[tokio::test]
async fn without_a_valid_token_nothing_is_read() {
    let server = Server::start();
    let body = json!({ "nonsense": true });
    let (id, secret) = server.admin.split_once('.').unwrap();
    for token in [
        "",
        "x",
        id,
        &format!("{id}."),
        &format!("{id}.{}", secret.to_lowercase()),
        &format!("tok_00000000000000000000000000.{secret}"),
        &"x".repeat(5000),
    ] {
        let (status, error) = server.call_as(token, "pools/list", body.clone()).await;
        assert_eq!(
            (status, &error["error"]["code"]),
            (401, &json!("UNAUTHENTICATED"))
        );
    }
    let answer = server.get("/api/compute/pools/list").send().await.unwrap();
    assert_eq!(read(answer).await.0, 404);
}

#[tokio::test]
async fn a_token_may_do_what_it_says_and_no_more() {
    let server = Server::start();
    let reader = server.token("root", &["compute:pool:read"]).await;
    let list = json!({ "tenantId": "root" });
    assert_eq!(
        server.call_as(&reader, "pools/list", list.clone()).await.0,
        200
    );
    let create = json!({ "tenantId": "root", "name": "x" });
    for (method, body) in [
        ("pools/create", create),
        ("releases/list", list.clone()),
        ("rollouts/list", list.clone()),
        ("gateways/list", list.clone()),
    ] {
        let (status, error) = server.call_as(&reader, method, body).await;
        assert_eq!(
            (status, &error["error"]["code"]),
            (403, &json!("ACCESS_DENIED")),
            "{method}"
        );
    }
}

/// Calls each method as another tenant with an id of root's and with one that nobody has.
async fn alike(server: &Server, token: &str, methods: &[(&str, &str, Value, Value)]) {
    for (method, field, id, more) in methods {
        let id = id.as_str().unwrap();
        let (prefix, _) = id.split_once('_').unwrap();
        let unknown = format!("{prefix}_00000000000000000000000000");
        let mut answers = Vec::new();
        for id in [id, &unknown] {
            let mut body = json!({ "tenantId": "acme", *field: id });
            let more = more.as_object().unwrap().clone();
            body.as_object_mut().unwrap().extend(more);
            let answer = server.post(method, token).json(&body).send().await.unwrap();
            assert_eq!(answer.status(), 404, "{method}");
            answers.push(answer.text().await.unwrap());
        }
        assert_eq!(answers[0], answers[1], "{method}");
    }
}

// I31
#[tokio::test]
async fn another_tenants_things_are_like_unknown_ones() {
    let server = Server::start();
    let pool = json!(server.pool("edge").await);
    let acme = server
        .token("acme", &["compute:pool:admin", "compute:tenant:admin"])
        .await;
    let root = json!({ "tenantId": "root" });
    let tokens = server.call("tokens/list", root.clone()).await;
    let token = tokens["tokens"][0]["id"].clone();
    let request = json!({ "tenantId": "root", "poolId": pool, "uses": 1, "expiresInSeconds": 60 });
    let join = server.call("joinTokens/create", request).await;
    let node = json!(joined(&server, join["token"].as_str().unwrap()).await);
    let request = json!({ "tenantId": "root", "url": "https://receiver.example/" });
    let hook = server.call("webhooks/create", request).await["id"].clone();
    let none = json!({});
    let join_token = json!({ "uses": 1, "expiresInSeconds": 60 });
    let methods = [
        ("pools/get", "poolId", pool.clone(), none.clone()),
        (
            "pools/update",
            "poolId",
            pool.clone(),
            json!({ "name": "x" }),
        ),
        ("pools/archive", "poolId", pool.clone(), none.clone()),
        ("nodes/list", "poolId", pool.clone(), none.clone()),
        ("nodes/get", "nodeId", node.clone(), none.clone()),
        (
            "nodes/update",
            "nodeId",
            node.clone(),
            json!({ "maintenance": true }),
        ),
        ("nodes/remove", "nodeId", node.clone(), none.clone()),
        ("joinTokens/create", "poolId", pool.clone(), join_token),
        ("joinTokens/list", "poolId", pool.clone(), none.clone()),
        (
            "joinTokens/revoke",
            "joinTokenId",
            join["id"].clone(),
            none.clone(),
        ),
        ("tokens/revoke", "tokenId", token, none.clone()),
        ("webhooks/delete", "webhookId", hook.clone(), none.clone()),
        ("webhooks/deliveries", "webhookId", hook, none.clone()),
    ];
    alike(&server, &acme, &methods).await;
    // Nor does it help to claim to be the other tenant.
    let claim = json!({ "tenantId": "root", "poolId": pool });
    assert_eq!(server.call_as(&acme, "pools/get", claim).await.0, 403);
    for (method, list) in [
        ("pools/list", "pools"),
        ("nodes/list", "nodes"),
        ("joinTokens/list", "joinTokens"),
        ("webhooks/list", "webhooks"),
    ] {
        let (_, answer) = server
            .call_as(&acme, method, json!({ "tenantId": "acme" }))
            .await;
        assert_eq!(answer[list], json!([]), "{method}");
    }
}

#[tokio::test]
async fn nobody_hands_out_what_he_does_not_have() {
    let server = Server::start();
    let clerk = server.token("root", &["compute:tenant:admin"]).await;
    let wish = |permission: &str| json!({ "tenantId": "root", "subject": "eve", "permissions": [permission] });
    let (status, _) = server
        .call_as(&clerk, "tokens/create", wish("compute:fleet:admin"))
        .await;
    assert_eq!(status, 403);
    let (status, _) = server
        .call_as(&clerk, "tokens/create", wish("compute:tenant:admin"))
        .await;
    assert_eq!(status, 200);
    for permissions in [json!([]), json!(["compute:everything"])] {
        let mut request = wish("x");
        request["permissions"] = permissions;
        let error = server.refused("tokens/create", request).await;
        assert_eq!(error["details"]["field"], "permissions", "{error}");
    }
}

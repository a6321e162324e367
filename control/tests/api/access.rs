//! Who may do what, and what he learns where he may not.

use serde_json::json;

use crate::server::{Server, read};

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

// I31
#[tokio::test]
async fn another_tenants_things_are_like_unknown_ones() {
    let server = Server::start();
    let pool = server.pool("edge").await;
    let acme = server.token("acme", &["compute:pool:admin"]).await;
    let unknown = "pool_00000000000000000000000000";
    for (method, more) in [
        ("pools/get", json!({})),
        ("pools/update", json!({ "name": "mine" })),
        ("pools/archive", json!({})),
        ("nodes/list", json!({})),
        (
            "joinTokens/create",
            json!({ "uses": 1, "expiresInSeconds": 60 }),
        ),
    ] {
        let mut answers = Vec::new();
        for id in [pool.as_str(), unknown] {
            let mut body = json!({ "tenantId": "acme", "poolId": id });
            let more = more.as_object().unwrap().clone();
            body.as_object_mut().unwrap().extend(more);
            let answer = server.post(method, &acme).json(&body).send().await.unwrap();
            assert_eq!(answer.status(), 404, "{method}");
            answers.push(answer.text().await.unwrap());
        }
        assert_eq!(answers[0], answers[1], "{method}");
    }
    // Nor does it help to claim to be the other tenant.
    let claim = json!({ "tenantId": "root", "poolId": pool });
    assert_eq!(server.call_as(&acme, "pools/get", claim).await.0, 403);
    let pools = server
        .call_as(&acme, "pools/list", json!({ "tenantId": "acme" }))
        .await;
    assert_eq!(pools.1, json!({ "pools": [] }));
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

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

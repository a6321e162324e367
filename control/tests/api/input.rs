//! Input that breaks a rule: the field and the rule are named, and nothing is done.

use serde_json::{Value, json};

use crate::server::{Release, Server, read};

#[tokio::test]
async fn every_method_names_the_field_that_is_wrong() {
    let server = Server::start();
    let pool = server.pool("edge").await;
    server.register(&Release::new("1.0.0", 1).manifest()).await;
    let rollout = |field: &str, value: Value| {
        let mut request = json!({ "tenantId": "root", "version": "1.0.0" });
        request[field] = value;
        ("rollouts/create", request, field.to_owned())
    };
    let token = |field: &str, value: Value| {
        let mut request =
            json!({ "tenantId": "root", "poolId": pool, "uses": 1, "expiresInSeconds": 60 });
        request[field] = value;
        ("joinTokens/create", request, field.to_owned())
    };
    let created = |field: &str, value: Value| {
        let mut request = json!({ "tenantId": "root", "name": "x" });
        request[field] = value;
        ("pools/create", request, field.to_owned())
    };
    let enrolled = |field: &str, value: Value| {
        let mut request = json!({ "tenantId": "root", "name": "x", "url": "wss://x/session" });
        request[field] = value;
        ("gateways/enrol", request, field.to_owned())
    };
    for (method, request, field) in [
        rollout("waves", json!([10, 5, 100])),
        rollout("waves", json!([10, 10, 100])),
        rollout("waves", json!([10, 50])),
        rollout("waves", json!([])),
        rollout("maxFailureRatio", json!(1.5)),
        rollout("soakSeconds", json!(-1)),
        rollout("upgradeTimeoutSeconds", json!(59)),
        rollout("idempotencyKey", json!("with space")),
        rollout("poolIds", json!([])),
        rollout("version", json!("1.0")),
        rollout("tenantId", json!("a/b")),
        rollout("unheardOf", json!(1)),
        token("uses", json!(0)),
        token("uses", json!(-1)),
        token("expiresInSeconds", json!(0)),
        token("poolId", json!("pool_x")),
        created("name", json!("")),
        created("name", json!(" x")),
        created("name", json!("x\u{0}y")),
        created("name", json!("x".repeat(101))),
        enrolled("url", json!("https://x/session")),
        enrolled("url", json!("wss://x/other")),
        enrolled("url", json!("wss://u:p@x/session")),
        enrolled("name", json!("a b")),
    ] {
        let error = server.refused(method, request.clone()).await;
        assert_eq!(error["code"], "INVALID_INPUT", "{request}: {error}");
        assert_eq!(
            error["details"]["field"],
            json!(field),
            "{request}: {error}"
        );
        assert!(error["details"]["rule"].is_string(), "{error}");
    }
    let pools = server
        .call("pools/list", json!({ "tenantId": "root" }))
        .await;
    assert_eq!(pools["pools"].as_array().unwrap().len(), 1);
    let rollouts = server
        .call("rollouts/list", json!({ "tenantId": "root" }))
        .await;
    assert_eq!(rollouts, json!({ "rollouts": [] }));
}

#[tokio::test]
async fn a_rollout_of_an_unregistered_version_is_not_found() {
    let server = Server::start();
    let request = json!({ "tenantId": "root", "version": "1.0.0" });
    let error = server.refused("rollouts/create", request).await;
    assert_eq!(error["code"], "NOT_FOUND", "{error}");
}

#[tokio::test]
async fn text_that_is_no_json_and_bodies_without_end_are_refused() {
    let server = Server::start();
    let nested = format!("{{\"tenantId\":{}1", "[".repeat(100_000));
    let large = format!("{{\"tenantId\": \"{}\"}}", "x".repeat(2 << 20));
    for body in [
        "",
        "null",
        "[\"root\"]",
        "{\"tenantId\": NaN}",
        "{\"tenantId\": 1e309}",
        "{\"tenantId\": \"root\"} x",
        "{\"tenantId\": \"root\", \"tenantId\": \"root\"}",
        "\u{feff}{\"tenantId\": \"root\"}",
        nested.as_str(),
        large.as_str(),
    ] {
        let request = server
            .post("pools/list", &server.admin)
            .body(body.to_owned());
        let (status, error) = read(request.send().await.unwrap()).await;
        let shown: String = body.chars().take(40).collect();
        assert_eq!(
            (status, &error["error"]["code"]),
            (400, &json!("INVALID_INPUT")),
            "{shown}"
        );
    }
}

#[tokio::test]
async fn what_does_not_exist_is_not_found_in_our_own_words() {
    let server = Server::start();
    for (method, named) in [
        ("pools/burn", "archive, create, get, list"),
        ("nothing/at/all", "commands, events, fleet, gateways"),
        ("downloads/bcd/1.0.0/linux-amd64/x", "commands, events"),
    ] {
        let error = server.refused(method, json!({})).await;
        assert_eq!(error["code"], "NOT_FOUND", "{method}");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains(named) && message.contains(method),
            "{message}"
        );
    }
    let answer = server.get("/api/compute/nodes/list").send().await.unwrap();
    let (status, answer) = read(answer).await;
    assert_eq!(status, 404);
    let message = &answer["error"]["message"];
    assert_eq!(message, "expected POST /api/compute/nodes/list, found GET");
}

/// A person types the host and nothing else.
#[tokio::test]
async fn the_host_alone_leads_to_the_console() {
    let server = Server::start();
    let answer = server.get("/").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(
        answer.url().path().starts_with("/console"),
        "{}",
        answer.url()
    );
}

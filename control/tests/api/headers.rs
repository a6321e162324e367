//! What every answer says beside its body.

use std::collections::BTreeSet;

use reqwest::{Method, Response};
use serde_json::json;

use crate::server::{Release, Server, read, write_config};

const FILE: &str = "/api/compute/downloads/bcd/1.0.0/linux-amd64";

fn header<'a>(answer: &'a Response, name: &str) -> &'a str {
    let value = answer.headers().get(name);
    value.map_or("", |value| value.to_str().unwrap())
}

/// A request by name: its method, its path, its token and its body.
async fn ask(server: &Server, (method, path): (&str, &str), token: &str) -> Response {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let mut request = server
        .client()
        .request(method.clone(), format!("{}{path}", server.url))
        .header("x-request-id", "the-callers-own");
    if !token.is_empty() {
        request = request.bearer_auth(token);
    }
    if method == Method::POST {
        request = request.json(&json!({ "tenantId": "root" }));
    }
    request.send().await.unwrap()
}

#[tokio::test]
async fn every_answer_has_an_id_of_its_own_and_a_kind_that_is_not_guessed() {
    let server = Server::start();
    let release = Release::new("1.0.0", 1);
    server.register(&release.manifest()).await;
    release.put(&server);
    let admin = server.admin.as_str();
    let mut ids = BTreeSet::new();
    let rows = [
        (("POST", "/api/compute/pools/list"), admin, 200, "no-store"),
        (("POST", "/api/compute/pools/get"), admin, 400, "no-store"),
        (("POST", "/api/compute/pools/list"), "", 401, "no-store"),
        (("POST", "/api/compute/pools/burn"), admin, 404, "no-store"),
        (("GET", "/api/compute/pools/list"), admin, 404, "no-store"),
        (("PUT", "/api/compute/pools/list"), admin, 404, "no-store"),
        (
            ("OPTIONS", "/api/compute/pools/list"),
            admin,
            404,
            "no-store",
        ),
        (("DELETE", FILE), admin, 404, "no-store"),
        (
            ("GET", "/api/compute/downloads/bcd/9.9.9/linux-amd64"),
            "",
            404,
            "no-store",
        ),
        (
            ("GET", FILE),
            "",
            200,
            "public, max-age=31536000, immutable",
        ),
        (
            ("HEAD", FILE),
            "",
            200,
            "public, max-age=31536000, immutable",
        ),
        (("GET", "/healthz"), "", 200, "no-store"),
        (("GET", "/readyz"), "", 200, "no-store"),
        (("GET", "/version"), "", 200, "no-store"),
        (("GET", "/nowhere"), "", 404, "no-store"),
        (("GET", "/docs/"), "", 200, "no-cache"),
        (("GET", "/console/sign-in"), "", 200, "no-store"),
    ];
    let count = rows.len();
    for (what, token, status, cache) in rows {
        let answer = ask(&server, what, token).await;
        assert_eq!(answer.status(), status, "{what:?}");
        assert_eq!(header(&answer, "cache-control"), cache, "{what:?}");
        assert_eq!(
            header(&answer, "x-content-type-options"),
            "nosniff",
            "{what:?}"
        );
        // Pages of other origins read nothing of this.
        assert_eq!(
            header(&answer, "access-control-allow-origin"),
            "",
            "{what:?}"
        );
        let id = header(&answer, "x-request-id");
        assert_eq!(id.len(), 26, "{what:?}: {id}");
        ids.insert(id.to_owned());
    }
    assert_eq!(ids.len(), count);
}

#[tokio::test]
async fn who_must_show_a_token_is_told_which_kind() {
    let server = Server::start();
    for token in ["", "x", "tok_00000000000000000000000000.x"] {
        let answer = ask(&server, ("POST", "/api/compute/pools/list"), token).await;
        assert_eq!(header(&answer, "www-authenticate"), "Bearer");
        assert_eq!(read(answer).await.0, 401);
    }
    let reader = server.token("root", &["compute:pool:read"]).await;
    let answer = ask(&server, ("POST", "/api/compute/releases/list"), &reader).await;
    // A token that is known and may not is asked for no other one.
    assert_eq!(header(&answer, "www-authenticate"), "");
    assert_eq!(read(answer).await.0, 403);
    for scheme in ["bearer", "BEARER", "Bearer "] {
        let authorization = format!("{scheme} {}", server.admin);
        let answer = server
            .client()
            .post(format!("{}/api/compute/pools/list", server.url))
            .header("authorization", authorization)
            .json(&json!({ "tenantId": "root" }));
        assert_eq!(answer.send().await.unwrap().status(), 200, "{scheme}");
    }
    let basic = server
        .client()
        .post(format!("{}/api/compute/pools/list", server.url))
        .basic_auth("admin", Some(&server.admin));
    assert_eq!(basic.send().await.unwrap().status(), 401);
}

/// Whoever is sent away for coming too often hears when to come again, in the header and in the body alike.
#[tokio::test]
async fn whoever_comes_too_often_hears_when_to_come_again() {
    let dir = tempfile::tempdir().unwrap();
    let limits = "limits = { wrong_tokens_per_minute = 1, joins_per_second = 1 }";
    write_config(dir.path(), limits);
    let server = Server::start_in(dir);
    let wrong = "tok_00000000000000000000000000.x";
    for (method, token, body) in [
        ("pools/list", wrong, json!({ "tenantId": "root" })),
        ("nodes/join", "bcjt_x.y", json!({ "csr": "x" })),
        ("gateways/join", "gw_x.y", json!({ "csr": "x" })),
        (
            "nodes/renew",
            "",
            json!({ "nodeId": "node_00000000000000000000000000", "csr": "x" }),
        ),
    ] {
        let mut sent_away = None;
        for _ in 0..30 {
            let answer = server.post(method, token).json(&body).send().await.unwrap();
            if answer.status() == 429 {
                sent_away = Some(answer);
                break;
            }
        }
        let answer = sent_away.unwrap_or_else(|| panic!("{method} is never too often"));
        let wait: u64 = header(&answer, "retry-after").parse().unwrap();
        assert!((1..=61).contains(&wait), "{method}: {wait}");
        let (_, error) = read(answer).await;
        assert_eq!(
            error["error"]["code"], "QUOTA_EXCEEDED",
            "{method}: {error}"
        );
        assert_eq!(
            error["error"]["details"]["retryAfterSeconds"], wait,
            "{method}"
        );
    }
}

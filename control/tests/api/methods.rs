//! Every method of the API: that it is there, and who may call it.

use serde_json::{Value, json};

use crate::server::{Server, read, write_config};

const FLEET: &str = "compute:fleet:admin";
const READ: &str = "compute:pool:read";
const POOL: &str = "compute:pool:admin";
const TENANT: &str = "compute:tenant:admin";

fn id(prefix: &str) -> String {
    format!("{prefix}_00000000000000000000000000")
}

/// A method, the permission that it wants, and the fields of a call that parses, beside the tenant.
type Row = (&'static str, &'static str, Value);

fn methods() -> Vec<Row> {
    [fleet(), pools(), tenants()].concat()
}

fn fleet() -> Vec<Row> {
    let rollout = json!({ "rolloutId": id("rollout") });
    let release = json!({ "version": "1.0.0" });
    vec![
        ("releases/register", FLEET, json!({ "manifest": {} })),
        ("releases/list", FLEET, json!({})),
        ("releases/get", FLEET, release.clone()),
        ("rollouts/create", FLEET, release.clone()),
        ("rollouts/plan", FLEET, release),
        ("rollouts/list", FLEET, json!({})),
        ("rollouts/get", FLEET, rollout.clone()),
        (
            "rollouts/explain",
            FLEET,
            json!({ "rolloutId": id("rollout"), "nodeId": id("node") }),
        ),
        ("rollouts/pause", FLEET, rollout.clone()),
        ("rollouts/resume", FLEET, rollout.clone()),
        ("rollouts/abort", FLEET, rollout.clone()),
        ("rollouts/retry", FLEET, rollout),
        (
            "workflows/create",
            FLEET,
            json!({ "nodeId": id("node"), "kind": "reboot" }),
        ),
        ("workflows/list", FLEET, json!({})),
        (
            "workflows/update",
            FLEET,
            json!({ "workflowId": id("wf"), "state": "running" }),
        ),
        ("fleet/freeze", FLEET, json!({ "reason": "x" })),
        ("fleet/unfreeze", FLEET, json!({})),
        ("fleet/summary", FLEET, json!({})),
        (
            "gateways/enrol",
            FLEET,
            json!({ "name": "x", "url": "wss://x/session" }),
        ),
        ("gateways/list", FLEET, json!({})),
        ("gateways/remove", FLEET, json!({ "gatewayId": id("gw") })),
    ]
}

fn pools() -> Vec<Row> {
    let pool = json!({ "poolId": id("pool") });
    let node = json!({ "nodeId": id("node") });
    vec![
        ("pools/create", POOL, json!({ "name": "x" })),
        ("pools/list", READ, json!({})),
        ("pools/get", READ, pool.clone()),
        ("pools/update", POOL, pool.clone()),
        ("pools/archive", POOL, pool.clone()),
        ("pools/unarchive", POOL, pool),
        ("nodes/list", READ, json!({})),
        ("nodes/get", READ, node.clone()),
        ("nodes/update", POOL, node.clone()),
        ("nodes/remove", POOL, node.clone()),
        (
            "joinTokens/create",
            POOL,
            json!({ "poolId": id("pool"), "uses": 1, "expiresInSeconds": 60 }),
        ),
        ("joinTokens/list", POOL, json!({})),
        (
            "joinTokens/revoke",
            POOL,
            json!({ "joinTokenId": id("bcjt") }),
        ),
        (
            "commands/create",
            POOL,
            json!({ "nodeId": id("node"), "kind": "daemon.restart" }),
        ),
        ("commands/list", READ, json!({})),
        ("commands/get", READ, json!({ "commandId": id("cmd") })),
    ]
}

fn tenants() -> Vec<Row> {
    vec![
        (
            "webhooks/create",
            TENANT,
            json!({ "url": "https://hooks.example/x" }),
        ),
        ("webhooks/list", TENANT, json!({})),
        ("webhooks/delete", TENANT, json!({ "webhookId": id("whk") })),
        ("webhooks/test", TENANT, json!({ "webhookId": id("whk") })),
        (
            "webhooks/deliveries",
            TENANT,
            json!({ "webhookId": id("whk") }),
        ),
        ("events/list", READ, json!({})),
        ("events/watch", READ, json!({})),
        (
            "tokens/create",
            TENANT,
            json!({ "subject": "eve", "permissions": [TENANT] }),
        ),
        ("tokens/list", TENANT, json!({})),
        ("tokens/revoke", TENANT, json!({ "tokenId": id("tok") })),
    ]
}

/// Who may do everything but that. Whoever may change pools may look at them.
fn all_but(permission: &str) -> Vec<&'static str> {
    let all = [FLEET, READ, POOL, TENANT];
    let covers = |other: &&str| match permission {
        READ => [READ, POOL].contains(other),
        permission => **other == *permission,
    };
    all.into_iter().filter(|other| !covers(other)).collect()
}

#[tokio::test]
async fn every_method_is_there_for_those_who_may_and_for_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    write_config(dir.path(), "limits = { wrong_tokens_per_minute = 1000 }");
    let server = Server::start_in(dir);
    for (method, permission, fields) in methods() {
        let described = server.contract().await.permissions(method);
        assert!(described.contains(&permission), "{method}: {described:?}");
        let mut body = fields;
        body["tenantId"] = json!("root");
        let others = if method.starts_with("events/") {
            // Each permission shows some of them: he has none here, whatever he has elsewhere.
            server.token("acme", &all_but("")).await
        } else {
            server.token("root", &all_but(permission)).await
        };
        let (status, error) = server.call_as(&others, method, body.clone()).await;
        assert_eq!(
            (status, &error["error"]["code"]),
            (403, &json!("ACCESS_DENIED")),
            "{method}: {error}"
        );
        let (status, error) = server.call_as("tok_x.y", method, body.clone()).await;
        assert_eq!(
            (status, &error["error"]["code"]),
            (401, &json!("UNAUTHENTICATED")),
            "{method}: {error}"
        );
        // That permission is enough, in the tenant that it is for: what is wrong from here on is something else.
        let enough = server.token("root", &[permission]).await;
        let answer = server
            .post(method, &enough)
            .json(&body)
            .send()
            .await
            .unwrap();
        let status = answer.status().as_u16();
        assert!(![401, 403].contains(&status), "{method}: {status}");
        // A field that nobody knows is named, whoever sends it.
        body["unheardOf"] = json!(1);
        let error = server.refused(method, body.clone()).await;
        assert_eq!(error["code"], "INVALID_INPUT", "{method}: {error}");
        assert_eq!(error["details"]["field"], "unheardOf", "{method}: {error}");
        // So is a tenant that is none, and one that is missing.
        let bare = body.as_object_mut().unwrap();
        bare.remove("unheardOf");
        for wrong in [Some(json!("a b")), Some(json!("x".repeat(129))), None] {
            bare.remove("tenantId");
            bare.extend(wrong.map(|wrong| ("tenantId".to_owned(), wrong)));
            let error = server.refused(method, Value::Object(bare.clone())).await;
            assert_eq!(error["details"]["field"], "tenantId", "{method}: {error}");
        }
    }
}

#[tokio::test]
async fn the_description_has_these_methods_and_the_three_that_have_no_api_token() {
    let server = Server::start();
    let contract = server.contract().await;
    let paths = contract.document["paths"].as_object().unwrap();
    let mut described: Vec<&str> = paths
        .iter()
        .filter(|(_, item)| !item["post"].is_null())
        .filter_map(|(path, _)| path.strip_prefix("/api/compute/"))
        .collect();
    described.sort_unstable();
    let mut known: Vec<&str> = methods().into_iter().map(|(method, ..)| method).collect();
    known.extend(["nodes/join", "nodes/renew", "gateways/join"]);
    known.sort_unstable();
    assert_eq!(described, known);
}

/// Only the root tenant has a fleet, gateways and releases: whoever administers another one is told no.
#[tokio::test]
async fn what_concerns_the_fleet_is_decided_in_the_root_tenant() {
    let server = Server::start();
    let foreign = server.token("acme", &[POOL, TENANT]).await;
    for (method, permission, fields) in methods() {
        if permission != FLEET {
            continue;
        }
        let mut body = fields;
        body["tenantId"] = json!("acme");
        let (status, error) = server.call_as(&foreign, method, body).await;
        assert_eq!(status, 403, "{method}: {error}");
    }
    let answer = server.post("fleet/summary", "").json(&json!({}));
    let answer = answer.send().await.unwrap();
    assert_eq!(answer.headers()["www-authenticate"], "Bearer");
    assert_eq!(read(answer).await.0, 401);
}

//! I31: what one tenant sees does not depend on another.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    joining::joined,
    server::{Release, Server},
};

/// Methods that name nothing that could be another tenant's.
const NAMELESS: [&str; 23] = [
    "releases/register",
    "releases/list",
    "releases/get",
    "rollouts/list",
    "fleet/freeze",
    "fleet/unfreeze",
    "fleet/summary",
    "pools/create",
    "pools/list",
    "nodes/join",
    "nodes/renew",
    "gateways/enrol",
    "gateways/join",
    "gateways/list",
    // Gateways are the platform's.
    "gateways/remove",
    "tokens/create",
    "tokens/list",
    "webhooks/create",
    "webhooks/list",
    // A subject that is another tenant's filters like one that nobody has.
    "events/list",
    "events/watch",
    "workflows/list",
    "commands/list",
];

/// What a tenant has.
struct Things {
    pool: String,
    node: String,
    join_token: String,
    token: String,
    hook: String,
    rollout: String,
    workflow: String,
    command: String,
}

fn id(of: &Value) -> String {
    of["id"].as_str().unwrap().to_owned()
}

impl Things {
    /// Makes one of each kind, as the administrator of the platform or as one of the tenant.
    async fn of(server: &Server, tenant: &str, token: &str) -> Self {
        let make = async |by: &str, method: &str, mut body: Value| {
            body["tenantId"] = json!(tenant);
            let (status, made) = server.call_as(by, method, body).await;
            assert_eq!(status, 200, "{method}: {made}");
            made
        };
        let pool = id(&make(token, "pools/create", json!({ "name": "edge" })).await);
        let request = json!({ "poolId": pool, "uses": 1, "expiresInSeconds": 60 });
        let join = make(token, "joinTokens/create", request).await;
        let node = joined(server, join["token"].as_str().unwrap()).await;
        let request = json!({ "subject": "bob", "permissions": ["compute:pool:read"] });
        let made = make(token, "tokens/create", request).await;
        let hook = json!({ "url": "https://receiver.example/" });
        let hook = make(token, "webhooks/create", hook).await;
        let kind = json!({ "nodeId": node, "kind": "daemon.restart" });
        let command = make(token, "commands/create", kind).await;
        let repair = json!({ "nodeId": node, "kind": "repair" });
        let admin = &server.admin;
        let workflow = make(admin, "workflows/create", repair).await;
        let version = json!({ "version": "1.0.0" });
        let rollout = make(admin, "rollouts/create", version).await;
        Self {
            pool,
            node,
            join_token: id(&join),
            token: id(&made),
            hook: id(&hook),
            rollout: id(&rollout),
            workflow: id(&workflow),
            command: id(&command),
        }
    }
}

/// Every method that names something, with where it names it. `own` is what the asking tenant has itself.
fn calls(own: &Things, theirs: &Things) -> Vec<(&'static str, Value, String)> {
    let at = |field: &str, mut body: Value| {
        body[field] = json!("ID");
        body
    };
    let none = || json!({});
    let reason = || json!({ "reason": "x" });
    let join = json!({ "uses": 1, "expiresInSeconds": 60 });
    let listed = |field: &str| {
        let mut body = json!({ "version": "1.0.0" });
        body[field] = json!(["ID"]);
        body
    };
    let retry = json!({ "rolloutId": own.rollout, "nodeIds": ["ID"] });
    let done = json!({ "state": "succeeded" });
    let repair = json!({ "kind": "repair" });
    let restart = json!({ "kind": "daemon.restart" });
    let maintenance = json!({ "maintenance": true });
    let Things {
        pool,
        node,
        join_token,
        token,
        hook,
        rollout,
        workflow,
        command,
    } = theirs;
    [
        ("pools/get", at("poolId", none()), pool),
        ("pools/update", at("poolId", json!({ "name": "x" })), pool),
        ("pools/archive", at("poolId", none()), pool),
        ("pools/unarchive", at("poolId", none()), pool),
        ("nodes/list", at("poolId", none()), pool),
        ("nodes/get", at("nodeId", none()), node),
        ("nodes/update", at("nodeId", maintenance), node),
        ("nodes/remove", at("nodeId", none()), node),
        ("joinTokens/create", at("poolId", join), pool),
        ("joinTokens/list", at("poolId", none()), pool),
        ("joinTokens/revoke", at("joinTokenId", none()), join_token),
        ("tokens/revoke", at("tokenId", none()), token),
        ("webhooks/delete", at("webhookId", none()), hook),
        ("webhooks/test", at("webhookId", none()), hook),
        ("webhooks/deliveries", at("webhookId", none()), hook),
        ("commands/create", at("nodeId", restart), node),
        ("commands/get", at("commandId", none()), command),
        ("workflows/create", at("nodeId", repair), node),
        ("workflows/update", at("workflowId", done), workflow),
        ("rollouts/create", listed("poolIds"), pool),
        ("rollouts/create", listed("nodeIds"), node),
        ("rollouts/plan", listed("poolIds"), pool),
        ("rollouts/plan", listed("nodeIds"), node),
        ("rollouts/get", at("rolloutId", none()), rollout),
        ("rollouts/pause", at("rolloutId", reason()), rollout),
        ("rollouts/resume", at("rolloutId", none()), rollout),
        ("rollouts/abort", at("rolloutId", reason()), rollout),
        ("rollouts/retry", at("rolloutId", none()), rollout),
        ("rollouts/retry", retry, node),
        (
            "rollouts/explain",
            at("rolloutId", json!({ "nodeId": own.node })),
            rollout,
        ),
        (
            "rollouts/explain",
            at("nodeId", json!({ "rolloutId": own.rollout })),
            node,
        ),
    ]
    .map(|(method, body, id)| (method, body, id.clone()))
    .into()
}

/// Methods that filter by something: what is another tenant's filters everything out, like what nobody has.
fn filters(theirs: &Things) -> Vec<(&'static str, Value, String)> {
    let node = &theirs.node;
    let subject = |kind: &str| json!({ "subject": format!("{kind}/ID") });
    vec![
        ("commands/list", json!({ "nodeId": "ID" }), node.clone()),
        ("workflows/list", json!({ "nodeId": "ID" }), node.clone()),
        ("events/list", subject("node"), node.clone()),
        ("events/list", subject("rollout"), theirs.rollout.clone()),
        ("events/list", subject("pool"), theirs.pool.clone()),
    ]
}

/// The answer to a call with an id, in which the id itself does not show.
async fn answered(
    server: &Server,
    token: &str,
    (method, body): (&str, &Value),
    id: &str,
) -> (u16, String) {
    let mut body: Value =
        serde_json::from_str(&body.to_string().replace("ID\"", &format!("{id}\""))).unwrap();
    body["tenantId"] = json!("acme");
    let answer = server.post(method, token).json(&body).send().await.unwrap();
    let status = answer.status().as_u16();
    (status, answer.text().await.unwrap().replace(id, "ID"))
}

async fn two_tenants() -> (Server, String, Things, Things) {
    let server = Server::start();
    let acme = ["compute:pool:admin", "compute:tenant:admin"];
    let acme = server.token("acme", &acme).await;
    let (status, answer) = server.register(&Release::new("1.0.0", 1).manifest()).await;
    assert_eq!(status, 200, "{answer}");
    let own = Things::of(&server, "acme", &acme).await;
    let theirs = Things::of(&server, "root", &server.admin).await;
    (server, acme, own, theirs)
}

#[tokio::test]
async fn another_tenants_things_are_like_unknown_ones() {
    let (server, acme, own, theirs) = two_tenants().await;
    let calls = calls(&own, &theirs);
    for (method, body, id) in &calls {
        let unknown = format!("{}_{}", id.split('_').next().unwrap(), "0".repeat(26));
        for by in [&acme, &server.admin] {
            let known = answered(&server, by, (method, body), id).await;
            let unknown = answered(&server, by, (method, body), &unknown).await;
            assert_eq!(known, unknown, "{method} {body}");
            let fleets = ["rollouts/", "workflows/"];
            let expected = if *by == acme && fleets.iter().any(|fleet| method.starts_with(fleet)) {
                403
            } else if body["nodeIds"] == json!(["ID"]) && *method == "rollouts/retry" {
                // It runs, and is not looked into before it has completed.
                409
            } else {
                404
            };
            assert_eq!(known.0, expected, "{method} {body}: {}", known.1);
        }
    }
    for (method, body, id) in filters(&theirs) {
        let unknown = format!("{}_{}", id.split('_').next().unwrap(), "0".repeat(26));
        for by in [&acme, &server.admin] {
            let known = answered(&server, by, (method, &body), &id).await;
            let unknown = answered(&server, by, (method, &body), &unknown).await;
            assert_eq!(known, unknown, "{method} {body}");
        }
    }
    // A method that nobody has thought about here is missing in one of the lists.
    let described = &server.contract().await.document["paths"];
    let described = described.as_object().unwrap().iter();
    let methods: BTreeSet<&str> = described
        .filter(|(_, path)| !path["post"].is_null())
        .filter_map(|(path, _)| path.strip_prefix("/api/compute/"))
        .collect();
    let named = calls.iter().map(|(method, _, _)| *method);
    assert_eq!(methods, named.chain(NAMELESS).collect());
}

#[tokio::test]
async fn lists_hold_the_tenants_own_and_change_with_nothing_else() {
    let (server, acme, own, theirs) = two_tenants().await;
    let lists = [
        ("pools/list", &acme),
        ("nodes/list", &acme),
        ("joinTokens/list", &acme),
        ("tokens/list", &acme),
        ("webhooks/list", &acme),
        ("commands/list", &acme),
        ("events/list", &acme),
        ("rollouts/list", &server.admin),
        ("workflows/list", &server.admin),
        ("fleet/summary", &server.admin),
    ];
    let seen = async || {
        let mut seen = Vec::new();
        for (method, by) in lists {
            let answer = answered(&server, by, (method, &json!({})), "-").await;
            assert_eq!(answer.0, 200, "{method}: {}", answer.1);
            seen.push((method, answer.1));
        }
        seen
    };
    let before = seen().await;
    for (method, answer) in &before {
        for foreign in [&theirs.pool, &theirs.node, &theirs.rollout, &theirs.hook] {
            assert!(!answer.contains(foreign.as_str()), "{method}: {answer}");
        }
    }
    assert!(before[0].1.contains(&own.pool) && before[7].1.contains(&own.rollout));
    // Whatever another tenant does.
    server.pool("another").await;
    for (method, mut body) in [
        ("fleet/freeze", json!({ "reason": "theirs" })),
        ("rollouts/pause", json!({ "rolloutId": theirs.rollout })),
        ("nodes/remove", json!({ "nodeId": theirs.node })),
        ("webhooks/delete", json!({ "webhookId": theirs.hook })),
    ] {
        body["tenantId"] = json!("root");
        server.call(method, body).await;
    }
    assert_eq!(seen().await, before);
}

#[tokio::test]
async fn nobody_is_another_tenant_by_saying_so() {
    let (server, acme, _, theirs) = two_tenants().await;
    for (method, body) in [
        ("pools/get", json!({ "poolId": theirs.pool })),
        ("pools/list", json!({})),
        ("nodes/get", json!({ "nodeId": theirs.node })),
        ("tokens/list", json!({})),
        ("webhooks/list", json!({})),
        ("events/list", json!({})),
        ("commands/get", json!({ "commandId": theirs.command })),
    ] {
        let mut body = body;
        body["tenantId"] = json!("root");
        let (status, answer) = server.call_as(&acme, method, body).await;
        assert_eq!(status, 403, "{method}: {answer}");
    }
}

/// One key of two tenants is two keys.
#[tokio::test]
async fn idempotency_keys_are_each_tenants_own() {
    let (server, _, own, theirs) = two_tenants().await;
    for (tenant, rollout) in [("acme", &own.rollout), ("root", &theirs.rollout)] {
        let abort = json!({ "tenantId": tenant, "rolloutId": rollout });
        server.call("rollouts/abort", abort).await;
    }
    let mut made = BTreeSet::new();
    for tenant in ["acme", "root", "acme"] {
        let request = json!({ "tenantId": tenant, "version": "1.0.0", "idempotencyKey": "k" });
        made.insert(id(&server.call("rollouts/create", request).await));
    }
    assert_eq!(made.len(), 2);
}

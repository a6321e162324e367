//! Calls, in an order in which each can be made, and what they cause.

use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

use crate::server::Release;

/// A call, and the event that it causes.
pub(super) struct Cause {
    pub(super) method: &'static str,
    /// `{name}` stands for the id that an earlier call gave.
    pub(super) body: Value,
    /// Under which name its own id is kept.
    pub(super) keeps: &'static str,
    /// The event's type, and its subject with the same marks.
    pub(super) kind: &'static str,
    pub(super) subject: &'static str,
}

fn cause(
    (method, body): (&'static str, Value),
    keeps: &'static str,
    (kind, subject): (&'static str, &'static str),
) -> Cause {
    Cause {
        method,
        body,
        keeps,
        kind,
        subject,
    }
}

fn csr() -> String {
    let key = KeyPair::generate().unwrap();
    let request = CertificateParams::default()
        .serialize_request(&key)
        .unwrap();
    request.pem().unwrap()
}

fn manifest(release: &Release) -> Value {
    let manifest: Value = serde_json::from_slice(&release.manifest()).unwrap();
    json!({ "manifest": manifest })
}

fn places() -> Vec<Cause> {
    let join = json!({ "poolId": "{pool}", "uses": 2, "expiresInSeconds": 60 });
    let renamed = json!({ "poolId": "{pool}", "name": "core" });
    let labelled = json!({ "nodeId": "{node}", "labels": { "rack": "7" } });
    let revoke = json!({ "joinTokenId": "{token}" });
    let pool = |name: &str| json!({ "name": name });
    vec![
        cause(
            ("pools/create", pool("edge")),
            "pool",
            ("pool.created", "pool/{pool}"),
        ),
        cause(
            ("pools/create", pool("old")),
            "old",
            ("pool.created", "pool/{old}"),
        ),
        cause(
            ("pools/update", renamed),
            "",
            ("pool.updated", "pool/{pool}"),
        ),
        cause(
            ("pools/archive", json!({ "poolId": "{old}" })),
            "",
            ("pool.archived", "pool/{old}"),
        ),
        cause(
            ("pools/unarchive", json!({ "poolId": "{old}" })),
            "",
            ("pool.unarchived", "pool/{old}"),
        ),
        cause(
            ("joinTokens/create", join),
            "token",
            ("join-token.created", "join-token/{token}"),
        ),
        cause(
            ("nodes/join", json!({ "csr": csr() })),
            "node",
            ("node.joined", "node/{node}"),
        ),
        cause(
            ("nodes/join", json!({ "csr": csr() })),
            "other",
            ("node.joined", "node/{other}"),
        ),
        cause(
            ("nodes/update", labelled),
            "",
            ("node.updated", "node/{node}"),
        ),
        cause(
            ("joinTokens/revoke", revoke),
            "",
            ("join-token.revoked", "join-token/{token}"),
        ),
        cause(
            (
                "gateways/enrol",
                json!({ "name": "gw1", "url": "wss://gw1.example/session" }),
            ),
            "gateway",
            ("gateway.created", "gateway/{gateway}"),
        ),
        cause(
            ("gateways/remove", json!({ "gatewayId": "{gateway}" })),
            "",
            ("gateway.removed", "gateway/{gateway}"),
        ),
    ]
}

fn holders() -> Vec<Cause> {
    let eve = json!({ "subject": "eve", "permissions": ["compute:pool:read"] });
    let hook = json!({ "url": "https://hooks.example/" });
    vec![
        cause(
            ("tokens/create", eve),
            "api",
            ("token.created", "token/{api}"),
        ),
        cause(
            ("tokens/revoke", json!({ "tokenId": "{api}" })),
            "",
            ("token.revoked", "token/{api}"),
        ),
        cause(
            ("webhooks/create", hook),
            "hook",
            ("webhook.created", "webhook/{hook}"),
        ),
        cause(
            ("webhooks/test", json!({ "webhookId": "{hook}" })),
            "",
            ("webhook.test", "webhook/{hook}"),
        ),
        cause(
            ("webhooks/delete", json!({ "webhookId": "{hook}" })),
            "",
            ("webhook.deleted", "webhook/{hook}"),
        ),
    ]
}

fn work() -> Vec<Cause> {
    let repair = json!({ "nodeId": "{node}", "kind": "repair" });
    let done = json!({ "workflowId": "{workflow}", "state": "cancelled" });
    let restart = json!({ "nodeId": "{node}", "kind": "daemon.restart" });
    let freeze = json!({ "reason": "a bad day" });
    vec![
        cause(
            ("workflows/create", repair),
            "workflow",
            ("workflow.created", "workflow/{workflow}"),
        ),
        cause(
            ("workflows/update", done),
            "",
            ("workflow.updated", "workflow/{workflow}"),
        ),
        cause(
            ("commands/create", restart),
            "command",
            ("command.created", "node/{node}"),
        ),
        cause(("fleet/freeze", freeze), "", ("fleet.frozen", "fleet/root")),
        cause(
            ("fleet/unfreeze", json!({})),
            "",
            ("fleet.unfrozen", "fleet/root"),
        ),
    ]
}

fn releases() -> Vec<Cause> {
    let release = Release::new("1.0.0", 1);
    let renewed = Release {
        issued: 1_700_000_009,
        ..release.clone()
    };
    let subject = "release/1.0.0";
    vec![
        cause(
            ("releases/register", manifest(&release)),
            "",
            ("release.registered", subject),
        ),
        cause(
            ("releases/register", manifest(&renewed)),
            "",
            ("release.renewed", subject),
        ),
    ]
}

fn rollouts() -> Vec<Cause> {
    let create = json!({ "version": "1.0.0", "waves": [50, 100], "soakSeconds": 0 });
    let this = || json!({ "rolloutId": "{rollout}" });
    let subject = "rollout/{rollout}";
    vec![
        cause(
            ("rollouts/create", create),
            "rollout",
            ("rollout.started", subject),
        ),
        cause(("rollouts/pause", this()), "", ("rollout.paused", subject)),
        cause(("rollouts/pause", this()), "", ("rollout.paused", subject)),
        cause(
            ("rollouts/resume", this()),
            "",
            ("rollout.resumed", subject),
        ),
        cause(
            ("rollouts/resume", this()),
            "",
            ("rollout.resumed", subject),
        ),
        cause(("rollouts/abort", this()), "", ("rollout.aborted", subject)),
        cause(
            ("nodes/remove", json!({ "nodeId": "{other}" })),
            "",
            ("node.removed", "node/{other}"),
        ),
    ]
}

pub(super) fn causes() -> Vec<Cause> {
    let mut causes = places();
    for more in [holders(), work(), releases(), rollouts()] {
        causes.extend(more);
    }
    causes
}

//! What is refused, and in which words.

use serde_json::{Value, json};

use super::House;
use crate::server::Release;

/// A method, what it is asked, the code that it answers, and what the details say at least.
pub(super) type Row = (&'static str, Value, &'static str, Value);

fn nobody(kind: &str) -> String {
    format!("{kind}_{}", "0".repeat(26))
}

impl House {
    pub(super) fn rows(&self) -> Vec<Row> {
        [
            self.releases(),
            self.creations(),
            self.rollouts(),
            self.workflows(),
            self.pools(),
            self.nodes(),
            self.commands(),
            self.tenants(),
        ]
        .concat()
    }

    fn releases(&self) -> Vec<Row> {
        let manifest = |release: Release| -> Value {
            let manifest: Value = serde_json::from_slice(&release.manifest()).unwrap();
            json!({ "manifest": manifest })
        };
        let other = Release {
            bytes: b"other".to_vec(),
            ..Release::new("1.0.0", 10)
        };
        let invalid = |reason: &str| json!({ "field": "manifest", "reason": reason });
        vec![
            (
                "releases/register",
                json!({ "manifest": {} }),
                "INVALID_INPUT",
                invalid("malformed"),
            ),
            (
                "releases/register",
                manifest(Release::new("1.2.0", 11)),
                "INVALID_INPUT",
                invalid("rollback"),
            ),
            (
                "releases/register",
                manifest(other),
                "CONFLICT",
                json!({ "version": "1.0.0" }),
            ),
            (
                "releases/register",
                manifest(Release::new("1.0.0", 12)),
                "CONFLICT",
                json!({ "version": "1.0.0" }),
            ),
            (
                "releases/get",
                json!({ "version": "9.9.9" }),
                "NOT_FOUND",
                json!({}),
            ),
        ]
    }

    /// `plan` refuses what `create` refuses, in the same words.
    fn creations(&self) -> Vec<Row> {
        let with = |field: &str, value: Value| {
            let mut body = json!({ "version": "1.1.0" });
            body[field] = value;
            body
        };
        let pool = nobody("pool");
        let busy = || json!({ "rolloutId": self.running });
        let rows = [
            (
                with("version", json!("9.9.9")),
                "NOT_FOUND",
                json!({ "version": "9.9.9" }),
            ),
            (
                with("poolIds", json!([pool])),
                "NOT_FOUND",
                json!({ "poolId": pool }),
            ),
            (
                with("poolIds", json!([self.pool, self.archived])),
                "NOT_FOUND",
                json!({ "poolId": self.archived }),
            ),
            (
                with("nodeIds", json!([self.removed])),
                "NOT_FOUND",
                json!({ "nodeId": self.removed }),
            ),
            (
                with("poolIds", json!([self.empty])),
                "INVALID_STATE",
                json!({}),
            ),
            (
                with("selector", json!({ "no": "such" })),
                "INVALID_STATE",
                json!({}),
            ),
            (with("poolIds", json!([self.pool])), "CONFLICT", busy()),
            (with("nodeIds", json!([self.node])), "CONFLICT", busy()),
            (with("idempotencyKey", json!("second")), "CONFLICT", busy()),
        ];
        let mut both: Vec<Row> = Vec::new();
        for (body, code, details) in rows {
            both.push(("rollouts/plan", body.clone(), code, details.clone()));
            both.push(("rollouts/create", body, code, details));
        }
        both
    }

    fn rollouts(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        let unknown = nobody("rollout");
        for method in [
            "rollouts/get",
            "rollouts/pause",
            "rollouts/resume",
            "rollouts/abort",
            "rollouts/retry",
        ] {
            let details = json!({ "rolloutId": unknown });
            rows.push((method, details.clone(), "NOT_FOUND", details));
        }
        for method in ["rollouts/pause", "rollouts/resume", "rollouts/abort"] {
            let this = json!({ "rolloutId": self.aborted });
            let details = json!({ "rolloutId": self.aborted, "state": "aborted" });
            rows.push((method, this, "INVALID_STATE", details));
        }
        for rollout in [&self.running, &self.aborted] {
            let this = json!({ "rolloutId": rollout });
            rows.push(("rollouts/retry", this.clone(), "INVALID_STATE", this));
        }
        let (node, rollout) = (nobody("node"), &self.running);
        let explain = |rollout: &str, node: &str| json!({ "rolloutId": rollout, "nodeId": node });
        rows.push((
            "rollouts/explain",
            explain(rollout, &node),
            "NOT_FOUND",
            json!({ "nodeId": node }),
        ));
        rows.push((
            "rollouts/explain",
            explain(&unknown, &self.node),
            "NOT_FOUND",
            json!({ "rolloutId": unknown }),
        ));
        rows
    }

    fn workflows(&self) -> Vec<Row> {
        let create = |node: &str, kind: &str, key: &str| json!({ "nodeId": node, "kind": kind, "idempotencyKey": key });
        let update = |id: &str, state: &str| json!({ "workflowId": id, "state": state });
        let (node, workflow) = (nobody("node"), nobody("wf"));
        vec![
            (
                "workflows/create",
                create(&node, "repair", "new"),
                "NOT_FOUND",
                json!({ "nodeId": node }),
            ),
            (
                "workflows/create",
                create(&self.removed, "repair", "new"),
                "NOT_FOUND",
                json!({ "nodeId": self.removed }),
            ),
            (
                "workflows/create",
                create(&self.node, "reboot", "k"),
                "CONFLICT",
                json!({ "workflowId": self.ended }),
            ),
            (
                "workflows/update",
                update(&workflow, "running"),
                "NOT_FOUND",
                json!({ "workflowId": workflow }),
            ),
            (
                "workflows/update",
                update(&self.ended, "running"),
                "INVALID_STATE",
                json!({ "from": "cancelled", "to": "running" }),
            ),
        ]
    }

    fn pools(&self) -> Vec<Row> {
        let (pool, other) = (nobody("pool"), &self.empty);
        let one = |id: &str| json!({ "poolId": id });
        let renamed = |id: &str, name: &str| json!({ "poolId": id, "name": name });
        let join = |id: &str| json!({ "poolId": id, "uses": 1, "expiresInSeconds": 60 });
        let taken = || json!({ "field": "name" });
        vec![
            (
                "pools/create",
                json!({ "name": "edge" }),
                "CONFLICT",
                taken(),
            ),
            ("pools/update", renamed(other, "edge"), "CONFLICT", taken()),
            (
                "pools/update",
                renamed(&self.archived, "x"),
                "INVALID_STATE",
                json!({}),
            ),
            ("pools/update", renamed(&pool, "x"), "NOT_FOUND", json!({})),
            ("pools/get", one(&pool), "NOT_FOUND", json!({})),
            ("pools/archive", one(&pool), "NOT_FOUND", json!({})),
            ("pools/unarchive", one(&pool), "NOT_FOUND", json!({})),
            ("pools/unarchive", one(&self.archived), "CONFLICT", taken()),
            ("joinTokens/create", join(&pool), "NOT_FOUND", json!({})),
            (
                "joinTokens/create",
                join(&self.archived),
                "INVALID_STATE",
                json!({}),
            ),
            ("joinTokens/list", one(&pool), "NOT_FOUND", json!({})),
            (
                "joinTokens/revoke",
                json!({ "joinTokenId": nobody("bcjt") }),
                "NOT_FOUND",
                json!({}),
            ),
        ]
    }

    fn nodes(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = vec![(
            "nodes/list",
            json!({ "poolId": nobody("pool") }),
            "NOT_FOUND",
            json!({}),
        )];
        for id in [&nobody("node"), &self.removed] {
            let one = json!({ "nodeId": id });
            rows.push(("nodes/get", one.clone(), "NOT_FOUND", json!({})));
            let update = json!({ "nodeId": id, "maintenance": true });
            rows.push(("nodes/update", update, "NOT_FOUND", json!({})));
        }
        let remove = json!({ "nodeId": nobody("node") });
        rows.push(("nodes/remove", remove, "NOT_FOUND", json!({})));
        rows
    }

    fn commands(&self) -> Vec<Row> {
        let create = |node: &str, kind: &str, key: &str| json!({ "nodeId": node, "kind": kind, "idempotencyKey": key });
        let mut loaded = create(&self.node, "daemon.restart", "new");
        loaded["payload"] = json!({ "collect": ["disk"] });
        let field = |field: &str| json!({ "field": field });
        let (node, free) = (nobody("node"), "new");
        vec![
            (
                "commands/create",
                create(&node, "daemon.restart", free),
                "NOT_FOUND",
                json!({}),
            ),
            (
                "commands/create",
                create(&self.removed, "daemon.restart", free),
                "NOT_FOUND",
                json!({}),
            ),
            (
                "commands/create",
                create(&self.node, "diagnostics.collect", "k"),
                "CONFLICT",
                json!({}),
            ),
            (
                "commands/create",
                create(&self.node, "daemon.upgrade", free),
                "INVALID_INPUT",
                field("kind"),
            ),
            (
                "commands/create",
                create(&self.node, "daemon.restart", "rollout:x"),
                "INVALID_INPUT",
                field("idempotencyKey"),
            ),
            ("commands/create", loaded, "INVALID_INPUT", field("payload")),
            (
                "commands/get",
                json!({ "commandId": nobody("cmd") }),
                "NOT_FOUND",
                json!({}),
            ),
        ]
    }

    fn tenants(&self) -> Vec<Row> {
        let gateway = json!({ "name": "gw1", "url": "wss://other.example/session" });
        let permissions = json!({ "subject": "eve", "permissions": ["compute:all"] });
        let hook = json!({ "webhookId": nobody("whk") });
        vec![
            (
                "gateways/enrol",
                gateway,
                "CONFLICT",
                json!({ "field": "name" }),
            ),
            (
                "gateways/remove",
                json!({ "gatewayId": nobody("gw") }),
                "NOT_FOUND",
                json!({}),
            ),
            ("webhooks/delete", hook.clone(), "NOT_FOUND", json!({})),
            ("webhooks/test", hook.clone(), "NOT_FOUND", json!({})),
            ("webhooks/deliveries", hook, "NOT_FOUND", json!({})),
            (
                "webhooks/deliveries",
                json!({ "webhookId": self.hook, "limit": 0 }),
                "INVALID_INPUT",
                json!({ "field": "limit" }),
            ),
            (
                "tokens/create",
                permissions,
                "INVALID_INPUT",
                json!({ "field": "permissions" }),
            ),
            (
                "tokens/revoke",
                json!({ "tokenId": nobody("tok") }),
                "NOT_FOUND",
                json!({}),
            ),
        ]
    }
}

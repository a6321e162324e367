//! Where each field of a call ends, as a value that is taken and one that is not.

use serde_json::{Value, json};

/// A method, the rest of a call, a field, a value at the edge of what it may be, and one beyond.
type Edge = (&'static str, Value, &'static str, Value, Value);

fn id(prefix: &str) -> String {
    format!("{prefix}_{}", "0".repeat(26))
}

fn long(length: usize) -> Value {
    json!("x".repeat(length))
}

const YEAR: u32 = 365 * 24 * 3600;

pub(super) fn of(node: &str) -> Vec<Edge> {
    [rollouts(), pools(), tokens(), work(node)].concat()
}

#[rustfmt::skip]
fn rollouts() -> Vec<Edge> {
    let plan = |field, good, bad| ("rollouts/plan", json!({ "version": "1.0.0" }), field, good, bad);
    let rising = |count: u32| json!((101 - count..=100).collect::<Vec<u32>>());
    vec![
        plan("soakSeconds", json!(604_800), json!(604_801)),
        plan("soakSeconds", json!(0), json!(-1)),
        plan("upgradeTimeoutSeconds", json!(60), json!(59)),
        plan("upgradeTimeoutSeconds", json!(86_400), json!(86_401)),
        plan("waves", rising(10), rising(11)),
        plan("maxFailureRatio", json!(1), json!(1.1)),
        plan("idempotencyKey", long(128), long(129)),
        plan("idempotencyKey", json!("a:/b"), json!("a b")),
        plan("selector", json!({ "a": "b" }), json!({})),
        ("rollouts/pause", json!({ "rolloutId": id("rollout") }), "reason", long(500), long(501)),
        ("fleet/freeze", json!({}), "reason", long(500), long(501)),
    ]
}

#[rustfmt::skip]
fn pools() -> Vec<Edge> {
    let join = || json!({ "poolId": id("pool"), "uses": 1, "expiresInSeconds": 60 });
    vec![
        ("pools/create", json!({}), "name", long(100), long(101)),
        ("pools/create", json!({}), "name", long(1), long(0)),
        ("joinTokens/create", join(), "uses", json!(100_000), json!(100_001)),
        ("joinTokens/create", join(), "uses", json!(1), json!(0)),
        ("joinTokens/create", join(), "expiresInSeconds", json!(YEAR), json!(YEAR + 1)),
        ("joinTokens/create", join(), "expiresInSeconds", json!(0.5), json!(0)),
        ("nodes/list", json!({}), "limit", json!(10_000), json!(10_001)),
        ("gateways/enrol", json!({ "url": "wss://x/session" }), "name", long(63), long(64)),
    ]
}

#[rustfmt::skip]
fn tokens() -> Vec<Edge> {
    let token = || json!({ "subject": "ci", "permissions": ["compute:pool:read"] });
    let permitted = |word: &str| json!([word]);
    vec![
        ("tokens/create", token(), "subject", long(128), long(129)),
        ("tokens/create", token(), "expiresInSeconds", json!(YEAR), json!(YEAR + 1)),
        ("tokens/create", token(), "permissions", permitted("compute:pool:admin"), permitted("all")),
        ("tokens/create", token(), "permissions", permitted("compute:pool:admin"), json!([])),
        ("events/list", json!({}), "limit", json!(1000), json!(1001)),
        ("events/list", json!({}), "limit", json!(1), json!(0)),
    ]
}

#[rustfmt::skip]
fn work(node: &str) -> Vec<Edge> {
    let command = || json!({ "nodeId": node, "kind": "daemon.restart" });
    let workflow = || json!({ "nodeId": node, "kind": "reboot" });
    vec![
        ("commands/create", command(), "expiresInSeconds", json!(2_592_000), json!(2_592_001)),
        ("commands/create", command(), "expiresInSeconds", json!(1), json!(0.5)),
        ("commands/create", command(), "idempotencyKey", long(128), long(129)),
        ("workflows/create", workflow(), "kind", long(64), long(65)),
        ("workflows/create", workflow(), "kind", json!("replace-disk"), json!("Reboot")),
    ]
}

//! Fields of calls, with what they just take and what they just do not.

use serde_json::{Value, json};

/// A field of a call, the values that it just takes, and those that it just does not.
#[derive(Clone)]
pub(super) struct Bound {
    pub(super) method: &'static str,
    pub(super) field: &'static str,
    pub(super) good: Vec<Value>,
    pub(super) bad: Vec<Value>,
}

fn bound(method: &'static str, field: &'static str, good: Vec<Value>, bad: Vec<Value>) -> Bound {
    Bound {
        method,
        field,
        good,
        bad,
    }
}

pub(super) fn many(count: usize, item: impl Fn(usize) -> String) -> Value {
    (0..count).map(item).collect()
}

pub(super) fn labels(count: usize) -> Value {
    let one = |number: usize| (format!("l{number}"), json!("x"));
    Value::Object((0..count).map(one).collect())
}

/// The bounds of a rollout, of which nothing is stored to find out.
fn rollouts() -> Vec<Bound> {
    let plan = |field, good, bad| bound("rollouts/plan", field, good, bad);
    vec![
        plan(
            "waves",
            vec![
                json!([100]),
                json!([0.0001, 100]),
                json!([1, 2, 3, 4, 5, 6, 7, 8, 9, 100]),
                json!([99.9999, 100]),
            ],
            vec![
                json!([]),
                json!([0, 100]),
                json!([0.00001, 100]),
                json!([50]),
                json!([100, 100]),
                json!([100.0001]),
                json!([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 100]),
                json!([-1, 100]),
                json!(["50", 100]),
                json!(100),
            ],
        ),
        plan(
            "maxFailureRatio",
            vec![json!(0), json!(0.000001), json!(1), json!(1.0)],
            vec![
                json!(-0.000001),
                json!(1.000001),
                json!(0.0000001),
                json!("0.5"),
            ],
        ),
        plan(
            "soakSeconds",
            vec![json!(0), json!(0.5), json!(604_800)],
            vec![json!(-0.5), json!(604_800.5), json!("10"), json!(1e300)],
        ),
        plan(
            "upgradeTimeoutSeconds",
            vec![json!(60), json!(60.5), json!(86_400)],
            vec![json!(59.9), json!(86_400.5), json!(0), json!(-60)],
        ),
        plan(
            "idempotencyKey",
            vec![json!("k"), json!("Az09._~:/+=-"), json!("k".repeat(128))],
            vec![
                json!(""),
                json!("k".repeat(129)),
                json!("a b"),
                json!("é"),
                json!("a\u{0}"),
            ],
        ),
        plan(
            "version",
            vec![json!("1.0.0"), json!("v1.0.0")],
            vec![
                json!("1.0"),
                json!("vv1.0.0"),
                json!("1.0.0-"),
                json!("1.0.0-a/b"),
                json!(" 1.0.0"),
            ],
        ),
    ]
}

/// How long lists may be; what they name is not there, which is told only once the list itself is good.
fn lists() -> Vec<Bound> {
    let id = |kind: &'static str| move |number: usize| format!("{kind}_{number:026}");
    let plan = |field, bad| bound("rollouts/plan", field, vec![], bad);
    vec![
        plan("poolIds", vec![json!([]), many(1001, id("pool"))]),
        plan("nodeIds", vec![json!([]), many(10_001, id("node"))]),
        plan("selector", vec![json!({}), labels(65)]),
    ]
}

fn pools() -> Vec<Bound> {
    let budget = |share: Value| json!({ "disruptionBudget": share });
    vec![
        bound(
            "pools/create",
            "name",
            vec![json!("x"), json!("ä".repeat(100)), json!("two words")],
            vec![
                json!(""),
                json!("ä".repeat(101)),
                json!("x "),
                json!("a\nb"),
                json!("\u{1b}[1m"),
            ],
        ),
        bound(
            "pools/update",
            "policy.disruptionBudget",
            vec![budget(json!(0)), budget(json!(1)), budget(json!(0.000001))],
            vec![
                budget(json!(1.000001)),
                budget(json!(-1)),
                budget(json!(0.0000001)),
            ],
        ),
        bound(
            "joinTokens/create",
            "uses",
            vec![json!(1), json!(100_000)],
            vec![
                json!(0),
                json!(100_001),
                json!(-1),
                json!(1.5),
                json!(4_294_967_296_u64),
            ],
        ),
        bound(
            "joinTokens/create",
            "expiresInSeconds",
            vec![json!(0.5), json!(31_536_000)],
            vec![json!(0), json!(31_536_001), json!(-1)],
        ),
        bound(
            "nodes/update",
            "labels",
            vec![
                json!({ "k".repeat(256): "v".repeat(256) }),
                labels(60),
                json!({ "l0": null }),
            ],
            vec![
                json!({ "": "x" }),
                json!({ "k".repeat(257): "x" }),
                json!({ "k": "v".repeat(257) }),
                labels(65),
            ],
        ),
    ]
}

fn work() -> Vec<Bound> {
    let reason = || {
        (
            vec![json!(""), json!("é".repeat(500)), json!("two\nlines")],
            vec![json!("é".repeat(501)), json!("\u{0}"), json!("\u{1b}[2J")],
        )
    };
    let mut bounds = vec![
        bound(
            "commands/create",
            "expiresInSeconds",
            vec![json!(1), json!(1.5), json!(2_592_000)],
            vec![json!(0.9), json!(2_592_001), json!(-1)],
        ),
        bound(
            "commands/create",
            "idempotencyKey",
            vec![json!("k".repeat(128))],
            vec![
                json!(""),
                json!("k".repeat(129)),
                json!("a b"),
                json!("rollout:x"),
            ],
        ),
        bound(
            "workflows/create",
            "kind",
            vec![json!("x"), json!("k".repeat(64))],
            vec![json!(""), json!("k".repeat(65)), json!("a b")],
        ),
        bound(
            "workflows/create",
            "idempotencyKey",
            vec![json!("k".repeat(128))],
            vec![json!(""), json!("k".repeat(129)), json!("a b")],
        ),
    ];
    for method in ["fleet/freeze", "rollouts/pause", "workflows/create"] {
        let (good, bad) = reason();
        bounds.push(bound(method, "reason", good, bad));
    }
    bounds
}

fn house() -> Vec<Bound> {
    vec![
        bound(
            "gateways/enrol",
            "name",
            vec![json!("g"), json!("g".repeat(63))],
            vec![json!(""), json!("g".repeat(64)), json!("a b"), json!("ä")],
        ),
        bound(
            "tokens/create",
            "subject",
            vec![json!("s"), json!("é".repeat(128))],
            vec![json!(""), json!("é".repeat(129)), json!("a\nb")],
        ),
        bound(
            "tokens/create",
            "permissions",
            vec![json!(["compute:pool:read"])],
            vec![
                json!([]),
                json!(["compute:pool:write"]),
                json!(["compute:pool:read", ""]),
            ],
        ),
        bound(
            "events/list",
            "limit",
            vec![json!(1), json!(1000), json!(null)],
            vec![json!(0), json!(1001), json!(-1), json!(1.5)],
        ),
        bound(
            "nodes/list",
            "limit",
            vec![json!(1), json!(10_000), json!(null)],
            vec![json!(0), json!(10_001), json!(-1)],
        ),
        bound(
            "events/list",
            "types",
            vec![json!([]), many(50, |_| "pool.*".to_owned())],
            vec![
                many(51, |_| "pool.*".to_owned()),
                json!(["*"]),
                json!(["pool"]),
                json!(["POOL.*"]),
            ],
        ),
    ]
}

fn hooks() -> Vec<Bound> {
    vec![
        bound(
            "webhooks/deliveries",
            "limit",
            vec![json!(1), json!(1000)],
            vec![json!(0), json!(1001)],
        ),
        bound(
            "webhooks/create",
            "types",
            vec![many(50, |_| "pool.*".to_owned())],
            vec![many(51, |_| "pool.*".to_owned()), json!(["pool.cre*"])],
        ),
        bound(
            "webhooks/create",
            "url",
            vec![json!(format!(
                "https://hooks.example/{}",
                "x".repeat(2_026)
            ))],
            vec![
                json!(format!("https://hooks.example/{}", "x".repeat(2_027))),
                json!("http://hooks.example/"),
                json!("ftp://hooks.example/"),
            ],
        ),
    ]
}

/// All of them.
pub(super) fn all() -> Vec<Bound> {
    [rollouts(), lists(), pools(), work(), house(), hooks()].concat()
}

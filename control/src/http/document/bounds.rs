//! What fields may be, and what they are where nobody says.
//!
//! Every bound stands where it is checked; here it is put beside the field, in JSON Schema's words, so that description and
//! check cannot differ. What one value's type alone demands is in `api::words`.

use serde_json::{Map, Value, json};

use crate::{
    access::{action::Action, token},
    api::{fleet::PoolPolicy, reason},
    command::limits as commands,
    event::filter,
    fleet::{gateway, join, node, pool},
    http::events,
    rollout::limits as rollouts,
    workflow::store as workflows,
};

/// A type, one of its fields, and what is to be said of that.
type Bound = (&'static str, &'static str, Value);

/// Puts every bound beside its field; gives those that fit nowhere.
pub(super) fn apply(document: &mut Value) -> Vec<String> {
    let mut lost = Vec::new();
    for (kind, field, words) in all() {
        let place = format!("/components/schemas/{kind}/properties/{field}");
        match (document.pointer_mut(&place), words) {
            (Some(Value::Object(schema)), Value::Object(words)) => schema.extend(words),
            (Some(_) | None, _) => lost.push(place),
        }
    }
    lost
}

fn all() -> Vec<Bound> {
    [rollouts(), reasons(), pools(), tokens(), events(), others()].concat()
}

fn rollouts() -> Vec<Bound> {
    let of = |field, words| ("CreateRollout", field, words);
    let timeout = &rollouts::TIMEOUT_SECONDS;
    let ratio = f64::from(rollouts::FAILURE_PPM_DEFAULT) / 1_000_000.0;
    let waves: Vec<u32> = rollouts::WAVES_DEFAULT
        .iter()
        .filter_map(|text| text.parse().ok())
        .collect();
    vec![
        of("poolIds", items(rollouts::POOLS_MAX)),
        of("nodeIds", items(rollouts::NODES_MAX)),
        of(
            "selector",
            json!({ "minProperties": 1, "maxProperties": rollouts::SELECTOR_MAX }),
        ),
        of(
            "waves",
            with(items(rollouts::WAVES_MAX), json!({ "default": waves })),
        ),
        of("maxFailureRatio", json!({ "default": ratio })),
        of(
            "soakSeconds",
            json!({
                "minimum": 0,
                "maximum": rollouts::SOAK_SECONDS_MAX,
                "default": rollouts::SOAK_SECONDS_DEFAULT,
            }),
        ),
        of(
            "upgradeTimeoutSeconds",
            json!({
                "minimum": timeout.start(),
                "maximum": timeout.end(),
                "default": rollouts::TIMEOUT_SECONDS_DEFAULT,
            }),
        ),
        of("includeMaintenance", json!({ "default": false })),
        of("idempotencyKey", key(rollouts::KEY_CHARS_MAX)),
        ("RetryRollout", "nodeIds", items(rollouts::NODES_MAX)),
        ("AbortRollout", "rollback", json!({ "default": false })),
    ]
}

fn reasons() -> Vec<Bound> {
    [
        "PauseRollout",
        "AbortRollout",
        "FreezeFleet",
        "CreateWorkflow",
        "UpdateWorkflow",
    ]
    .map(|kind| (kind, "reason", json!({ "maxLength": reason::CHARS_MAX })))
    .to_vec()
}

fn pools() -> Vec<Bound> {
    let name = || length(pool::NAME_CHARS_MAX);
    let policy = json!(PoolPolicy::default());
    vec![
        ("CreatePool", "name", name()),
        ("CreatePool", "policy", json!({ "default": policy })),
        ("UpdatePool", "name", name()),
        (
            "PoolPolicy",
            "disruptionBudget",
            json!({ "default": PoolPolicy::default().disruption_budget }),
        ),
        ("ListNodes", "limit", whole(1, node::PAGE_MAX)),
        ("EnrolGateway", "name", length(gateway::NAME_CHARS_MAX)),
    ]
}

fn tokens() -> Vec<Bound> {
    let life = |most: f64| json!({ "exclusiveMinimum": 0, "maximum": most });
    let words: Vec<&str> = Action::ALL.iter().map(|action| action.word()).collect();
    vec![
        (
            "CreateToken",
            "permissions",
            json!({ "minItems": 1, "items": { "type": "string", "enum": words } }),
        ),
        ("CreateToken", "subject", length(token::SUBJECT_CHARS_MAX)),
        (
            "CreateToken",
            "expiresInSeconds",
            life(token::LIFE_SECONDS_MAX),
        ),
        ("CreateJoinToken", "uses", whole(1, join::USES_MAX)),
        (
            "CreateJoinToken",
            "expiresInSeconds",
            life(join::EXPIRY_SECONDS_MAX),
        ),
    ]
}

fn events() -> Vec<Bound> {
    let page = || {
        with(
            whole(1, events::EVENTS_MAX),
            json!({ "default": events::EVENTS_DEFAULT }),
        )
    };
    let types = || {
        json!({
            "maxItems": filter::TYPES_MAX,
            "items": { "type": "string", "pattern": "^[a-z-]+\\.([a-z-]+|\\*)$" },
        })
    };
    vec![
        ("ListEvents", "limit", page()),
        ("ListEvents", "types", types()),
        ("WatchEvents", "types", types()),
        ("CreateWebhook", "types", types()),
        ("ListDeliveries", "limit", page()),
    ]
}

fn others() -> Vec<Bound> {
    let kind = format!("^[a-z0-9._-]{{1,{}}}$", workflows::KIND_CHARS_MAX);
    let life = &commands::LIFE;
    vec![
        ("CreateWorkflow", "kind", json!({ "pattern": kind })),
        (
            "CreateWorkflow",
            "idempotencyKey",
            key(workflows::KEY_CHARS_MAX),
        ),
        (
            "CreateCommand",
            "idempotencyKey",
            key(commands::KEY_CHARS_MAX),
        ),
        (
            "CreateCommand",
            "expiresInSeconds",
            json!({
                "minimum": life.start(),
                "maximum": life.end(),
                "default": commands::LIFE_DEFAULT.as_secs(),
            }),
        ),
    ]
}

fn items(most: usize) -> Value {
    json!({ "minItems": 1, "maxItems": most })
}

fn length(most: usize) -> Value {
    json!({ "minLength": 1, "maxLength": most })
}

fn whole(least: u32, most: u32) -> Value {
    json!({ "minimum": least, "maximum": most })
}

fn key(most: usize) -> Value {
    json!({ "pattern": format!("^[A-Za-z0-9._~:/+=-]{{1,{most}}}$") })
}

fn with(words: Value, more: Value) -> Value {
    let mut all = Map::new();
    for value in [words, more] {
        if let Value::Object(value) = value {
            all.extend(value);
        }
    }
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    #[test]
    fn every_bound_has_its_field() {
        let mut document: Value = serde_json::from_str(&crate::http::description()).unwrap();
        assert_eq!(super::apply(&mut document), Vec::<String>::new());
    }
}

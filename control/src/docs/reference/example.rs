//! A value that fits a schema, such as a person would write.

use serde_json::{Map, Number, Value, json};

use super::model::{Document, Schema};

/// Where a schema holds itself, it ends.
const DEPTH_MAX: u8 = 6;

/// Fields that need not be there and are of interest all the same.
const SHOWN: [&str; 8] = [
    "disruptionBudget",
    "idempotencyKey",
    "maintenance",
    "policy",
    "reason",
    "soakSeconds",
    "types",
    "waves",
];

/// The value: every field that must be there, and a few others.
pub(super) fn of(document: &Document, schema: &Schema) -> Value {
    object(document, schema, DEPTH_MAX)
}

fn object(document: &Document, schema: &Schema, depth: u8) -> Value {
    let mut object = Map::new();
    for field in document.fields(schema) {
        if field.required || SHOWN.contains(&field.name) {
            let value = value(document, field.schema, field.name, depth);
            object.insert(field.name.to_owned(), value);
        }
    }
    Value::Object(object)
}

fn value(document: &Document, schema: &Schema, name: &str, depth: u8) -> Value {
    let Some(deeper) = depth.checked_sub(1) else {
        return Value::Null;
    };
    if let Some(known) = known(name, schema) {
        return known;
    }
    let schema = document.resolved(schema);
    if let Some(word) = schema.one_of_words.first() {
        return json!(word);
    }
    if let Some(items) = &schema.items {
        return json!([value(document, items, name, deeper)]);
    }
    match schema.primitive() {
        Some("string") => json!(text(schema)),
        Some("boolean") => json!(true),
        Some("integer") => json!(1),
        Some("number") => number(schema),
        Some(_) | None => object(document, schema, deeper),
    }
}

/// Fields whose value their type does not tell.
fn known(name: &str, schema: &Schema) -> Option<Value> {
    let about = schema.about().unwrap_or_default();
    let known = match name {
        "tenantId" => json!("root"),
        "version" => json!("1.4.0"),
        "waves" => json!([1, 10, 50, 100]),
        "soakSeconds" => json!(600),
        "disruptionBudget" => json!(0.05),
        "permissions" => json!(["compute:pool:read"]),
        "types" => json!(["rollout.*"]),
        "labels" => json!({ "zone": "north" }),
        "url" if about.contains("wss:") => json!("wss://gateway.example:8443/session"),
        "url" => json!("https://hooks.example/fleet"),
        "csr" => {
            json!("-----BEGIN CERTIFICATE REQUEST-----\n…\n-----END CERTIFICATE REQUEST-----\n")
        }
        "kind" if schema.named().is_some() => json!("daemon.restart"),
        "kind" => json!("reboot"),
        "idempotencyKey" => json!("bcd-1.4.0"),
        "reason" => json!("the disks of zone north are being replaced"),
        "subject" => json!("ci"),
        "name" => json!("compute"),
        _ => return None,
    };
    Some(known)
}

/// A number within its bounds.
fn number(schema: &Schema) -> Value {
    let most = schema.maximum.as_ref().and_then(Number::as_f64);
    match most {
        Some(most) if most <= 1.0 => json!(0.05),
        Some(_) | None => json!(60),
    }
}

/// A text that its pattern takes.
fn text(schema: &Schema) -> String {
    const UNIQUE: &str = "01kb6z8d4m7q9s2v5x3n8r1twy";
    if schema.format.as_deref() == Some("date-time") {
        return "2026-11-30T12:00:00Z".to_owned();
    }
    let Some(pattern) = &schema.pattern else {
        return "…".to_owned();
    };
    let inner = pattern.trim_start_matches('^').trim_end_matches('$');
    if let Some((prefix, _)) = inner.split_once("_[0-9a-hjk") {
        return format!("{prefix}_{UNIQUE}");
    }
    if let Some(words) = inner.strip_prefix('(') {
        let first = words.split(['|', ')']).next().unwrap_or_default();
        return first.replace('\\', "");
    }
    match inner {
        "[ab]" => "a".to_owned(),
        "[0-9a-f]{64}" => "0123456789abcdef".repeat(4),
        _ if inner.starts_with("sha256/") => {
            "sha256/UNhY4JhezH9gQYqvDMWrWH9CwlcKiECVqejMrND2VFw=".to_owned()
        }
        _ => "linux-amd64".to_owned(),
    }
}

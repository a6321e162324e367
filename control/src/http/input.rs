//! The body of a request, read into its type.
//!
//! Takes at most 1 MiB of JSON, gives a value, or the field and the rule that it breaks.

mod digits;

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::{Value, error::Category};

use super::error::Refusal;
use crate::api::error::{Code, ErrorObject};

/// A manifest of 128 KiB and a long list of nodes fit; a flood does not.
const BODY_BYTES_MAX: usize = 1 << 20;

/// A request that parses.
#[derive(Debug)]
pub(super) struct Input<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Input<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Refusal> {
        let body = Limited::new(request.into_body(), BODY_BYTES_MAX);
        let bytes = body
            .collect()
            .await
            .map_err(|error| unreadable(error.as_ref()))?
            .to_bytes();
        parse(&bytes).map(Self).map_err(Refusal::from)
    }
}

fn unreadable(error: &(dyn std::error::Error + Send + Sync + 'static)) -> ErrorObject {
    if error.is::<LengthLimitError>() {
        return ErrorObject::invalid("body", "expected at most 1048576 bytes, found more");
    }
    ErrorObject::new(
        Code::InvalidInput,
        "expected a whole body, found its beginning only",
    )
}

fn parse<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, ErrorObject> {
    // A list of values in the order of the fields would be taken for the object.
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if first != Some(&b'{') {
        return Err(ErrorObject::invalid(
            "body",
            "expected a JSON object, found something else",
        ));
    }
    if let Some(field) = field_with_nul(bytes) {
        let rule = "expected text without U+0000, found one: no database keeps it";
        return Err(ErrorObject::invalid(&shortened(&field), rule));
    }
    if let Some(field) = digits::rounded(bytes) {
        let rule = "expected a number of at most 15 digits, found one that would be rounded";
        return Err(ErrorObject::invalid(&shortened(&field), rule));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| wrong(&error))?;
    json.end().map_err(|error| {
        ErrorObject::invalid(
            "body",
            format!("expected one JSON object, found more: {error}"),
        )
    })?;
    Ok(value)
}

/// The first field whose name or text holds U+0000. JSON can only write it as an escape, and few bodies have that.
fn field_with_nul(json: &[u8]) -> Option<String> {
    let mut rest = json;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        let escape = rest.get(at + 1..).unwrap_or_default();
        if escape.starts_with(b"u0000") {
            let body = serde_json::from_slice(json).ok()?;
            return Some(path_to_nul(&body).unwrap_or_else(|| "body".to_owned()));
        }
        rest = escape.get(1..).unwrap_or_default();
    }
    None
}

fn path_to_nul(value: &Value) -> Option<String> {
    let below = |name: &str, value: &Value| {
        path_to_nul(value).map(|path| match path.is_empty() {
            true => name.to_owned(),
            false => format!("{name}.{path}"),
        })
    };
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
        Value::String(text) => text.contains('\0').then(String::new),
        Value::Array(values) => values
            .iter()
            .enumerate()
            .find_map(|(number, value)| below(&number.to_string(), value)),
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            if name.contains('\0') {
                return Some(name.replace('\0', "\u{fffd}"));
            }
            below(name, value)
        }),
    }
}

/// What is said again of a body whose author may be anybody: its beginning.
fn shortened(text: &str) -> String {
    const BYTES_MAX: usize = 500;
    let end = text.floor_char_boundary(BYTES_MAX);
    match text.get(..end) {
        Some(beginning) if end < text.len() => format!("{beginning}…"),
        Some(_) | None => text.to_owned(),
    }
}

fn wrong(error: &serde_path_to_error::Error<serde_json::Error>) -> ErrorObject {
    let problem = without_place(&error.inner().to_string());
    let problem = shortened(&in_our_words(&problem));
    match error.inner().classify() {
        Category::Data => ErrorObject::invalid(&shortened(&field(error, &problem)), problem),
        Category::Syntax | Category::Eof | Category::Io => ErrorObject::invalid(
            "body",
            format!("expected well-formed JSON, found other text: {problem}"),
        ),
    }
}

/// The field that an error is about. One that is missing, or there twice, is named in the text alone.
fn field(error: &serde_path_to_error::Error<serde_json::Error>, problem: &str) -> String {
    let path = error.path().to_string();
    let named = ["missing field `", "duplicate field `"]
        .iter()
        .find_map(|start| problem.strip_prefix(start)?.split('`').next());
    match (path.as_str(), named) {
        (".", Some(name)) => name.to_owned(),
        (path, Some(name)) => format!("{path}.{name}"),
        (".", None) => "body".to_owned(),
        (path, None) => path.to_owned(),
    }
}

/// What a reader of Rust would be told, for a reader of the API.
fn in_our_words(problem: &str) -> String {
    let Some((found, expected)) = problem
        .strip_prefix("invalid type: ")
        .or_else(|| problem.strip_prefix("invalid value: "))
        .and_then(|problem| problem.rsplit_once(", expected "))
    else {
        return problem.to_owned();
    };
    let expected = match expected {
        "f64" | "f32" => "a number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0",
        "i8" | "i16" | "i32" | "i64" => "a whole number",
        "a nonzero u16" | "a nonzero u32" | "a nonzero u64" => "a whole number from 1",
        "a sequence" => "a list",
        "a map" => "an object",
        expected if expected.starts_with("struct ") => "an object",
        expected => expected,
    };
    format!("expected {expected}, found {found}")
}

/// Line and column of a body that a program wrote help nobody.
fn without_place(problem: &str) -> String {
    problem
        .rsplit_once(" at line ")
        .map_or(problem, |(problem, _)| problem)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::parse;
    use crate::api::{fleet::CreatePool, release::RegisterRelease};

    fn check(body: &str, field: &str, rule: &str) {
        let refused = parse::<CreatePool>(&Bytes::copy_from_slice(body.as_bytes())).unwrap_err();
        assert_eq!(refused.details["field"], field, "{body}: {refused:?}");
        let found = refused.details["rule"].as_str().unwrap();
        assert!(found.contains(rule), "{body}: {found}");
    }

    #[test]
    fn a_refusal_names_the_field_and_the_rule() {
        check("", "body", "a JSON object");
        check("[\"root\", \"x\"]", "body", "a JSON object");
        check("{", "body", "well-formed JSON");
        check("{\"tenantId\": NaN}", "body", "well-formed JSON");
        check(
            "{\"tenantId\": \"root\", \"name\": \"x\"} {}",
            "body",
            "one JSON object",
        );
        check("{\"name\": \"x\"}", "tenantId", "missing field");
        check(
            "{\"tenantId\": \"a b\", \"name\": \"x\"}",
            "tenantId",
            "a tenant",
        );
        check(
            "{\"tenantId\": \"root\", \"nam\": \"x\"}",
            "nam",
            "unknown field",
        );
        check("{\"tenantId\": \"root\", \"name\": 1}", "name", "a string");
        check(
            "{\"tenantId\": \"root\", \"name\": \"x\", \"name\": \"y\"}",
            "name",
            "duplicate field",
        );
        let budget = |json: &str| {
            let policy = format!("{{\"disruptionBudget\": {json}}}");
            format!("{{\"tenantId\": \"root\", \"name\": \"x\", \"policy\": {policy}}}")
        };
        check(&budget("1.5"), "policy.disruptionBudget", "from 0 to 1");
        check(&budget("-0.0"), "policy.disruptionBudget", "from 0 to 1");
        check(&budget("\"0.5\""), "policy.disruptionBudget", "from 0 to 1");
        check(&budget("1e309"), "body", "well-formed JSON");
        check(
            &budget("0.05000000000000000001"),
            "policy.disruptionBudget",
            "at most 15 digits",
        );
        check(
            "{\"tenantId\": \"root\", \"name\": \"x\", \"policy\": 1}",
            "policy",
            "an object",
        );
    }

    #[test]
    fn what_no_database_keeps_is_refused_by_its_field() {
        let body = |name: &str| format!("{{\"tenantId\": \"root\", \"name\": \"{name}\"}}");
        check(&body(r"a\u0000b"), "name", "without U+0000");
        check("{\"a\\u0000\": [1]}", "a\u{fffd}", "without U+0000");
        let nested = r#"{"policy": {"x": ["y", "\u0000"]}}"#;
        check(nested, "policy.x.1", "without U+0000");
        let escaped = body(r"a\\u0000b");
        assert!(parse::<CreatePool>(&Bytes::from(escaped)).is_ok());
    }

    #[test]
    fn a_refusal_says_the_beginning_of_what_it_refuses() {
        let body = format!("{{\"{}\": 1}}", "x".repeat(100_000));
        let refused = parse::<CreatePool>(&Bytes::from(body)).unwrap_err();
        assert!(format!("{refused:?}").len() < 4_000);
    }

    #[test]
    fn a_manifest_keeps_its_exact_text() {
        let body = Bytes::from_static(
            b"{\"tenantId\": \"root\", \"manifest\": {\"signatures\": [ 1.0 ],  \"manifest\": \"x\"}}",
        );
        let request: RegisterRelease = parse(&body).unwrap();
        assert_eq!(
            request.manifest.get(),
            "{\"signatures\": [ 1.0 ],  \"manifest\": \"x\"}"
        );
    }
}

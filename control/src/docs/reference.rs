//! The API as a page, made of its OpenAPI document.
//!
//! Takes the document, gives Markdown: every method with what it takes, gives and refuses, and a call to copy; then every
//! type. Nothing is written by hand here, so nothing can be forgotten or out of date.

mod example;
mod model;

use std::fmt::Write as _;

use model::{Document, Field, Operation, Schema};

const HEAD: &str = "# API\n\n\
Every method is `POST /api/compute/<group>/<method>` with one JSON object in and one out. This page is made from the \
document that this control serves at `/openapi.json`, which programs read.\n\n\
A call needs a token in the header `Authorization: Bearer …`; `better-compute tokens create` makes one. Fields that a \
method does not know are refused. Seconds may have fractions. Every answer names its request in `x-request-id`; say it \
when you ask somebody about a refusal.\n\n\
The examples assume these variables:\n\n\
```text\n\
BETTER_COMPUTE_URL=https://control.example:8443\n\
TOKEN=$(cat admin.token)\n\
```\n\n\
## Errors\n\n\
An answer that is no success carries one object, with a word for programs, a sentence for people and the particulars:\n\n\
```json ErrorBody\n\
{\n  \"error\": {\n    \"code\": \"NOT_FOUND\",\n    \"message\": \"expected a rollout of this tenant, found none\",\n    \"details\": {}\n  }\n}\n\
```\n\n\
| code | status | what to do |\n| --- | --- | --- |\n\
| `INVALID_INPUT` | 400 | mend the field that `details.field` names; `details.rule` says how |\n\
| `UNAUTHENTICATED` | 401 | send a token that exists and has not been revoked |\n\
| `ACCESS_DENIED` | 403 | use a token with a permission that the method names below |\n\
| `NOT_FOUND` | 404 | look at the id, and at the tenant: others' ids do not exist for you |\n\
| `CONFLICT` | 409 | something else has the place; `details` names it |\n\
| `INVALID_STATE` | 409 | look at the thing's state first: it cannot do this from there |\n\
| `QUOTA_EXCEEDED` | 429 | wait as long as the header `Retry-After` says |\n\
| `UNSUPPORTED` | 501 | this build or this set-up cannot do it |\n\
| `INTERNAL` | 500 | look for `details.requestId` in control's log |\n\
| `UNAVAILABLE` | 503 | control's database is away: call again after `Retry-After` seconds |\n\n";

/// The page.
pub(super) fn markdown(openapi: &[u8]) -> String {
    match Document::parse(openapi) {
        Ok(document) => page(&document),
        // The document is made by this program: a test holds that it can be read.
        Err(error) => format!("# API\n\nThe description cannot be shown: {error}.\n"),
    }
}

fn page(document: &Document) -> String {
    let mut page = String::from(HEAD);
    let mut group = "";
    for (path, method, operation) in document.operations() {
        let here = operation.group();
        if here != group {
            group = here;
            line(&mut page, &format!("## {}\n", title(here)));
        }
        show(&mut page, document, (path, method), operation);
    }
    page.push_str("## Types\n\n");
    for (name, schema) in &document.components.schemas {
        show_type(&mut page, document, name, schema);
    }
    page
}

fn title(group: &str) -> &str {
    if group.is_empty() {
        "Beside the methods"
    } else {
        group
    }
}

fn show(
    page: &mut String,
    document: &Document,
    (path, method): (&str, &str),
    operation: &Operation,
) {
    // What is no method is known by its path.
    let name = match operation.group() {
        "" => path,
        _ => operation.name().unwrap_or(path),
    };
    line(page, &format!("### {name}\n"));
    line(
        page,
        &format!("{}. {}\n", operation.summary, operation.description),
    );
    line(page, &format!("`{} {path}`\n", method.to_uppercase()));
    if let Some(asked) = operation.asked(document) {
        page.push_str("Takes:\n\n");
        fields(page, document, asked);
    }
    if let Some(given) = operation.given() {
        line(page, &format!("Gives {}.\n", link(given)));
    }
    answers(page, operation);
    if let Some(asked) = operation.asked(document) {
        let body = example::of(document, asked);
        let body = serde_json::to_string_pretty(&body).unwrap_or_default();
        let asked = operation.asked_name().unwrap_or_default();
        line(page, &format!("```json {asked}\n{body}\n```\n"));
        let call = format!(
            "curl --fail-with-body -X POST \"$BETTER_COMPUTE_URL{path}\" \\\n  -H \"Authorization: Bearer $TOKEN\" \
             -H 'Content-Type: application/json' \\\n  --data @body.json"
        );
        line(page, &format!("```sh call\n{call}\n```\n"));
    }
}

fn answers(page: &mut String, operation: &Operation) {
    let refusals = operation.refusals();
    if operation.asked_name().is_some() {
        let words: Vec<String> = refusals
            .map(|(status, answer)| format!("{} ({status})", coded(&answer.description)))
            .collect();
        line(page, &format!("Refuses with {}.\n", words.join(", ")));
        return;
    }
    page.push_str("| status | what it says |\n| --- | --- |\n");
    for (status, answer) in &operation.responses {
        line(page, &format!("| {status} | {} |", answer.description));
    }
    page.push('\n');
}

fn coded(words: &str) -> String {
    let words: Vec<String> = words.split(", ").map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

fn show_type(page: &mut String, document: &Document, name: &str, schema: &Schema) {
    line(page, &format!("### The type {name}\n"));
    if let Some(about) = &schema.description {
        line(page, &format!("{}\n", cell(about)));
    }
    if document.fields(schema).is_empty() {
        line(page, &format!("{}.\n", kind(schema)));
    } else {
        fields(page, document, schema);
    }
}

fn fields(page: &mut String, document: &Document, schema: &Schema) {
    page.push_str("| field | kind | | about |\n| --- | --- | --- | --- |\n");
    for field in document.fields(schema) {
        let about = cell(field.schema.about().unwrap_or_default());
        let kind = kind(field.schema);
        line(
            page,
            &format!("| `{}` | {kind} | {} | {about} |", field.name, must(&field)),
        );
    }
    page.push('\n');
}

/// Whether a field is there, and what counts where it is not.
fn must(field: &Field<'_>) -> String {
    match (field.required, &field.schema.default) {
        (true, _) => "always".to_owned(),
        (false, Some(default)) => format!("default `{}`", whole(default)),
        (false, None) => String::new(),
    }
}

/// What a value is, in words.
fn kind(schema: &Schema) -> String {
    if let Some(name) = schema.named() {
        return link(name);
    }
    if !schema.one_of_words.is_empty() {
        let words: Vec<String> = schema
            .one_of_words
            .iter()
            .map(|word| format!("`{word}`"))
            .collect();
        return format!("one of {}", words.join(", "));
    }
    if let Some(items) = &schema.items {
        let most = schema.max_items.map(|most| format!(" at most {most}"));
        return format!("list of{} {}", most.unwrap_or_default(), kind(items));
    }
    if schema.values().is_some() {
        return "object of texts".to_owned();
    }
    let mut kind = match schema.primitive() {
        Some("string") => "text".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("integer") => "whole number".to_owned(),
        Some(other) => other.to_owned(),
        None => "object".to_owned(),
    };
    if let Some(pattern) = &schema.pattern {
        // A bar would end the table's cell.
        let _written = write!(kind, " like `{}`", pattern.replace('|', "\\|"));
    }
    kind.push_str(&bounds(schema));
    kind
}

/// A number as people write it: without a fraction where it has none.
fn whole(number: &impl ToString) -> String {
    let text = number.to_string();
    match text.strip_suffix(".0") {
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

fn bounds(schema: &Schema) -> String {
    if let Some(most) = schema.max_length {
        return format!(" of at most {most} characters");
    }
    let shown = |number: &Option<serde_json::Number>| number.as_ref().map(whole);
    let (least, above) = (shown(&schema.minimum), shown(&schema.exclusive_minimum));
    match (least, above, shown(&schema.maximum)) {
        (Some(least), _, Some(most)) => format!(", {least} to {most}"),
        (Some(least), _, None) => format!(", at least {least}"),
        (None, Some(least), Some(most)) => format!(", above {least} and at most {most}"),
        (None, Some(least), None) => format!(", above {least}"),
        (None, None, Some(most)) => format!(", at most {most}"),
        (None, None, None) => String::new(),
    }
}

fn link(name: &str) -> String {
    format!("[{name}](#the-type-{})", name.to_lowercase())
}

/// A text that fits a cell of a table.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

fn line(page: &mut String, text: &str) {
    page.push_str(text);
    page.push('\n');
}

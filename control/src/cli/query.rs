//! `--query`: one part of an answer.
//!
//! Takes a dotted path and JSON, gives what the path names. A number picks from a list; a name, applied to a list,
//! picks from each of its elements, and so does a star. Names with dots in them, as labels have, are found all the same.
//! What is known and not set is null. Never guesses: a name that nobody knows is an error that says which there are.

use std::{collections::BTreeSet, convert::Infallible, str::FromStr};

use serde_json::{Map, Value};

mod shape;

use shape::{Shape, Shapes};

/// A dotted path into an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    path: String,
}

/// Why a path leads nowhere.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum QueryError {
    #[error("--query: expected {}, found \"{name}\"", one_of(known))]
    NoField {
        name: String,
        known: BTreeSet<String>,
    },
    #[error("--query: expected a number below {length}, found \"{name}\"")]
    NoElement { name: String, length: usize },
    #[error("--query: expected the path to end before \"{name}\": there is no object or list")]
    Scalar { name: String },
}

impl Query {
    /// What the path names in `answer`, an object of this type of the API.
    pub(super) fn pick(&self, answer: &Value, kind: Option<&str>) -> Result<Value, QueryError> {
        let names: Vec<&str> = self.path.split('.').collect();
        match (walk(answer, &names, None), kind) {
            // The description is long: it is looked at only where the answer does not decide.
            (Err(QueryError::NoField { .. } | QueryError::Scalar { .. }), Some(kind)) => {
                let shapes = Shapes::known();
                walk(answer, &names, shapes.of(kind))
            }
            (picked, _) => picked,
        }
    }
}

fn one_of(known: &BTreeSet<String>) -> String {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    match known.as_slice() {
        [] => "no name, since the object is empty".to_owned(),
        [only] => (*only).to_owned(),
        several => format!("one of {}", several.join(", ")),
    }
}

impl FromStr for Query {
    type Err = Infallible;

    fn from_str(path: &str) -> Result<Self, Infallible> {
        // jq's users write the dot in front, and numbers in brackets; an empty pair is every element.
        let path = path.replace("[]", ".*").replace('[', ".").replace(']', "");
        let path = path.trim_matches('.').to_owned();
        Ok(Self { path })
    }
}

fn walk(value: &Value, names: &[&str], shape: Option<Shape<'_>>) -> Result<Value, QueryError> {
    let [name, rest @ ..] = names else {
        return Ok(value.clone());
    };
    match value {
        Value::Object(fields) => match field(fields, names) {
            Some((name, value, rest)) => {
                let shape = shape.and_then(|shape| shape.field(&name));
                walk(value, rest, shape)
            }
            None => unset(names, shape, fields.keys().cloned()),
        },
        Value::Array(elements) => {
            let inside = shape.and_then(Shape::element);
            if *name == "*" {
                return each(elements, rest, inside);
            }
            match name.parse::<usize>() {
                Ok(index) => match elements.get(index) {
                    Some(element) => walk(element, rest, inside),
                    None => Err(QueryError::NoElement {
                        name: (*name).to_owned(),
                        length: elements.len(),
                    }),
                },
                Err(_) => each(elements, names, inside),
            }
        }
        Value::Null if shape.is_some_and(|shape| shape.leads(names)) => Ok(Value::Null),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err(QueryError::Scalar {
                name: (*name).to_owned(),
            })
        }
    }
}

/// What is known and not there.
fn unset(
    names: &[&str],
    shape: Option<Shape<'_>>,
    there: impl Iterator<Item = String>,
) -> Result<Value, QueryError> {
    if shape.is_some_and(|shape| shape.leads(names)) {
        return Ok(Value::Null);
    }
    // Where the first name is known, it is a later one that is not.
    let mut shape = shape;
    let mut names = names;
    let mut known: BTreeSet<String> = there.collect();
    while let ([name, rest @ ..], Some(here)) = (names, shape) {
        let deeper = match here.element() {
            Some(element) if is_pick(name) => Some((rest, element)),
            Some(element) => Some((names, element)),
            None => {
                known.extend(here.names());
                here.field(name).map(|field| (rest, field))
            }
        };
        let Some((rest, deeper)) = deeper.filter(|(rest, _)| !rest.is_empty()) else {
            break;
        };
        known = BTreeSet::new();
        (names, shape) = (rest, Some(deeper));
    }
    Err(QueryError::NoField {
        name: names.first().copied().unwrap_or_default().to_owned(),
        known,
    })
}

/// Whether a name picks from a list.
fn is_pick(name: &str) -> bool {
    name == "*" || name.parse::<usize>().is_ok()
}

/// From each element. A list without any says nothing about what it could hold.
fn each(elements: &[Value], names: &[&str], shape: Option<Shape<'_>>) -> Result<Value, QueryError> {
    let picked = elements.iter().map(|element| walk(element, names, shape));
    picked.collect::<Result<_, _>>().map(Value::Array)
}

/// The field that the path begins with, its name, and the rest of the path. The shortest name that is there counts.
fn field<'a, 'p>(
    fields: &'a Map<String, Value>,
    names: &'p [&'p str],
) -> Option<(String, &'a Value, &'p [&'p str])> {
    (1..=names.len()).find_map(|length| {
        let (name, rest) = names.split_at_checked(length)?;
        let name = name.join(".");
        let value = fields.get(&name)?;
        Some((name, value, rest))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pick(path: &str) -> Result<Value, QueryError> {
        let answer = json!({
            "state": "running",
            "nodes": {"failed": 1, "pending": 2},
            "nodeList": [{"nodeId": "a", "wave": 0}, {"nodeId": "b", "wave": 1}],
            "labels": {"cpu.arch": "x86_64", "os": {"id": 1}, "os.id": 2},
            "none": {},
        });
        path.parse::<Query>().unwrap().pick(&answer, None)
    }

    #[test]
    fn paths_go_through_objects_and_lists() {
        for (path, found) in [
            ("state", json!("running")),
            (".state", json!("running")),
            ("nodes", json!({"failed": 1, "pending": 2})),
            ("nodes.failed", json!(1)),
            ("labels.cpu.arch", json!("x86_64")),
            ("labels.os.id", json!(1)),
            ("nodeList[1].nodeId", json!("b")),
            (".nodeList[].nodeId", json!(["a", "b"])),
            ("nodeList.*.nodeId", json!(["a", "b"])),
            ("nodeList.1.nodeId", json!("b")),
            ("nodeList.nodeId", json!(["a", "b"])),
        ] {
            assert_eq!(pick(path), Ok(found), "{path}");
        }
    }

    #[test]
    fn a_path_that_leads_nowhere_says_what_is_there() {
        for (path, message) in [
            (
                "reason",
                "--query: expected one of labels, nodeList, nodes, none, state, found \"reason\"",
            ),
            (
                "nodes.gone",
                "--query: expected one of failed, pending, found \"gone\"",
            ),
            (
                "nodeList.2",
                "--query: expected a number below 2, found \"2\"",
            ),
            (
                "state.x",
                "--query: expected the path to end before \"x\": there is no object or list",
            ),
            (
                "",
                "--query: expected one of labels, nodeList, nodes, none, state, found \"\"",
            ),
        ] {
            assert_eq!(pick(path).unwrap_err().to_string(), message, "{path}");
        }
    }

    fn of_a_rollout(path: &str) -> Result<Value, QueryError> {
        let answer = json!({
            "id": "rollout_1", "nodes": {"failed": 0}, "frozen": null,
            "nodeList": [{"nodeId": "a", "error": "it fell"}, {"nodeId": "b"}],
        });
        let query = path.parse::<Query>().unwrap();
        query.pick(&answer, Some("Rollout"))
    }

    #[test]
    fn what_is_known_and_not_set_is_null() {
        for (path, found) in [
            ("id", json!("rollout_1")),
            ("reason", json!(null)),
            ("frozen.by", json!(null)),
            ("lateNodes", json!(null)),
            ("lateNodes.0.error", json!(null)),
            ("nodes.rolling-back", json!(null)),
            ("nodeList.error", json!(["it fell", null])),
            ("nodeList.1.error", json!(null)),
        ] {
            assert_eq!(of_a_rollout(path), Ok(found), "{path}");
        }
    }

    #[test]
    fn what_nobody_knows_is_refused_with_all_that_is_known() {
        let message = |path| of_a_rollout(path).unwrap_err().to_string();
        let said = message("gone");
        for known in ["frozen", "id", "pausedReason", "soaksUntil"] {
            assert!(said.contains(known), "{said}");
        }
        assert!(said.ends_with("found \"gone\""), "{said}");
        assert_eq!(
            message("lateNodes.gone"),
            message("lateNodes.0.gone"),
            "an element's names"
        );
        assert!(message("id.x").starts_with("--query: expected the path to end"));
    }
}

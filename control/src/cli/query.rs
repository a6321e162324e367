//! `--query`: one part of an answer.
//!
//! Takes a dotted path and JSON, gives what the path names. A number picks from a list; a name, applied to a list,
//! picks from each of its elements, and so does a star. Names with dots in them, as labels have, are found all the same.
//! Never guesses: a name that is not there is an error that says what is.

use std::{convert::Infallible, str::FromStr};

use serde_json::{Map, Value};

/// A dotted path into an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    path: String,
}

/// Why a path leads nowhere.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum QueryError {
    #[error("--query: expected {}, found \"{name}\"", one_of(known))]
    NoField { name: String, known: Vec<String> },
    #[error("--query: expected a number below {length}, found \"{name}\"")]
    NoElement { name: String, length: usize },
    #[error("--query: expected the path to end before \"{name}\": there is no object or list")]
    Scalar { name: String },
}

impl Query {
    /// What the path names in `answer`.
    pub(super) fn pick(&self, answer: &Value) -> Result<Value, QueryError> {
        let names: Vec<&str> = self.path.split('.').collect();
        walk(answer, &names)
    }
}

fn one_of(known: &[String]) -> String {
    match known {
        [] => "no name, since the object is empty".to_owned(),
        [only] => only.clone(),
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

fn walk(value: &Value, names: &[&str]) -> Result<Value, QueryError> {
    let [name, rest @ ..] = names else {
        return Ok(value.clone());
    };
    match value {
        Value::Object(fields) => match field(fields, names) {
            Some((field, rest)) => walk(field, rest),
            None => Err(QueryError::NoField {
                name: (*name).to_owned(),
                known: fields.keys().cloned().collect(),
            }),
        },
        Value::Array(elements) if *name == "*" => each(elements, rest),
        Value::Array(elements) => match name.parse::<usize>() {
            Ok(index) => match elements.get(index) {
                Some(element) => walk(element, rest),
                None => Err(QueryError::NoElement {
                    name: (*name).to_owned(),
                    length: elements.len(),
                }),
            },
            Err(_) => each(elements, names),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err(QueryError::Scalar {
                name: (*name).to_owned(),
            })
        }
    }
}

fn each(elements: &[Value], names: &[&str]) -> Result<Value, QueryError> {
    let picked = elements.iter().map(|element| walk(element, names));
    picked.collect::<Result<_, _>>().map(Value::Array)
}

/// The field that the path begins with, and the rest of the path. The shortest name that is there counts.
fn field<'a, 'p>(
    fields: &'a Map<String, Value>,
    names: &'p [&'p str],
) -> Option<(&'a Value, &'p [&'p str])> {
    (1..=names.len()).find_map(|length| {
        let (name, rest) = names.split_at_checked(length)?;
        Some((fields.get(&name.join("."))?, rest))
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
        path.parse::<Query>().unwrap().pick(&answer)
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
}

//! `--query`: one part of an answer.
//!
//! Takes a dotted path and JSON, gives what the path names. A number picks from a list; a name, applied to a list,
//! picks from each of its elements. Never guesses: a name that is not there is an error that says what is.

use std::{convert::Infallible, str::FromStr};

use serde_json::Value;

/// A dotted path into an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    path: String,
}

/// Why a path leads nowhere.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum QueryError {
    #[error("--query: expected one of {}, found \"{name}\"", known.join(", "))]
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

impl FromStr for Query {
    type Err = Infallible;

    fn from_str(path: &str) -> Result<Self, Infallible> {
        // jq's users write the dot in front.
        let path = path.strip_prefix('.').unwrap_or(path).to_owned();
        Ok(Self { path })
    }
}

fn walk(value: &Value, names: &[&str]) -> Result<Value, QueryError> {
    let [name, rest @ ..] = names else {
        return Ok(value.clone());
    };
    match value {
        Value::Object(fields) => match fields.get(*name) {
            Some(field) => walk(field, rest),
            None => Err(QueryError::NoField {
                name: (*name).to_owned(),
                known: fields.keys().cloned().collect(),
            }),
        },
        Value::Array(elements) => match name.parse::<usize>() {
            Ok(index) => match elements.get(index) {
                Some(element) => walk(element, rest),
                None => Err(QueryError::NoElement {
                    name: (*name).to_owned(),
                    length: elements.len(),
                }),
            },
            Err(_) => elements
                .iter()
                .map(|element| walk(element, names))
                .collect::<Result<_, _>>()
                .map(Value::Array),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err(QueryError::Scalar {
                name: (*name).to_owned(),
            })
        }
    }
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
                "--query: expected one of nodeList, nodes, state, found \"reason\"",
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
                "--query: expected one of nodeList, nodes, state, found \"\"",
            ),
        ] {
            assert_eq!(pick(path).unwrap_err().to_string(), message, "{path}");
        }
    }
}

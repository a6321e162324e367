//! What somebody hears who came to an address that nothing has.
//!
//! Takes what was asked, gives the way on: from the host alone to the console, from a mistyped method to those that there
//! are. It calls nothing.

use std::collections::{BTreeMap, BTreeSet};

use axum::{
    http::{HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};

use super::{Refusal, document::METHODS};
use crate::api::error::{Code, ErrorObject};

/// Longer names are nobody's slip.
const SHOWN_CHARS_MAX: usize = 64;

const WAYS: &str =
    "the console is at console, the guides are at docs/, the API is described at openapi.json\n";

/// `/`: a person typed the host. The address is relative, as control may stand behind a prefix.
pub(super) async fn front() -> Response {
    let to = [
        (header::LOCATION, HeaderValue::from_static("console")),
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        ),
    ];
    (StatusCode::TEMPORARY_REDIRECT, to, WAYS).into_response()
}

/// The methods that there are, by group.
#[derive(Debug)]
pub(super) struct Known(BTreeMap<String, BTreeSet<String>>);

impl Known {
    pub(super) fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut groups = BTreeMap::<String, BTreeSet<String>>::new();
        for (group, method) in names.filter_map(|name| name.split_once('/')) {
            let methods = groups.entry(group.to_owned()).or_default();
            // Files have paths of their own.
            if !method.contains('/') {
                methods.insert(method.to_owned());
            }
        }
        groups.retain(|_, methods| !methods.is_empty());
        Self(groups)
    }

    /// Says what would have answered.
    pub(super) fn refuse(&self, method: &Method, path: &str) -> Refusal {
        let asked = path.strip_prefix(METHODS).unwrap_or_default();
        let (group, name) = asked.split_once('/').unwrap_or((asked, ""));
        let Some(methods) = self.0.get(group) else {
            let groups = listed(self.0.keys());
            return absent(format!(
                "expected POST {METHODS}<group>/<method> with a group of {groups}, found {method} {}",
                shown(path)
            ));
        };
        if methods.contains(name) {
            return absent(format!(
                "expected POST {METHODS}{group}/{name}, found {method}"
            ));
        }
        let methods = listed(methods.iter());
        absent(format!(
            "expected POST {METHODS}{group}/<method> with a method of {methods}, found {method} {}",
            shown(path)
        ))
    }
}

fn absent(message: String) -> Refusal {
    ErrorObject::new(Code::NotFound, message).into()
}

fn listed<'a>(words: impl Iterator<Item = &'a String>) -> String {
    let words: Vec<&str> = words.map(String::as_str).collect();
    words.join(", ")
}

fn shown(path: &str) -> String {
    path.chars().take(SHOWN_CHARS_MAX).collect()
}

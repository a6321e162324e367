//! The named vectors: each is one file, named by what is right or wrong with it, and the reason that it must get.

use super::forge::*;

mod bodies;
mod files;
mod judgements;

/// One named input and what every judge must say of it.
pub(crate) struct Case {
    /// What is right or wrong with it, in words with dashes.
    pub(crate) name: &'static str,
    /// `ok`, or the code of the refusal.
    pub(crate) expected: &'static str,
    pub(crate) published: Vec<u8>,
}

impl Case {
    pub(crate) fn file_name(&self) -> String {
        let kind = if self.expected == "ok" { "good" } else { "bad" };
        format!("{kind}-{}.json", self.name)
    }
}

fn case(name: &'static str, expected: &'static str, published: impl Into<Vec<u8>>) -> Case {
    Case {
        name,
        expected,
        published: published.into(),
    }
}

/// A good file but for one change in the body, which alice and bob signed all the same.
fn bent(name: &'static str, expected: &'static str, from: &str, to: &str) -> Case {
    case(name, expected, signed(body_with(from, to)))
}

pub(crate) fn all() -> Vec<Case> {
    [judgements::cases(), files::cases(), bodies::cases()]
        .into_iter()
        .flatten()
        .collect()
}

//! What is wrong with a configuration, and where.
//!
//! Takes a text and a place in it, gives one line that a person can act on.

use std::fmt::Display;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why there is no configuration.
#[derive(Debug, Error)]
pub(crate) enum ConfigError {
    #[error("cannot read the configuration {path} (--config or BCD_CONFIG names it)", path = path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path}: expected text in UTF-8, found other bytes", path = path.display())]
    NotText { path: PathBuf },
    #[error("{path}:{line}: {key}: {problem}", path = path.display())]
    Wrong {
        path: PathBuf,
        line: usize,
        key: String,
        problem: String,
    },
}

/// What is wrong, before anybody has said in which file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    line: usize,
    key: String,
    problem: String,
}

impl Problem {
    pub(super) fn in_file(self, path: &Path) -> ConfigError {
        ConfigError::Wrong {
            path: path.to_owned(),
            line: self.line,
            key: self.key,
            problem: self.problem,
        }
    }
}

/// The text that places refer to.
#[derive(Clone, Copy)]
pub(super) struct Document<'a> {
    text: &'a str,
}

impl<'a> Document<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text }
    }

    /// The parser's own complaint.
    pub(super) fn refused(self, error: &toml::de::Error) -> Problem {
        let at = error.span().unwrap_or_default();
        self.says(&at, error.message().to_owned())
    }

    /// A value that parses and still cannot be.
    pub(super) fn wrong(self, at: &Range<usize>, expected: &str, found: impl Display) -> Problem {
        self.says(at, format!("expected {expected}, found {found}"))
    }

    /// Any complaint about a place.
    pub(super) fn says(self, at: &Range<usize>, problem: String) -> Problem {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        Problem {
            line: before.matches('\n').count() + 1,
            key: self.key_at(before.rfind('\n').map_or(0, |end| end + 1)),
            problem: problem.lines().collect::<Vec<_>>().join(" "),
        }
    }

    /// The key of the line that begins at `start`, or, within a value of several lines, of the line where that began.
    fn key_at(self, start: usize) -> String {
        let line = self
            .text
            .get(start..)
            .and_then(|rest| rest.lines().next())
            .unwrap_or_default();
        let above = self.text.get(..start).unwrap_or_default();
        key_of(line)
            .or_else(|| above.lines().rev().find_map(key_of))
            .unwrap_or("the file")
            .to_owned()
    }
}

fn key_of(line: &str) -> Option<&str> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    match line.split_once('=') {
        Some((key, _)) => Some(key.trim().trim_matches('"')),
        None => line
            .strip_prefix('[')
            .and_then(|rest| rest.split(']').next()),
    }
    .filter(|key| !key.is_empty() && !key.starts_with('"'))
}

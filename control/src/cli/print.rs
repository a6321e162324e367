//! Answers on standard output.
//!
//! Takes an answer, gives it as a table, JSON, YAML or names. JSON and YAML are what the server sent, fields that this
//! version does not know included; tables are what people need of it.

use std::io::{self, Write};

use clap::ValueEnum;
use serde::Deserialize;
use serde_json::Value;

use super::{
    query::{Query, QueryError},
    sheet::{Headers, PoolStyle, Room, Sheet, printable, printable_json},
};

/// How to print answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Output {
    /// A table for people.
    #[default]
    Table,
    /// A table with more columns.
    Wide,
    /// The API's own object.
    Json,
    /// The API's own object, in YAML.
    Yaml,
    /// What other commands take: ids, or versions; one a line.
    Name,
}

/// How much a table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// What fits a screen.
    Brief,
    /// Everything worth a column.
    Wide,
}

impl Detail {
    /// The columns of a table.
    pub(super) fn columns(
        self,
        brief: &[&'static str],
        wide: &[&'static str],
    ) -> Vec<&'static str> {
        match self {
            Self::Brief => brief.to_vec(),
            Self::Wide => [brief, wide].concat(),
        }
    }
}

/// An answer that people can read.
pub(super) trait View {
    /// Which of the API's types it is, if it is one.
    const SCHEMA: Option<&'static str> = None;

    /// As fields and tables.
    fn sheet(&self, detail: Detail) -> Sheet;

    /// As names that other commands take.
    fn names(&self) -> Vec<String>;
}

/// An answer, understood and as it came.
#[derive(Clone, Debug)]
pub(super) struct Answer<T> {
    /// What it says.
    pub value: T,
    /// What was sent.
    pub raw: Value,
}

/// Prints answers as the operator wants them.
#[derive(Clone, Debug)]
pub(super) struct Printer {
    /// In this form,
    pub output: Output,
    /// this part only,
    pub query: Option<Query>,
    /// with or without the first line,
    pub headers: Headers,
    /// and no wider than this.
    pub room: Room,
}

/// Why an answer was not printed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PrintError {
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error("cannot write the answer as JSON")]
    Json(#[source] serde_json::Error),
    #[error("cannot write the answer as YAML")]
    Yaml(#[source] serde_saphyr::ser::Error),
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
}

impl Printer {
    /// What people would see of an answer, and how pools are called there; nothing where it is not asked for.
    pub(super) fn sheet<T: View>(&self, answer: &Answer<T>) -> Option<(Sheet, PoolStyle)> {
        match (self.output, &self.query) {
            (Output::Table, None) => {
                let sheet = answer.value.sheet(Detail::Brief).with_short_ids();
                Some((sheet, PoolStyle::Name))
            }
            (Output::Wide, None) => Some((answer.value.sheet(Detail::Wide), PoolStyle::NameAndId)),
            (Output::Json | Output::Yaml | Output::Name, _) | (_, Some(_)) => None,
        }
    }

    /// Prints a sheet.
    pub(super) fn show_sheet(&self, sheet: Sheet) -> Result<(), PrintError> {
        write_out(&sheet.text(self.headers, self.room))
    }

    /// Prints an answer.
    pub(super) fn show<T: View>(&self, answer: &Answer<T>) -> Result<(), PrintError> {
        let text = self.text(answer)?;
        if self.is_for_programs() {
            write_as_is(&text)
        } else {
            write_out(&text)
        }
    }

    /// Prints one of several answers that follow each other: a line in JSON, a document in YAML.
    pub(super) fn show_next(&self, raw: &Value, schema: &str) -> Result<(), PrintError> {
        let value = self.picked(raw, Some(schema))?;
        let text = match self.output {
            Output::Yaml => format!("---\n{}", self.guarded(yaml(&value)?)),
            Output::Json => compact(&value),
            Output::Table | Output::Wide | Output::Name if is_scalar(&value) => {
                self.guarded(plain(&value)?)
            }
            Output::Table | Output::Wide | Output::Name => compact(&value),
        };
        write_as_is(&text)
    }

    /// Whether programs read what is printed.
    pub(super) fn is_for_programs(&self) -> bool {
        match self.output {
            Output::Json | Output::Yaml => true,
            Output::Table | Output::Wide | Output::Name => self.query.is_some(),
        }
    }

    fn text<T: View>(&self, answer: &Answer<T>) -> Result<String, PrintError> {
        if let Some((sheet, _)) = self.sheet(answer) {
            return Ok(sheet.text(self.headers, self.room));
        }
        match (self.output, &self.query) {
            (Output::Json, _) => json(&self.picked(&answer.raw, T::SCHEMA)?),
            (Output::Yaml, _) => Ok(self.guarded(yaml(&self.picked(&answer.raw, T::SCHEMA)?)?)),
            (Output::Table | Output::Wide | Output::Name, Some(query)) => {
                Ok(self.guarded(plain(&query.pick(&answer.raw, T::SCHEMA)?)?))
            }
            (Output::Table | Output::Wide | Output::Name, None) => Ok(lines(&answer.value.names())),
        }
    }

    /// What is for programs as it is, unless it is a terminal that would read it.
    fn guarded(&self, text: String) -> String {
        match self.room {
            Room::Unbounded => text,
            Room::Columns(_) => {
                let lines = text.lines().map(|line| format!("{}\n", printable(line)));
                lines.collect()
            }
        }
    }

    fn picked(&self, raw: &Value, schema: Option<&str>) -> Result<Value, PrintError> {
        match &self.query {
            Some(query) => Ok(query.pick(raw, schema)?),
            None => Ok(raw.clone()),
        }
    }
}

/// Writes to standard output, with colours where they are wanted.
pub(super) fn write_out(text: &str) -> Result<(), PrintError> {
    write_to(anstream::stdout().lock(), text)
}

/// Writes what programs read to standard output: what looks like a colour is theirs.
fn write_as_is(text: &str) -> Result<(), PrintError> {
    write_to(io::stdout().lock(), text)
}

/// A reader who has gone, such as `head`, has seen what it wanted.
fn write_to(mut out: impl Write, text: &str) -> Result<(), PrintError> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(PrintError::Output(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Writes a line to standard error, for people. Where nobody can be told, nobody is.
pub(super) fn note(text: &str) {
    let _nobody_listens = writeln!(anstream::stderr(), "{text}");
}

fn json(value: &Value) -> Result<String, PrintError> {
    serde_json::to_string_pretty(value)
        .map(|text| format!("{}\n", printable_json(&text)))
        .map_err(PrintError::Json)
}

/// On one line.
fn compact(value: &Value) -> String {
    format!("{}\n", printable_json(&value.to_string()))
}

fn yaml(value: &Value) -> Result<String, PrintError> {
    serde_saphyr::to_string(value).map_err(PrintError::Yaml)
}

/// For scripts without `jq`: a text without quotes, nothing for what is not set, a list of such one a line, and JSON for
/// the rest.
fn plain(value: &Value) -> Result<String, PrintError> {
    match value {
        Value::String(text) => Ok(format!("{text}\n")),
        Value::Null => Ok("\n".to_owned()),
        Value::Array(elements) if elements.iter().all(is_scalar) => {
            elements.iter().map(plain).collect()
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => json(value),
    }
}

fn is_scalar(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        Value::Array(_) | Value::Object(_) => false,
    }
}

fn lines(names: &[String]) -> String {
    names.iter().map(|name| format!("{name}\n")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::sheet::Cell;

    struct Named;

    impl View for Named {
        fn sheet(&self, detail: Detail) -> Sheet {
            let header: &[&'static str] = match detail {
                Detail::Brief => &["ID"],
                Detail::Wide => &["ID", "MORE"],
            };
            let row = header.iter().map(Cell::new).collect();
            Sheet::rows(header, vec![row])
        }

        fn names(&self) -> Vec<String> {
            vec!["a".to_owned(), "b".to_owned()]
        }
    }

    fn text(output: Output, query: Option<&str>) -> String {
        let printer = Printer {
            output,
            query: query.map(|path| path.parse().unwrap()),
            headers: Headers::Hidden,
            room: Room::Unbounded,
        };
        let raw =
            json!({"id": "a", "share": 0.05, "list": ["x", 1], "none": null, "new": {"to": "us"}});
        printer.text(&Answer { value: Named, raw }).unwrap()
    }

    #[test]
    fn every_form_prints_what_it_is_for() {
        for (output, query, printed) in [
            (Output::Table, None, "ID\n"),
            (Output::Wide, None, "ID  MORE\n"),
            (Output::Name, None, "a\nb\n"),
            (Output::Table, Some("id"), "a\n"),
            (Output::Table, Some("list"), "x\n1\n"),
            (Output::Table, Some("share"), "0.05\n"),
            (Output::Table, Some("none"), "\n"),
            (Output::Json, Some("none"), "null\n"),
            (Output::Table, Some("new"), "{\n  \"to\": \"us\"\n}\n"),
            (Output::Json, Some("id"), "\"a\"\n"),
            (Output::Yaml, Some("list"), "- x\n- 1\n"),
        ] {
            assert_eq!(text(output, query), printed, "{output:?} {query:?}");
        }
    }

    #[test]
    fn json_keeps_fields_that_this_version_does_not_know() {
        let printed: Value = serde_json::from_str(&text(Output::Json, None)).unwrap();
        assert_eq!(printed["new"]["to"], "us");
    }
}

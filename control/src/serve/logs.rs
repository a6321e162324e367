//! What the service tells the person who starts it, and the log.

use std::{
    error::Error,
    io::{IsTerminal as _, Write as _},
    sync::Arc,
};

use bc_protocol::journal::Entry;
use tracing_subscriber::EnvFilter;

use super::journal::Journal;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// For people and journald
    Text,
    /// One JSON object a line
    Json,
}

/// Sends the log to standard error, or to the journal where that leads there: standard output is for what the service is
/// asked to print.
pub(super) fn begin(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Colours are for eyes: a file or the journal keeps them as noise.
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    let begun = match (format, Journal::reached()) {
        (LogFormat::Text, Some(journal)) => {
            // It dates every entry itself.
            let line = tracing_subscriber::fmt::format().without_time();
            let entries = lines.event_format(Entry(line));
            entries.with_writer(Arc::new(journal)).try_init()
        }
        (LogFormat::Text, None) => lines.with_writer(std::io::stderr).try_init(),
        (LogFormat::Json, _) => lines.json().with_writer(std::io::stderr).try_init(),
    };
    if let Err(error) = begun {
        tracing::debug!(%error, "a log is being kept already");
    }
}

/// One line on standard output.
pub(crate) fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush()) {
        tracing::debug!(%error, "standard output is closed");
    }
}

/// A failure and what caused it, on standard error.
pub(crate) fn print_failure(failure: &dyn Error) {
    let mut text = format!("error: {failure}");
    let mut cause = failure.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    if let Err(error) = writeln!(std::io::stderr().lock(), "{text}") {
        tracing::debug!(%error, "standard error is closed");
    }
}

//! Where log lines go: standard error, for a person or for the journal.
//!
//! Takes the filter of the command line. Without one, what the agent itself says from `info` on is shown. The end of it
//! is kept for whoever asks the node how it is.

use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::io::{self, IsTerminal as _, Write};
use std::sync::{Mutex, PoisonError};

use clap::ValueEnum;
use thiserror::Error;
use tracing::field::Field;
use tracing::{Level, Metadata};
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::shown::one_line;

/// The filter names no level or target.
#[derive(Debug, Error)]
#[error("expected a log filter such as info or bcd=debug, found \"{found}\"")]
pub(crate) struct FilterError {
    found: String,
    #[source]
    source: tracing_subscriber::filter::ParseError,
}

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people and journald
    Text,
    /// One JSON object a line
    Json,
}

/// Starts logging for this process; a second call changes nothing.
pub(crate) fn start(filter: &str, format: LogFormat) -> Result<(), FilterError> {
    let filter: Targets = filter.parse().map_err(|source| FilterError {
        found: filter.to_owned(),
        source,
    })?;
    let journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(Log { journal })
        .with_target(false);
    let for_people = debug_fn(field).delimited(" ");
    let is_seen = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = match (format, journal) {
        (LogFormat::Json, _) => lines.json().boxed(),
        // The journal dates every line itself.
        (LogFormat::Text, true) => {
            let lines = lines.without_time().fmt_fields(for_people);
            lines.with_ansi(is_seen).boxed()
        }
        (LogFormat::Text, false) => lines.fmt_fields(for_people).with_ansi(is_seen).boxed(),
    };
    let started = tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .try_init();
    if started.is_err() {
        tracing::debug!("logging had been started before");
    }
    Ok(())
}

/// One field of a line. Many hold what a gateway or a server said, and none may write lines of its own.
fn field(line: &mut Writer<'_>, field: &Field, said: &dyn Debug) -> fmt::Result {
    let said = one_line(&format!("{said:?}"));
    match field.name() {
        "message" => write!(line, "{said}"),
        name => write!(line, "{name}={said}"),
    }
}

/// Bytes of the log that are kept: what a report shows of it. It grows as lines come.
const KEPT_BYTES_MAX: usize = 32 << 10;

static KEPT: Mutex<VecDeque<u8>> = Mutex::new(VecDeque::new());

/// The last lines that this process logged.
pub(crate) fn tail() -> String {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes: Vec<u8> = kept.iter().copied().collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Standard error, and the end of it kept.
struct Log {
    /// Whether the journal reads it, and takes each line's level from a mark before it.
    journal: bool,
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Tee;

    fn make_writer(&'a self) -> Tee {
        Tee { mark: "" }
    }

    fn make_writer_for(&'a self, of: &Metadata<'_>) -> Tee {
        let mark = match *of.level() {
            _ if !self.journal => "",
            Level::ERROR => "<3>",
            Level::WARN => "<4>",
            Level::INFO => "<6>",
            Level::DEBUG | Level::TRACE => "<7>",
        };
        Tee { mark }
    }
}

/// Takes a whole line.
struct Tee {
    mark: &'static str,
}

impl Write for Tee {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(line);
        let beyond = kept.len().saturating_sub(KEPT_BYTES_MAX);
        kept.drain(..beyond);
        drop(kept);
        // At once, so that nobody else's line gets between.
        io::stderr().write_all(&[self.mark.as_bytes(), line].concat())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_writes_lines_into_the_log_but_the_agent() {
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(Log { journal: false })
            .with_ansi(false)
            .fmt_fields(debug_fn(field).delimited(" "));
        let subscriber = tracing_subscriber::registry().with(lines);
        tracing::subscriber::with_default(subscriber, || {
            let said = "red \u{1b}[31m\n2026-01-01 ERROR made up";
            tracing::warn!(ending = %said, number = 7, "no session");
        });
        let told = "no session ending=red \\u{1b}[31m\\n2026-01-01 ERROR made up number=7\n";
        let tail = tail();
        assert!(tail.contains(told), "{tail}");
    }

    #[test]
    fn the_end_of_the_log_is_kept() {
        for number in 0..10_000 {
            writeln!(Tee { mark: "" }, "line {number}").unwrap();
        }
        let tail = tail();
        assert!(tail.len() <= KEPT_BYTES_MAX);
        assert!(tail.contains("line 9999\n"), "{tail}");
        assert!(!tail.contains("line 1\n"));
    }
}

//! Where log lines go: standard error, for a person or for the journal.
//!
//! Takes the filter of the command line. Without one, what the agent itself says from `info` on is shown. The end of it
//! is kept for whoever asks the node how it is.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _, Write};
use std::sync::{Mutex, PoisonError};

use thiserror::Error;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// The filter names no level or target.
#[derive(Debug, Error)]
#[error("expected a log filter such as info or bcd=debug, found \"{found}\"")]
pub(crate) struct FilterError {
    found: String,
    #[source]
    source: tracing_subscriber::filter::ParseError,
}

/// Starts logging for this process; a second call changes nothing.
pub(crate) fn start(filter: &str) -> Result<(), FilterError> {
    let filter: Targets = filter.parse().map_err(|source| FilterError {
        found: filter.to_owned(),
        source,
    })?;
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| Tee)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_target(false);
    // The journal dates every line itself.
    let lines = match std::env::var_os("JOURNAL_STREAM") {
        Some(_) => lines.without_time().boxed(),
        None => lines.boxed(),
    };
    let started = tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .try_init();
    if started.is_err() {
        tracing::debug!("logging had been started before");
    }
    Ok(())
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
struct Tee;

impl Write for Tee {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(line);
        let beyond = kept.len().saturating_sub(KEPT_BYTES_MAX);
        kept.drain(..beyond);
        drop(kept);
        io::stderr().write_all(line)?;
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
    fn the_end_of_the_log_is_kept() {
        for number in 0..10_000 {
            writeln!(Tee, "line {number}").unwrap();
        }
        let tail = tail();
        assert!(tail.len() <= KEPT_BYTES_MAX);
        assert!(tail.contains("line 9999\n"), "{tail}");
        assert!(!tail.contains("line 1\n"));
    }
}

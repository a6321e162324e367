//! Where log lines go: standard error, for a person or for the journal.
//!
//! Takes the filter of the command line. Without one, what the agent itself says from `info` on is shown.

use std::io::IsTerminal as _;

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
        .with_writer(std::io::stderr)
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

//! Where log lines go: standard error, for a person or for the journal.
//!
//! Takes the filter of the command line. Without one, what the agent itself says from `info` on is shown.

use std::io::IsTerminal as _;

use thiserror::Error;
use tracing_subscriber::EnvFilter;

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
    let filter = EnvFilter::try_new(filter).map_err(|source| FilterError {
        found: filter.to_owned(),
        source,
    })?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_target(false);
    // The journal dates every line itself.
    let started = match std::env::var_os("JOURNAL_STREAM") {
        Some(_) => lines.without_time().try_init(),
        None => lines.try_init(),
    };
    if started.is_err() {
        tracing::debug!("logging had been started before");
    }
    Ok(())
}

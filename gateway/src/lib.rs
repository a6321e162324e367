//! The gateway: holds the sessions of a fleet's nodes. It carries specs down and facts up, and owns no truth: all that
//! must survive it is its certificate.

mod admission;
mod backoff;
mod causes;
mod clock;
mod config;
mod credentials;
mod door;
mod drain;
mod enrol;
mod files;
#[cfg(test)]
mod fixture;
mod gateway;
mod handshakes;
mod identity;
mod journal;
mod keying;
mod limits;
mod link;
mod mailbox;
mod manager;
mod memory;
mod metrics;
mod priority;
mod rate;
mod registry;
mod reload;
mod serve;
mod server;
mod session;
#[cfg(feature = "simulation")]
pub mod simulation;
mod socket;
mod status;
mod tls;
mod upgrade;

use std::{
    io::{self, IsTerminal as _, Write as _},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
};

use bc_protocol::journal::Entry;
use clap::{Parser, ValueEnum};
use thiserror::Error;
use tracing::warn;
use tracing_subscriber::EnvFilter;

use config::{Config, ConfigError};
use credentials::{Credentials, CredentialsError};
use enrol::EnrolError;
use journal::Journal;

/// Holds the sessions of a fleet's nodes.
#[derive(Debug, Parser)]
// The example is to be copied: a line of it that was broken would be none.
#[command(name = "bc-gateway", version, after_long_help = include_str!("config/example.toml"), term_width = 0)]
pub struct Args {
    /// The configuration, a TOML file.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the configuration and stop.
    #[arg(long)]
    check_config: bool,
    /// How log lines look on standard error.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Why the gateway ended.
#[derive(Debug, Error)]
pub enum RunError {
    /// The configuration does not hold.
    #[error("cannot use the configuration")]
    Config(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// What lies in the state folder is not what a gateway keeps there.
    #[error("cannot use the identity in state_dir")]
    Identity(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// There is no certificate.
    #[error("cannot enrol")]
    Enrol(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The certificate does not serve.
    #[error("cannot use the certificate")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The operating system withholds something.
    #[error("cannot run")]
    System(#[from] io::Error),
}

/// Runs the gateway until it is told to stop.
pub fn run(args: &Args) -> Result<(), RunError> {
    let config = Config::load(&args.config)?;
    // Whatever library asks for cryptography without saying which gets the same as everything else.
    let chosen = rustls::crypto::ring::default_provider().install_default();
    if args.check_config {
        if let Some((folder, identity)) = enrol::check(&config)? {
            Credentials::new(folder, &identity)?;
        }
        return Ok(writeln!(io::stdout(), "{} is good", args.config.display())?);
    }
    log(args.log_format);
    if chosen.is_err() {
        warn!("cryptography was chosen twice");
    }
    let path = args.config.clone();
    // In a task: what runs outside of one, such as accepting, costs two changes of threads each time.
    let served = async move {
        let serving = tokio::spawn(async move { serve::run(config, &path).await });
        serving.await.map_err(io::Error::from)?
    };
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(served)
}

fn log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Colours are for eyes: a file or the journal keeps them as noise.
        .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    match (format, Journal::reached()) {
        (LogFormat::Text, Some(journal)) => {
            // It dates every entry itself.
            let line = tracing_subscriber::fmt::format().without_time();
            let entries = lines.event_format(Entry(line));
            entries.with_writer(Arc::new(journal)).init();
        }
        (LogFormat::Text, None) => lines.with_writer(io::stderr).init(),
        (LogFormat::Json, _) => lines.json().with_writer(io::stderr).init(),
    }
}

impl From<ConfigError> for RunError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error.into())
    }
}

impl From<EnrolError> for RunError {
    fn from(error: EnrolError) -> Self {
        if let EnrolError::Identity(error) = error {
            return Self::Identity(error.into());
        }
        Self::Enrol(error.into())
    }
}

impl From<CredentialsError> for RunError {
    fn from(error: CredentialsError) -> Self {
        Self::Tls(error.into())
    }
}

//! The gateway: holds the sessions of a fleet's nodes. It carries specs down and facts up, and owns no truth: all that
//! must survive it is its certificate.

mod backoff;
mod causes;
mod clock;
mod config;
mod credentials;
mod door;
mod enrol;
#[cfg(test)]
mod fixture;
mod gateway;
mod identity;
mod limits;
mod link;
mod mailbox;
mod rate;
mod registry;
mod server;
mod session;
mod socket;
mod tls;
mod upgrade;

use std::{
    io::{self, IsTerminal as _, Write as _},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
};

use clap::{Parser, ValueEnum};
use thiserror::Error;
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

use config::{Config, ConfigError};
use credentials::{Credentials, CredentialsError};
use enrol::EnrolError;
use gateway::Gateway;
use identity::Folder;
use limits::{CLOSE_TIMEOUT, FLUSH_TIMEOUT};
use link::client::Client;
use server::Server;

/// Holds the sessions of a fleet's nodes.
#[derive(Debug, Parser)]
#[command(name = "bc-gateway", version, after_long_help = include_str!("config/example.toml"))]
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
    if args.check_config {
        return Ok(writeln!(io::stdout(), "{} is good", args.config.display())?);
    }
    log(args.log_format);
    // Whatever library asks for cryptography without saying which gets the same as everything else.
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        warn!("cryptography was chosen twice");
    }
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(serve(&config))
}

fn log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // Colours are for eyes: a file or the journal keeps them as noise.
        .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    match format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().init(),
    }
}

async fn serve(config: &Config) -> Result<(), RunError> {
    let mut stop = Stop::new()?;
    let folder = Folder::open(&config.state_dir).map_err(EnrolError::from)?;
    let identity = tokio::select! {
        identity = enrol::identity(&folder, config) => identity?,
        () = stop.asked() => return Ok(()),
    };
    let address = config.listen;
    let listener = TcpListener::bind(address)
        .await
        .map_err(|source| RunError::Listen { address, source })?;
    let gateway = Arc::new(Gateway::new(config.limits, config.protocol_min));
    let unlink = CancellationToken::new();
    let credentials = Arc::new(Credentials::new(folder, &identity)?);
    let client = Client {
        credentials: Arc::clone(&credentials),
        process: rand::random(),
        gateway: Arc::clone(&gateway),
    };
    let link = tokio::spawn(client.run(unlink.clone()));
    let server = Server::new(Arc::clone(&credentials), Arc::clone(&gateway));
    // One line for whoever started it; with port 0 nobody else knows where it listens.
    writeln!(io::stdout(), "listening on {}", listener.local_addr()?)?;
    info!(gateway = %credentials.gateway(), listen = %listener.local_addr()?, "serving");

    tokio::select! {
        () = server.accept(&listener) => {}
        () = stop.asked() => {}
    }
    drop(listener);
    tokio::select! {
        () = leave(&server, &gateway, config) => {}
        () = stop.asked() => warn!("told to stop twice: leaving at once"),
    }
    unlink.cancel();
    if link.await.is_err() {
        warn!("the link's task failed");
    }
    Ok(())
}

/// Sends the nodes away, then tells control what they did last.
async fn leave(server: &Server, gateway: &Gateway, config: &Config) {
    if timeout(config.drain + 2 * CLOSE_TIMEOUT, server.drain(config.drain))
        .await
        .is_err()
    {
        warn!(
            sessions = gateway.registry.len(),
            "connections outlived the drain time"
        );
    }
    if timeout(FLUSH_TIMEOUT, gateway.upward.told()).await.is_err() {
        warn!("control has not acknowledged everything: it learns the rest from the nodes");
    }
}

/// The signals that ask a service to stop.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

impl From<ConfigError> for RunError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error.into())
    }
}

impl From<EnrolError> for RunError {
    fn from(error: EnrolError) -> Self {
        Self::Enrol(error.into())
    }
}

impl From<CredentialsError> for RunError {
    fn from(error: CredentialsError) -> Self {
        Self::Tls(error.into())
    }
}

//! `control.toml`.
//!
//! Takes a file, gives a configuration that holds: a key that nobody knows, an address that is none or a trust that
//! nobody can meet is refused with its place in the file. Reads nothing but that file.

mod database;
mod file;

use std::{
    net::SocketAddr,
    num::NonZeroU32,
    path::{Path, PathBuf},
    time::Duration,
};

use bc_protocol::release::{Trust, TrustError};
use ipnet::IpNet;
use thiserror::Error;
use url::Url;

use crate::fleet::authority::Lifetimes;
pub(crate) use database::{Database, PasswordError};

/// How control is set up.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Where the authority and the first token are, and the database where it is a file.
    pub data_dir: PathBuf,
    /// Where the database is.
    pub database: Database,
    /// Where the API listens.
    pub listen: SocketAddr,
    /// Where others find the API; absent: where it listens.
    pub base_url: Option<Url>,
    /// Where gateways link to.
    pub link_listen: SocketAddr,
    /// Where gateways find that; absent: where it listens.
    pub link_url: Option<Url>,
    /// How the API speaks TLS; absent: not at all.
    pub tls: Option<Tls>,
    /// Whose releases are registered.
    pub trust: Trust,
    /// Where release binaries come from.
    pub downloads: Downloads,
    /// How long a node is offline before its wave goes on without it.
    pub offline_grace: Duration,
    /// How long certificates are valid.
    pub lifetimes: Lifetimes,
    /// The oldest protocol for full sessions: older daemons are upgraded, and nothing else.
    pub protocol_min: u32,
    /// Whether callers come through something that names them in `X-Forwarded-For`.
    pub behind_proxy: bool,
    /// Where metrics are read; absent: nowhere.
    pub metrics_listen: Option<SocketAddr>,
    /// Who decides what callers may do; absent: their tokens.
    pub access: Option<DecisionService>,
    /// How often strangers may try.
    pub limits: Limits,
    /// Internal networks that webhooks may reach.
    pub webhook_networks: Vec<IpNet>,
}

/// A service that decides what callers may do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DecisionService {
    /// What its addresses begin with.
    pub url: Url,
    /// The bearer token that it wants to see.
    pub token_file: Option<PathBuf>,
    /// How long an answer may take.
    pub timeout: Duration,
}

/// How often strangers may try. Each counts for one address and for one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Joins and renewals of nodes and gateways; ten seconds' worth at once.
    pub joins_per_second: NonZeroU32,
    /// Tokens that are not known; so many at once.
    pub wrong_tokens_per_minute: NonZeroU32,
}

impl Default for Limits {
    fn default() -> Self {
        let some = |number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
        Self {
            // A rack that boots is no flood.
            joins_per_second: some(50),
            wrong_tokens_per_minute: some(30),
        }
    }
}

/// The API's certificate.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    /// Certificates, PEM, the server's own first.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
}

/// Where release binaries come from: from control itself, from elsewhere, or from elsewhere with what control holds as
/// its source.
#[derive(Clone, Debug)]
pub(crate) struct Downloads {
    /// Where what control serves is kept.
    pub source: Option<Source>,
    /// What nodes are told; absent: control itself.
    pub url: Option<Url>,
}

/// Where release binaries are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// In a folder of release folders.
    Folder(PathBuf),
    /// In an object store, below this address.
    Store(Url),
}

/// Why there is no configuration.
#[derive(Debug, Error)]
pub(crate) enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not TOML, or a key is unknown, missing or of the wrong kind. The reader names line and key.
    #[error("{}: {problem}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What the reader stopped at, on several lines.
        problem: String,
    },
    /// A value breaks a rule.
    #[error("{}: {key}: expected {expected}, found {found}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// The rule.
        expected: &'static str,
        /// The value.
        found: String,
    },
    /// Pins and threshold make no trust.
    #[error("{}: release: {problem}", path.display())]
    Trust {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: TrustError,
    },
}

impl Config {
    /// Reads a file.
    pub(crate) fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Io {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        file::File::parse(text)
            .map_err(|error| ConfigError::Form {
                path: path.to_owned(),
                problem: error.to_string().trim_end().to_owned(),
            })?
            .checked()
            .map_err(|wrong| wrong.at(path))
    }
}

#[cfg(test)]
mod tests;

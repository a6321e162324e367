//! The file as it is written, and the rules that its values are held to.

mod downloads;
mod tables;
mod written;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use bc_protocol::{
    digest::Pin,
    release::{Trust, TrustError},
};
use serde::Deserialize;
use url::Url;

use super::{
    Config, ConfigError, Downloads, Tls,
    database::{CONNECTIONS, Database},
};
use crate::fleet::authority::Lifetimes;
use downloads::DownloadsTable;
use tables::{AccessTable, LimitsTable, ProtocolTable, WebhooksTable};

/// More is a clock that was taken for a duration.
const GRACE_SECONDS_MAX: u64 = 7 * 24 * 60 * 60;

/// Certificates are renewed after two thirds of their life. A few seconds are for trying that out; beyond two years and
/// a quarter a lost key is good for too long.
const LIFETIME: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(3)..=Duration::from_secs(825 * 24 * 60 * 60);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    data_dir: PathBuf,
    database_url: Option<String>,
    database_password_file: Option<PathBuf>,
    database_connections: Option<u32>,
    #[serde(deserialize_with = "written::address")]
    listen: SocketAddr,
    base_url: Option<Url>,
    #[serde(deserialize_with = "written::address")]
    link_listen: SocketAddr,
    link_url: Option<Url>,
    #[serde(default)]
    behind_proxy: bool,
    downloads_url: Option<Url>,
    #[serde(default, deserialize_with = "written::address_if_any")]
    metrics_listen: Option<SocketAddr>,
    tls: Option<TlsTable>,
    release: ReleaseTable,
    #[serde(default)]
    downloads: DownloadsTable,
    #[serde(default)]
    rollout: RolloutTable,
    #[serde(default)]
    nodes: CertificateTable,
    #[serde(default)]
    gateways: CertificateTable,
    #[serde(default)]
    protocol: ProtocolTable,
    #[serde(default)]
    access: AccessTable,
    #[serde(default)]
    limits: LimitsTable,
    #[serde(default)]
    webhooks: WebhooksTable,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsTable {
    certificate: PathBuf,
    key: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReleaseTable {
    pins: Vec<Pin>,
    threshold: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RolloutTable {
    offline_grace_seconds: u64,
}

impl Default for RolloutTable {
    fn default() -> Self {
        Self {
            offline_grace_seconds: 300,
        }
    }
}

/// Of nodes, or of gateways.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CertificateTable {
    #[serde(deserialize_with = "written::span")]
    certificate_lifetime: Option<String>,
}

impl CertificateTable {
    fn lifetime(&self, key: &'static str, default: Duration) -> Result<Duration, Wrong> {
        let Some(text) = &self.certificate_lifetime else {
            return Ok(default);
        };
        humantime::parse_duration(text)
            .ok()
            .filter(|span| LIFETIME.contains(span))
            .ok_or_else(|| Wrong::value(key, "a duration like 30d, from 3s to 825d", text))
    }
}

/// A rule that a value breaks; which file it is in is not known here.
pub(super) enum Wrong {
    Value {
        key: &'static str,
        expected: &'static str,
        found: String,
    },
    Trust(TrustError),
}

impl Wrong {
    fn value(key: &'static str, expected: &'static str, found: impl ToString) -> Self {
        Self::Value {
            key,
            expected,
            found: found.to_string(),
        }
    }

    pub(super) fn at(self, path: &Path) -> ConfigError {
        let path = path.to_owned();
        match self {
            Self::Value {
                key,
                expected,
                found,
            } => ConfigError::Value {
                path,
                key,
                expected,
                found,
            },
            Self::Trust(problem) => ConfigError::Trust { path, problem },
        }
    }
}

impl File {
    pub(super) fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    fn check_listen(&self) -> Result<(), Wrong> {
        if self.tls.is_some() || self.behind_proxy || self.listen.ip().is_loopback() {
            return Ok(());
        }
        let rule = "a loopback address, or [tls], or behind_proxy = true";
        Err(Wrong::value("listen", rule, self.listen))
    }

    /// Of two that listen at one address, the second would fail when it starts.
    fn check_apart(&self) -> Result<(), Wrong> {
        let listeners = [
            ("listen", Some(self.listen)),
            ("link_listen", Some(self.link_listen)),
            ("metrics_listen", self.metrics_listen),
        ];
        let mut taken: Vec<SocketAddr> = Vec::new();
        for (key, address) in listeners {
            let Some(address) = address else {
                continue;
            };
            if taken.iter().any(|other| collide(*other, address)) {
                let expected = "an address that neither listen nor link_listen has";
                return Err(Wrong::value(key, expected, address));
            }
            taken.push(address);
        }
        Ok(())
    }

    fn check_urls(&self) -> Result<(), Wrong> {
        check_url("base_url", self.base_url.as_ref(), HTTP)?;
        check_url("downloads_url", self.downloads_url.as_ref(), HTTP)?;
        check_url("link_url", self.link_url.as_ref(), LINK)?;
        match self.link_url.as_ref().filter(|url| url.path() != "/link") {
            Some(url) => Err(Wrong::value("link_url", LINK.expected, url)),
            None => Ok(()),
        }
    }

    pub(super) fn checked(self) -> Result<Config, Wrong> {
        self.check_listen()?;
        self.check_apart()?;
        self.check_urls()?;
        let source = self.downloads.checked()?;
        if source.is_none() && self.downloads_url.is_none() {
            return Err(Wrong::value(
                "downloads",
                "downloads.dir, downloads.blob or downloads_url",
                "none of them",
            ));
        }
        let grace = self.rollout.offline_grace_seconds;
        if grace > GRACE_SECONDS_MAX {
            return Err(Wrong::value(
                "rollout.offline_grace_seconds",
                "at most 604800",
                grace,
            ));
        }
        let default = Lifetimes::default();
        let lifetimes = Lifetimes {
            node: self
                .nodes
                .lifetime("nodes.certificate_lifetime", default.node)?,
            server: self
                .gateways
                .lifetime("gateways.certificate_lifetime", default.server)?,
        };
        let database = database(
            self.database_url.as_deref(),
            self.database_connections,
            &self.data_dir,
        )?;
        let trust = Trust::new(self.release.pins, self.release.threshold).map_err(Wrong::Trust)?;
        Ok(Config {
            data_dir: self.data_dir,
            database: database.with_password_file(self.database_password_file),
            listen: self.listen,
            base_url: self.base_url,
            link_listen: self.link_listen,
            link_url: self.link_url,
            tls: self.tls.map(|tls| Tls {
                certificate: tls.certificate,
                key: tls.key,
            }),
            trust,
            downloads: Downloads {
                source,
                url: self.downloads_url,
            },
            offline_grace: Duration::from_secs(grace),
            lifetimes,
            protocol_min: self.protocol.checked()?,
            behind_proxy: self.behind_proxy,
            metrics_listen: self.metrics_listen,
            access: self.access.checked()?,
            limits: self.limits.into(),
            webhook_networks: self.webhooks.allow_networks,
        })
    }
}

fn database(
    url: Option<&str>,
    connections: Option<u32>,
    data_dir: &Path,
) -> Result<Database, Wrong> {
    if let Some(max) = connections.filter(|max| !CONNECTIONS.contains(max)) {
        return Err(Wrong::value("database_connections", "2 to 500", max));
    }
    // What was found is not told: there may be a password in it.
    let database = Database::parse(url, data_dir).map_err(|_| {
        let expected = "sqlite:FILE or postgres://USER@HOST/DATABASE";
        Wrong::value("database_url", expected, "another text")
    })?;
    Ok(database.with_connections(connections))
}

/// Whether two sockets cannot listen side by side. Port 0 is whichever is free.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let everywhere = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && (one.ip() == other.ip() || everywhere)
}

/// A kind of address, and how people write one.
#[derive(Clone, Copy)]
struct Kind {
    schemes: &'static [&'static str],
    expected: &'static str,
}

const HTTP: Kind = Kind {
    schemes: &["http", "https"],
    expected: "an https or http address with a host and no user, query or fragment",
};

const LINK: Kind = Kind {
    schemes: &["wss"],
    expected: "wss://HOST:PORT/link",
};

fn check_url(key: &'static str, url: Option<&Url>, kind: Kind) -> Result<(), Wrong> {
    let Some(url) = url else {
        return Ok(());
    };
    let plain = kind.schemes.contains(&url.scheme())
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if plain {
        return Ok(());
    }
    Err(Wrong::value(key, kind.expected, url))
}

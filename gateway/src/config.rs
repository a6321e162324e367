//! The gateway's configuration.
//!
//! Takes the text of `gateway.toml`, gives values that hold. A key that nobody knows is an error with its line: a
//! typo must not silently mean the default.

mod bounds;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use bc_protocol::session::ProtocolRange;
use serde::Deserialize;
use thiserror::Error;
use url::{Host, Url};

use crate::limits::{Limits, span};

/// What `gateway.toml` says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Where nodes connect.
    pub(crate) listen: SocketAddr,
    /// Where metrics and health are read, if anywhere.
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// Control's API, for enrolment only: the link's address comes with the certificate.
    pub(crate) control: Url,
    /// Where key and certificate are kept.
    pub(crate) state_dir: PathBuf,
    /// The file with the one-use token; needed until the gateway has enrolled.
    pub(crate) enrol_token_file: Option<PathBuf>,
    /// Who signed control's https certificate, where the system does not know it.
    pub(crate) ca_file: Option<PathBuf>,
    /// The oldest protocol for full sessions until control has said otherwise.
    #[serde(default = "oldest_protocol")]
    pub(crate) protocol_min: u32,
    /// Over how long sessions are sent away when the gateway stops.
    #[serde(default = "drain", deserialize_with = "span")]
    pub(crate) drain: Duration,
    /// The bounds.
    #[serde(default)]
    pub(crate) limits: Limits,
}

/// Why there is no configuration.
#[derive(Debug, Error)]
pub(crate) enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file does not say what it must.
    #[error("{} does not hold a configuration", path.display())]
    Invalid {
        /// Which file.
        path: PathBuf,
        /// Where in it, and why.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// A key has a value that it must not have.
    #[error("{key}: expected {expected}, found {found}")]
    Value {
        /// Which key.
        key: &'static str,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
}

impl Config {
    /// Reads a file.
    pub(crate) fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let config: Self = toml::from_str(&text).map_err(|source| ConfigError::Invalid {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        config.checked()
    }

    fn checked(self) -> Result<Self, ConfigError> {
        let loopback = match self.control.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        };
        let safe = match self.control.scheme() {
            "https" => true,
            // The token travels on this connection: in the clear only where nobody else can listen.
            "http" => loopback,
            _ => false,
        };
        if !safe {
            return Err(ConfigError::Value {
                key: "control",
                expected: "https://HOST, or http:// to this machine",
                found: self.control.to_string(),
            });
        }
        // Two with port 0 differ when they are bound.
        if self.metrics_listen == Some(self.listen) && self.listen.port() != 0 {
            return Err(ConfigError::Value {
                key: "metrics_listen",
                expected: "another address than listen",
                found: self.listen.to_string(),
            });
        }
        let known = ProtocolRange::CURRENT;
        if self.protocol_min == 0 || self.protocol_min > known.max {
            return Err(ConfigError::Value {
                key: "protocol_min",
                expected: "a protocol that this gateway speaks, from 1 to its newest",
                found: self.protocol_min.to_string(),
            });
        }
        bounds::check(&self.limits)?;
        Ok(self)
    }
}

fn oldest_protocol() -> u32 {
    ProtocolRange::CURRENT.min
}

fn drain() -> Duration {
    Duration::from_secs(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str =
        "listen = \"127.0.0.1:0\"\ncontrol = \"https://control.example\"\nstate_dir = \"/s\"\n";

    fn read(text: &str) -> Result<Config, String> {
        toml::from_str::<Config>(text)
            .map_err(|error| error.to_string())
            .and_then(|config| config.checked().map_err(|error| error.to_string()))
    }

    #[test]
    fn three_keys_are_enough() {
        let config = read(LEAST).unwrap();
        assert_eq!(config.limits, Limits::default());
        assert_eq!(config.drain, Duration::from_secs(10));
        assert_eq!(config.protocol_min, 1);
    }

    #[test]
    fn the_example_that_help_shows_holds_and_has_every_default() {
        let example = read(include_str!("config/example.toml")).unwrap();
        let least = read(LEAST).unwrap();
        assert_eq!(example.limits, least.limits);
        assert_eq!(
            (example.drain, example.protocol_min),
            (least.drain, least.protocol_min)
        );
        assert!(example.ca_file.is_some() && example.enrol_token_file.is_some());
    }

    /// Clocks and counters have room for whatever is accepted.
    #[test]
    fn spans_end_at_a_day() {
        for (key, table) in [("drain", ""), ("hello_timeout", "[limits]\n")] {
            for (span, good) in [
                ("1day", true),
                ("86401s", false),
                ("18446744073709551615s", false),
            ] {
                let read = read(&format!("{LEAST}{table}{key} = \"{span}\"\n"));
                assert_eq!(read.is_ok(), good, "{key} {span}");
                if let Err(error) = read {
                    assert!(error.contains("at most 1day"), "{error}");
                }
            }
        }
    }

    #[test]
    fn a_typo_is_an_error_with_its_line_and_key() {
        let error = read(&format!("{LEAST}drian = \"10s\"\n")).unwrap_err();
        assert!(
            error.contains("line 4") && error.contains("drian"),
            "{error}"
        );
        let error = read(&format!("{LEAST}[limits]\nhello_timout = \"1s\"\n")).unwrap_err();
        assert!(
            error.contains("line 5") && error.contains("hello_timout"),
            "{error}"
        );
    }

    #[test]
    fn values_are_held_against_their_meaning() {
        for (wrong, word) in [
            ("drain = \"0s\"", "above zero"),
            ("drain = \"soon\"", "above zero"),
            ("protocol_min = 0", "protocol_min"),
            ("protocol_min = 99", "protocol_min"),
            ("metrics_listen = \"127.0.0.1\"", "metrics_listen"),
            ("[limits]\nhandshakes_wait = 5", "handshakes_wait"),
            ("[limits]\nmessages_burst = 0", "messages_burst"),
        ] {
            let error = read(&format!("{LEAST}{wrong}\n")).unwrap_err();
            assert!(error.contains(word), "{wrong}: {error}");
        }
    }

    #[test]
    fn nodes_and_metrics_do_not_meet() {
        let both = |address: &str| {
            read(&format!(
                "listen = \"{address}\"\nmetrics_listen = \"{address}\"\ncontrol = \"https://c\"\nstate_dir = \"/s\""
            ))
        };
        let error = both("0.0.0.0:8443").unwrap_err();
        assert!(
            error.contains("metrics_listen: expected another"),
            "{error}"
        );
        both("127.0.0.1:0").unwrap();
    }

    #[test]
    fn the_token_never_travels_in_the_clear() {
        for (control, safe) in [
            ("https://control.example", true),
            ("http://127.0.0.1:8080", true),
            ("http://[::1]:8080", true),
            ("http://localhost:8080", true),
            ("http://control.example", false),
            ("http://127.0.0.1.example", false),
            ("ftp://127.0.0.1", false),
        ] {
            let text =
                format!("listen = \"[::]:1\"\ncontrol = \"{control}\"\nstate_dir = \"/s\"\n");
            assert_eq!(read(&text).is_ok(), safe, "{control}");
        }
    }
}

//! Tables of the file that are about who asks control, and what control asks of others.

use std::{num::NonZeroU32, path::PathBuf, time::Duration};

use bc_protocol::session::ProtocolRange;
use ipnet::IpNet;
use serde::Deserialize;
use url::Url;

use super::{HTTP, Wrong, check_url};
use crate::config::{DecisionService, Limits};

/// A caller waits for the decision: longer is longer than he does.
const DECISION_SECONDS: std::ops::RangeInclusive<f64> = 0.01..=20.0;

/// `[protocol]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProtocolTable {
    minimum: u32,
}

impl Default for ProtocolTable {
    fn default() -> Self {
        Self {
            minimum: ProtocolRange::CURRENT.min,
        }
    }
}

impl ProtocolTable {
    pub(super) fn checked(&self) -> Result<u32, Wrong> {
        let known = ProtocolRange::CURRENT;
        if !(known.min..=known.max).contains(&self.minimum) {
            return Err(Wrong::value(
                "protocol.minimum",
                "a protocol that this build speaks, 1 or 2",
                self.minimum,
            ));
        }
        Ok(self.minimum)
    }
}

/// `[access]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AccessTable {
    authzen_url: Option<Url>,
    authzen_token_file: Option<PathBuf>,
    timeout_seconds: Option<f64>,
}

impl AccessTable {
    pub(super) fn checked(self) -> Result<Option<DecisionService>, Wrong> {
        let Some(url) = self.authzen_url else {
            let others = self.authzen_token_file.is_some() || self.timeout_seconds.is_some();
            return match others {
                true => Err(Wrong::value(
                    "access.authzen_url",
                    "the address that the table's other keys are about",
                    "none",
                )),
                false => Ok(None),
            };
        };
        check_url("access.authzen_url", Some(&url), HTTP)?;
        if url.scheme() == "http" && !is_loopback(&url) {
            return Err(Wrong::value(
                "access.authzen_url",
                "https, or http on this machine",
                &url,
            ));
        }
        let seconds = self.timeout_seconds.unwrap_or(2.0);
        if !DECISION_SECONDS.contains(&seconds) {
            return Err(Wrong::value(
                "access.timeout_seconds",
                "0.01 to 20",
                seconds,
            ));
        }
        Ok(Some(DecisionService {
            url,
            token_file: self.authzen_token_file,
            timeout: Duration::from_secs_f64(seconds),
        }))
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// `[limits]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LimitsTable {
    joins_per_second: NonZeroU32,
    wrong_tokens_per_minute: NonZeroU32,
}

impl Default for LimitsTable {
    fn default() -> Self {
        let Limits {
            joins_per_second,
            wrong_tokens_per_minute,
        } = Limits::default();
        Self {
            joins_per_second,
            wrong_tokens_per_minute,
        }
    }
}

impl From<LimitsTable> for Limits {
    fn from(table: LimitsTable) -> Self {
        Self {
            joins_per_second: table.joins_per_second,
            wrong_tokens_per_minute: table.wrong_tokens_per_minute,
        }
    }
}

/// `[webhooks]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WebhooksTable {
    pub(super) allow_networks: Vec<IpNet>,
}

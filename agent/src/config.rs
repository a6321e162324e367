//! What a node's owner has decided: `bcd.toml`.
//!
//! Takes the file, gives a [`Config`] whose every value holds, or an error that names the file, the line, the key, what
//! was expected and what was found. A key that nobody reads is an error too: it is a typo.

mod problem;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bc_protocol::digest::Pin;
use bc_protocol::limits::{LABEL_BYTES_MAX, LABELS_MAX};
use bc_protocol::release::Trust;
use serde::{Deserialize, Deserializer};
use toml::Spanned;
use url::Url;

use crate::durable;
use crate::http;
use crate::paths::DEFAULT_ROOT;

pub(crate) use problem::ConfigError;
use problem::{Document, Problem};

/// Bytes of a configuration: a thousand times what one needs, and no more.
pub(crate) const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// The least time that a binary on trial may have.
const DEADLINE_MIN: Duration = Duration::from_secs(1);

/// The most.
const DEADLINE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Where the package puts its binary.
const DEFAULT_PACKAGE_BINARY: &str = "/usr/lib/bcd/bcd";

/// One node's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    /// Where control answers; needed to join only.
    pub(crate) control: Option<Url>,
    /// The node's folder.
    pub(crate) state_dir: PathBuf,
    /// Gateways to use instead of those that joining named.
    pub(crate) gateways: Vec<Url>,
    /// What the owner says about this node.
    pub(crate) labels: BTreeMap<String, String>,
    /// The package's own binary: boot loader, and what a new machine starts with.
    pub(crate) package_binary: PathBuf,
    /// Which downloads and control addresses may go without TLS.
    pub(crate) plain_http: PlainHttp,
    /// A further root certificate for https.
    pub(crate) ca_file: Option<PathBuf>,
    /// Which user the node runs as.
    pub(crate) node: NodeConfig,
    /// Whom to believe, and how long to wait.
    pub(crate) update: UpdateConfig,
}

/// The node's rights on its machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeConfig {
    /// The user that the node runs as, by name or number; without one, whoever starts it.
    pub(crate) user: Option<String>,
    /// Where the helper listens: the node asks there instead of writing slots and record itself.
    pub(crate) helper_socket: Option<PathBuf>,
    /// The service manager's unit that watches over a trial.
    #[serde(default = "default_watchdog_unit")]
    pub(crate) watchdog_unit: String,
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            user: None,
            helper_socket: None,
            watchdog_unit: default_watchdog_unit(),
        }
    }
}

fn default_watchdog_unit() -> String {
    "bcd-watchdog.service".to_owned()
}

/// How a node judges releases and trials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UpdateConfig {
    pub(crate) trust: Trust,
    /// How long a binary on trial has to be confirmed.
    pub(crate) watchdog_deadline: Duration,
    /// How long the session of a binary on trial has to hold.
    pub(crate) stable_for: Duration,
}

/// Where http without TLS is good enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlainHttp {
    /// To this machine alone.
    Loopback,
    /// Everywhere: the owner said so.
    Anywhere,
}

impl PlainHttp {
    /// Whether `url` may be used: https always, http where the owner allows it.
    pub(crate) fn admits(self, url: &Url) -> bool {
        match url.scheme() {
            "https" => true,
            "http" => match self {
                Self::Loopback => is_loopback(url),
                Self::Anywhere => true,
            },
            _ => false,
        }
    }
}

/// Whether a URL's host is this machine, by its address. Names are not looked up, but `localhost` is one that only
/// this machine can answer for.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

impl Config {
    /// Reads the file at `path`.
    pub(crate) fn load(path: &Path) -> Result<Self, ConfigError> {
        let bytes = durable::read_bounded(path, CONFIG_BYTES_MAX).map_err(|source| {
            ConfigError::Unreadable {
                path: path.to_owned(),
                source,
            }
        })?;
        let text = String::from_utf8(bytes).map_err(|_| ConfigError::NotText {
            path: path.to_owned(),
        })?;
        Self::parse(&text).map_err(|problem| problem.in_file(path))
    }

    fn parse(text: &str) -> Result<Self, Problem> {
        let document = Document::new(text);
        let file: File = toml::from_str(text).map_err(|error| document.refused(&error))?;
        file.check(document)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    control: Option<Spanned<Url>>,
    state_dir: Option<Spanned<PathBuf>>,
    #[serde(default)]
    gateways: Vec<Spanned<Url>>,
    #[serde(default)]
    labels: BTreeMap<String, Spanned<String>>,
    package_binary: Option<Spanned<PathBuf>>,
    #[serde(default)]
    allow_http: bool,
    ca_file: Option<Spanned<PathBuf>>,
    #[serde(default)]
    node: NodeConfig,
    update: Update,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Update {
    release_pins: Spanned<Vec<Pin>>,
    threshold: Spanned<usize>,
    #[serde(default = "default_deadline")]
    watchdog_deadline: Spanned<HumanDuration>,
    #[serde(default = "default_hold")]
    stable_for: Spanned<HumanDuration>,
}

fn default_deadline() -> Spanned<HumanDuration> {
    Spanned::new(0..0, HumanDuration(Duration::from_secs(120)))
}

fn default_hold() -> Spanned<HumanDuration> {
    Spanned::new(0..0, HumanDuration(Duration::from_secs(10)))
}

/// A duration as people write it: `120s`, `2m`.
struct HumanDuration(Duration);

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_duration(&text).map(Self).map_err(|_| {
            serde::de::Error::custom(format!(
                "expected a duration such as \"120s\" or \"2m\", found \"{text}\""
            ))
        })
    }
}

impl File {
    fn check(self, document: Document<'_>) -> Result<Config, Problem> {
        let plain_http = if self.allow_http {
            PlainHttp::Anywhere
        } else {
            PlainHttp::Loopback
        };
        if let Some(control) = &self.control
            && !plain_http.admits(control.get_ref())
        {
            let expected = "https, or http to this machine, or allow_http = true";
            return Err(document.wrong(&control.span(), expected, control.get_ref()));
        }
        for gateway in &self.gateways {
            if gateway.get_ref().scheme() != "wss" || !gateway.get_ref().has_host() {
                let expected = "a gateway such as wss://gateway.example:443/session";
                return Err(document.wrong(&gateway.span(), expected, gateway.get_ref()));
            }
        }
        let mut urls = self.gateways.iter().chain(&self.control);
        if let Some(url) = urls.find(|url| has_secret(url.get_ref())) {
            let expected = "an address without name and password";
            return Err(document.wrong(&url.span(), expected, http::shown(url.get_ref())));
        }
        for path in [&self.state_dir, &self.package_binary, &self.ca_file] {
            check_path(path.as_ref(), document)?;
        }
        check_labels(&self.labels, document)?;
        Ok(Config {
            control: self.control.map(Spanned::into_inner),
            state_dir: self
                .state_dir
                .map_or_else(|| DEFAULT_ROOT.into(), Spanned::into_inner),
            gateways: self.gateways.into_iter().map(Spanned::into_inner).collect(),
            labels: self
                .labels
                .into_iter()
                .map(|(name, text)| (name, text.into_inner()))
                .collect(),
            package_binary: self
                .package_binary
                .map_or_else(|| DEFAULT_PACKAGE_BINARY.into(), Spanned::into_inner),
            plain_http,
            ca_file: self.ca_file.map(Spanned::into_inner),
            node: self.node,
            update: self.update.check(document)?,
        })
    }
}

/// Nobody is asked for one, and it would stand in logs and reports.
fn has_secret(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// A path that depends on where a program was started would be another one for each of them.
fn check_path(path: Option<&Spanned<PathBuf>>, document: Document<'_>) -> Result<(), Problem> {
    match path {
        Some(path) if !path.get_ref().is_absolute() => {
            let found = path.get_ref().display();
            Err(document.wrong(&path.span(), "a path that begins with /", found))
        }
        Some(_) | None => Ok(()),
    }
}

fn check_labels(
    labels: &BTreeMap<String, Spanned<String>>,
    document: Document<'_>,
) -> Result<(), Problem> {
    let fits = |text: &str| {
        (1..=LABEL_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control)
    };
    for (name, text) in labels {
        if !fits(name) || !fits(text.get_ref()) {
            let expected = "labels of 1 to 256 bytes on one line";
            let found = format!("{name:?} = {:?}", text.get_ref());
            return Err(document.wrong(&text.span(), expected, found));
        }
    }
    match labels.values().nth(LABELS_MAX) {
        Some(beyond) => Err(document.wrong(&beyond.span(), "at most 64 labels", labels.len())),
        None => Ok(()),
    }
}

impl Update {
    fn check(self, document: Document<'_>) -> Result<UpdateConfig, Problem> {
        let trust = self.trust(document)?;
        let (deadline, hold) = (
            self.watchdog_deadline.get_ref().0,
            self.stable_for.get_ref().0,
        );
        // Shorter, no binary could ever be confirmed; longer, a dead one would stay.
        if !(DEADLINE_MIN..=DEADLINE_MAX).contains(&deadline) {
            let expected = "watchdog_deadline to be from 1s to 1day";
            let found = humantime::format_duration(deadline);
            return Err(document.wrong(&self.watchdog_deadline.span(), expected, found));
        }
        // A binary that must hold its session for longer than its whole trial can never be confirmed.
        if hold >= deadline {
            let at = [&self.stable_for, &self.watchdog_deadline]
                .into_iter()
                .map(Spanned::span)
                .find(|span| !span.is_empty())
                .unwrap_or_default();
            let found = format!(
                "{} within {}",
                humantime::format_duration(hold),
                humantime::format_duration(deadline)
            );
            let expected = "stable_for to be shorter than watchdog_deadline";
            return Err(document.wrong(&at, expected, found));
        }
        Ok(UpdateConfig {
            trust,
            watchdog_deadline: deadline,
            stable_for: hold,
        })
    }

    fn trust(&self, document: Document<'_>) -> Result<Trust, Problem> {
        let pins = self.release_pins.get_ref();
        let distinct: BTreeSet<_> = pins.iter().collect();
        // Whichever of the two keys is at fault is the line to show.
        let at = if pins.is_empty() || distinct.len() < pins.len() {
            self.release_pins.span()
        } else {
            self.threshold.span()
        };
        Trust::new(pins.iter().copied(), *self.threshold.get_ref())
            .map_err(|error| document.says(&at, error.to_string()))
    }
}

#[cfg(test)]
mod tests;

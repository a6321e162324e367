//! What Prometheus reads.
//!
//! Takes counts from wherever something happens, gives one text. Every series is there at zero from the start: one that
//! appears with the first failure shows no increase. It decides nothing.

mod labels;
mod refusals;

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::{Metric, Registry},
};

use labels::{Ended, Reached, at_zero};
pub(crate) use labels::{Limit, Reloaded};
use refusals::Refusals;

use crate::session::Ending;

/// What every name begins with.
const PREFIX: &str = "bc_gateway";

/// From a handshake on an idle machine to one that is given up.
const SECONDS: [f64; 10] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];

/// Every series of the process.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    /// Connections that are open, of whatever kind.
    pub(crate) connections: Gauge,
    /// Connections that wait for their turn.
    pub(crate) waiting: Gauge,
    /// Connections between their turn and their request for a session.
    pub(crate) handshakes: Gauge,
    /// Those of them that agree upon keys.
    pub(crate) keying: Gauge,
    /// How long handshakes take that end in a session, from their turn on.
    pub(crate) handshake_seconds: Histogram,
    /// Sessions that are open.
    pub(crate) sessions: Gauge,
    /// Sessions that were opened.
    pub(crate) sessions_opened: Counter,
    sessions_ended: Family<Ended, Counter>,
    limits_reached: Family<Reached, Counter>,
    refusals: Refusals,
    /// One while there is a link to control.
    pub(crate) linked: Gauge,
    /// Links that were made.
    pub(crate) links: Counter,
    /// Batches that control has not acknowledged.
    pub(crate) unacknowledged: Gauge,
    /// Nodes that control has yet to hear something of.
    pub(crate) untold: Gauge,
    /// One while sessions are sent away.
    pub(crate) draining: Gauge,
    reloads: Family<Reloaded, Counter>,
    /// When the certificate ends.
    pub(crate) certificate_ends: Gauge<f64, AtomicU64>,
}

impl Metrics {
    /// All at zero.
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let to = &mut registry;
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        to.register("build", "Which build this is", version);
        let metrics = Self {
            connections: add(to, "connections", "Open connections"),
            waiting: add(
                to,
                "connections_waiting",
                "Connections that wait for their turn",
            ),
            handshakes: add(
                to,
                "handshakes",
                "Connections between their turn and a session",
            ),
            keying: add(
                to,
                "handshakes_under_way",
                "Handshakes under way, of those who have said all it takes to begin one",
            ),
            handshake_seconds: shown(
                to,
                "handshake_seconds",
                "How long handshakes take, from their turn to the session's request",
                Histogram::new(SECONDS),
            ),
            sessions: add(to, "sessions", "Open sessions"),
            sessions_opened: add(to, "sessions_opened", "Sessions that were opened"),
            sessions_ended: add(to, "sessions_ended", "Sessions that ended, by reason"),
            limits_reached: add(
                to,
                "limits_reached",
                "How often a limit kept something from happening",
            ),
            refusals: Refusals::default(),
            linked: add(to, "linked", "Whether there is a link to control"),
            links: add(to, "links", "Links to control that were made"),
            unacknowledged: add(
                to,
                "link_batches_unacknowledged",
                "Batches that control has not acknowledged",
            ),
            untold: add(
                to,
                "nodes_untold",
                "Nodes that control has yet to hear something of",
            ),
            draining: add(to, "draining", "Whether sessions are sent away"),
            reloads: add(to, "reloads", "Readings of configuration and certificate"),
            certificate_ends: add(
                to,
                "certificate_ends_timestamp_seconds",
                "When the gateway's own certificate ends",
            ),
            registry,
        };
        at_zero(&metrics);
        metrics
    }

    /// Counts what a limit keeps from happening, for whoever has its own words for it.
    pub(crate) fn limit(&self, limit: Limit) -> Counter {
        let counter = self.limits_reached.get_or_create(&Reached::of(limit));
        counter.clone()
    }

    /// A limit has kept something from happening. Who it was is logged, but not each of a flood.
    pub(crate) fn limit_reached(&self, limit: Limit, found: &dyn std::fmt::Display) {
        self.limits_reached.get_or_create(&Reached::of(limit)).inc();
        self.refusals.say(limit, found);
    }

    /// A session ended, or a connection before it became one.
    pub(crate) fn session_ended(&self, ending: &Ending) {
        self.sessions_ended.get_or_create(&Ended::of(ending)).inc();
        if let Some(limit) = Limit::behind(ending) {
            self.limits_reached.get_or_create(&Reached::of(limit)).inc();
        }
    }

    /// Configuration and certificate were read again.
    pub(crate) fn reloaded(&self, outcome: Reloaded) {
        self.reloads.get_or_create(&outcome).inc();
    }

    /// The text, in the form of OpenMetrics.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        if let Err(error) = encode(&mut text, &self.registry) {
            tracing::error!(%error, "metrics cannot be written down");
        }
        text
    }
}

/// Registers a series at zero and gives it on.
fn add<M: Metric + Clone + Default>(to: &mut Registry, name: &str, help: &str) -> M {
    shown(to, name, help, M::default())
}

fn shown<M: Metric + Clone>(to: &mut Registry, name: &str, help: &str, series: M) -> M {
    to.register(name, help, series.clone());
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_and_ending_is_there_from_the_start() {
        let text = Metrics::new().text();
        for line in [
            "bc_gateway_sessions 0",
            "bc_gateway_sessions_opened_total 0",
            "bc_gateway_sessions_ended_total{reason=\"superseded\"} 0",
            "bc_gateway_limits_reached_total{limit=\"handshakes-per-second\"} 0",
            "bc_gateway_limits_reached_total{limit=\"write-timeout\"} 0",
            "bc_gateway_reloads_total{outcome=\"refused\"} 0",
            "bc_gateway_linked 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    /// The names of series in a text that asks for some.
    fn names(text: &str) -> std::collections::BTreeSet<&str> {
        let found = text.match_indices("bc_gateway_").map(|(at, _)| {
            let rest = &text[at..];
            let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_');
            &rest[..end.unwrap_or(rest.len())]
        });
        found.collect()
    }

    #[test]
    fn every_series_that_alerts_and_the_dashboard_name_is_there() {
        let text = Metrics::new().text();
        for file in [
            include_str!("../../packaging/alerts/gateway.rules.yml"),
            include_str!("../../packaging/alerts/gateway.test.yml"),
            include_str!("../../packaging/grafana/gateway.json"),
        ] {
            let named = names(file);
            assert!(named.len() > 4, "{named:?}");
            for name in named {
                let is_there = text.lines().any(|line| {
                    let rest = line.strip_prefix(name);
                    rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
                });
                assert!(is_there, "{name}");
            }
        }
    }

    #[test]
    fn alerts_do_as_their_tests_say() {
        let packaging = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging");
        serde_json::from_slice::<serde_json::Value>(
            &std::fs::read(packaging.join("grafana/gateway.json")).unwrap(),
        )
        .unwrap();
        // Where Prometheus' own tool is installed, it has the last word.
        if let Ok(done) = std::process::Command::new("promtool")
            .args(["test", "rules"])
            .arg(packaging.join("alerts/gateway.test.yml"))
            .output()
        {
            let said = String::from_utf8_lossy(&done.stdout);
            assert!(done.status.success(), "{said}");
        }
    }

    #[test]
    fn an_ending_by_a_limit_counts_twice() {
        let metrics = Metrics::new();
        let waited = std::time::Duration::from_secs(1);
        metrics.session_ended(&Ending::WriteStalled { waited });
        metrics.session_ended(&Ending::Closed);
        let text = metrics.text();
        for line in [
            "bc_gateway_sessions_ended_total{reason=\"write-stalled\"} 1",
            "bc_gateway_sessions_ended_total{reason=\"closed\"} 1",
            "bc_gateway_limits_reached_total{limit=\"write-timeout\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}

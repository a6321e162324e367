//! What Prometheus reads.
//!
//! Takes counts from wherever something happens, gives one text. Every series that an alert names is there at zero from
//! the start: a series that appears with the first failure shows no increase. It decides nothing.

mod labels;
mod listener;
mod look;

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::{Metric, Registry},
};

pub(crate) use labels::{Call, Decision, Delivered, Quota, Work};
pub(crate) use listener::{Listener, ListenerError};

use crate::{clock::Moment, db::Db};

/// What every name begins with.
const PREFIX: &str = "bc_control";

/// From a lookup by key to the longest answer that is waited for.
const SECONDS: [f64; 10] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];

/// Every series of the process.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    looked: look::Looked,
    /// Answers of the API, by method and code.
    pub calls: Family<Call, Counter>,
    /// How long answers take.
    pub call_seconds: Histogram,
    /// Connections that are open.
    pub connections: Gauge,
    /// Connections that found no place.
    pub connections_refused: Counter,
    /// Connections that watch events.
    pub watchers: Gauge,
    /// Strangers who tried too often.
    pub quota_exceeded: Family<Quota, Counter>,
    /// What callers may do, by answer.
    pub decisions: Family<Decision, Counter>,
    /// Attempts to deliver events to webhooks.
    pub deliveries: Family<Delivered, Counter>,
    /// Nodes with a session here that have not been given today's gateways and authorities.
    pub nodes_behind: Gauge,
    /// Failures of what is done again and again.
    work_failed: Family<Work, Counter>,
    /// Rounds of the controller over all rollouts.
    pub rounds: Counter,
    /// How long a round takes.
    pub round_seconds: Histogram,
    /// When the last round ended.
    pub round_ended: Gauge<f64, AtomicU64>,
}

impl Metrics {
    /// All at zero.
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let to = &mut registry;
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        to.register("build", "Which build this is", version);
        let histogram = || Histogram::new(SECONDS);
        let looked = look::Looked::new(to);
        let metrics = Self {
            looked,
            calls: add(to, "calls", "Answers of the API", Family::default()),
            call_seconds: add(to, "call_seconds", "How long answers take", histogram()),
            connections: add(to, "connections", "Open connections", Gauge::default()),
            connections_refused: add(
                to,
                "connections_refused",
                "Connections that found no place",
                Counter::default(),
            ),
            watchers: add(
                to,
                "watchers",
                "Connections that watch events",
                Gauge::default(),
            ),
            quota_exceeded: add(
                to,
                "quota_exceeded",
                "Calls of strangers who tried too often",
                Family::default(),
            ),
            decisions: add(
                to,
                "decisions",
                "Answers to what callers may do",
                Family::default(),
            ),
            deliveries: add(
                to,
                "webhook_attempts",
                "Attempts to deliver events to webhooks",
                Family::default(),
            ),
            nodes_behind: add(
                to,
                "nodes_behind",
                "Nodes on links of this process that have yet to be told of today's gateways and authorities",
                Gauge::default(),
            ),
            work_failed: add(
                to,
                "work_failed",
                "Failures of what control does over and over, by itself",
                Family::default(),
            ),
            rounds: add(
                to,
                "rounds",
                "Rounds of the controller over all rollouts",
                Counter::default(),
            ),
            round_seconds: add(to, "round_seconds", "How long a round takes", histogram()),
            round_ended: add(
                to,
                "round_ended_timestamp_seconds",
                "When the last round ended",
                Gauge::default(),
            ),
            registry,
        };
        labels::at_zero(&metrics);
        metrics
    }

    /// A method of the API: its series begin at zero.
    pub(crate) fn expect_calls(&self, method: &str) {
        for code in ["OK", "INTERNAL"] {
            drop(self.calls.get_or_create(&Call::new(method, code)));
        }
    }

    /// Something that is done over and over has failed: it changed nothing, and is tried again.
    pub(crate) fn has_failed(&self, work: &Work) {
        self.work_failed.get_or_create(work).inc();
    }

    /// The controller has been over all rollouts.
    pub(crate) fn round_is_over(&self, took: std::time::Duration, now: Moment) {
        self.rounds.inc();
        self.round_seconds.observe(took.as_secs_f64());
        // Milliseconds since 1970 are exact in a float for longer than anybody runs this.
        #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 ms")]
        self.round_ended.set(now.millis() as f64 / 1000.0);
    }

    /// How long ago the controller has been over all rollouts; nothing before its first round has ended.
    pub(crate) fn since_last_round(&self, now: Moment) -> Option<std::time::Duration> {
        let ended = self.round_ended.get();
        #[expect(clippy::cast_possible_truncation, reason = "it was whole milliseconds")]
        let ended = Moment::from_millis((ended * 1000.0).round() as i64);
        (self.rounds.get() > 0).then(|| now.since(ended))
    }

    /// Looks up what only the database knows.
    pub(crate) async fn look(&self, db: &Db, now: Moment) {
        self.looked.look(db, now).await;
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

/// Registers a series and gives it on.
fn add<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, series: M) -> M {
    registry.register(name, help, series.clone());
    series
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::Metrics;

    #[test]
    fn what_alerts_need_is_there_from_the_start() {
        let metrics = Metrics::new();
        metrics.expect_calls("rollouts/pause");
        let text = metrics.text();
        for line in [
            "bc_control_calls_total{method=\"rollouts/pause\",code=\"INTERNAL\"} 0",
            "bc_control_decisions_total{answer=\"undecided\"} 0",
            "bc_control_quota_exceeded_total{of=\"join\"} 0",
            "bc_control_connections_refused_total 0",
            "bc_control_work_failed_total{work=\"pass\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}

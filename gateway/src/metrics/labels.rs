//! What tells the series of one name apart. Every set of values is bounded: none comes from outside.

use prometheus_client::encoding::EncodeLabelSet;

use super::Metrics;
use crate::session::Ending;

/// Every limit that can keep something from happening.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Limit {
    /// `connections_max`.
    Connections,
    /// `unwelcomed_per_address`.
    Unwelcomed,
    /// `handshakes_per_second`.
    Handshakes,
    /// `handshakes_per_address_per_second`.
    HandshakesPerAddress,
    /// `handshakes_under_way`.
    HandshakesUnderWay,
    /// `sessions_per_node_per_minute`.
    SessionsPerNode,
    /// `handshake_timeout`.
    HandshakeTimeout,
    /// `hello_timeout`.
    HelloTimeout,
    /// `write_timeout`.
    WriteTimeout,
    /// Heartbeats without an answer.
    Silence,
    /// `messages_per_second`.
    Messages,
    /// `bytes_per_second`.
    Bytes,
    /// A frame's size and form.
    Frames,
    /// Room for results and reports that wait for control.
    Reports,
    /// Ended sessions that wait for control.
    EndedSessions,
    /// No certificate of this fleet, or no request for a session.
    Strangers,
    /// Places and time for questions about metrics and health.
    Status,
}

impl Limit {
    /// All of them.
    pub(super) const ALL: [Self; 17] = [
        Self::Connections,
        Self::Unwelcomed,
        Self::Handshakes,
        Self::HandshakesPerAddress,
        Self::HandshakesUnderWay,
        Self::SessionsPerNode,
        Self::HandshakeTimeout,
        Self::HelloTimeout,
        Self::WriteTimeout,
        Self::Silence,
        Self::Messages,
        Self::Bytes,
        Self::Frames,
        Self::Reports,
        Self::EndedSessions,
        Self::Strangers,
        Self::Status,
    ];

    /// Its word in metrics and logs.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Unwelcomed => "unwelcomed-per-address",
            Self::Handshakes => "handshakes-per-second",
            Self::HandshakesPerAddress => "handshakes-per-address",
            Self::HandshakesUnderWay => "handshakes-under-way",
            Self::SessionsPerNode => "sessions-per-node",
            Self::HandshakeTimeout => "handshake-timeout",
            Self::HelloTimeout => "hello-timeout",
            Self::WriteTimeout => "write-timeout",
            Self::Silence => "silence",
            Self::Messages => "messages-per-second",
            Self::Bytes => "bytes-per-second",
            Self::Frames => "frames",
            Self::Reports => "reports",
            Self::EndedSessions => "ended-sessions",
            Self::Strangers => "strangers",
            Self::Status => "status",
        }
    }

    /// The one that ended a session, if one did.
    pub(super) fn behind(ending: &Ending) -> Option<Self> {
        match ending {
            Ending::HelloOverdue { .. } => Some(Self::HelloTimeout),
            Ending::BadFrame(_) | Ending::Text => Some(Self::Frames),
            Ending::TooFast(_) => Some(Self::Messages),
            Ending::TooManyBytes(_) => Some(Self::Bytes),
            Ending::Silent { .. } => Some(Self::Silence),
            Ending::WriteStalled { .. } => Some(Self::WriteTimeout),
            Ending::ProtocolTooNew { .. }
            | Ending::OutOfTurn { .. }
            | Ending::Superseded { .. }
            | Ending::Removed
            | Ending::Stopping
            | Ending::Told(_)
            | Ending::Left(_)
            | Ending::Closed
            | Ending::Failed(_) => None,
        }
    }
}

/// A limit was reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Reached {
    limit: &'static str,
}

impl Reached {
    /// This one.
    pub(super) fn of(limit: Limit) -> Self {
        Self {
            limit: limit.word(),
        }
    }
}

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Ended {
    reason: &'static str,
}

impl Ended {
    /// Of this.
    pub(super) fn of(ending: &Ending) -> Self {
        Self {
            reason: ending.word(),
        }
    }
}

/// How a reading of the configuration went.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Reloaded {
    outcome: &'static str,
}

impl Reloaded {
    /// What was read is used.
    pub(crate) const TAKEN: Self = Self { outcome: "taken" };
    /// What was there before goes on.
    pub(crate) const REFUSED: Self = Self { outcome: "refused" };
}

/// Makes the series that exist before anything happens.
pub(super) fn at_zero(metrics: &Metrics) {
    for limit in Limit::ALL {
        drop(metrics.limits_reached.get_or_create(&Reached::of(limit)));
    }
    for reason in Ending::WORDS {
        drop(metrics.sessions_ended.get_or_create(&Ended { reason }));
    }
    for outcome in [Reloaded::TAKEN, Reloaded::REFUSED] {
        drop(metrics.reloads.get_or_create(&outcome));
    }
}

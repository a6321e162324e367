//! Why a session ends, and what the node is told.

use std::{fmt, time::Duration};

use bc_protocol::session::{FrameError, Goodbye, GoodbyeReason};

use crate::{limits::DRAIN_RECONNECT_AFTER_MS, rate::TooFast};

/// Why a session ends. It shows as one line for logs and for control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// No Hello came.
    HelloOverdue {
        /// For how long the gateway waited.
        waited: Duration,
    },
    /// No common protocol.
    ProtocolTooNew {
        /// The node's oldest.
        node_min: u32,
        /// The gateway's newest.
        server_max: u32,
    },
    /// A frame that cannot be read.
    BadFrame(FrameError),
    /// A message at the wrong time.
    OutOfTurn {
        /// What could have come.
        expected: &'static str,
        /// What came.
        found: &'static str,
    },
    /// A text message; the protocol has binary ones only.
    Text,
    /// More messages than allowed.
    TooFast(TooFast),
    /// More bytes than allowed.
    TooManyBytes(TooFast),
    /// No sign of life.
    Silent {
        /// For how long.
        lasted: Duration,
    },
    /// A newer connection of the node exists.
    Superseded {
        /// Its number.
        winning: u64,
    },
    /// The node is not in the fleet any more.
    Removed,
    /// The gateway stops.
    Stopping,
    /// Control ends it, with these words.
    Told(Goodbye),
    /// The node left on purpose.
    Left(GoodbyeReason),
    /// The socket was closed without a word.
    Closed,
    /// The socket failed.
    Failed(String),
    /// A frame did not leave in time.
    WriteStalled {
        /// For how long the gateway waited.
        waited: Duration,
    },
}

impl Ending {
    /// Every word of [`Self::word`].
    pub(crate) const WORDS: [&'static str; 15] = [
        "hello-overdue",
        "protocol-too-new",
        "bad-frame",
        "out-of-turn",
        "too-many-messages",
        "too-many-bytes",
        "silent",
        "superseded",
        "removed",
        "stopping",
        "told",
        "left",
        "closed",
        "failed",
        "write-stalled",
    ];

    /// Its kind, in a word.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::HelloOverdue { .. } => "hello-overdue",
            Self::ProtocolTooNew { .. } => "protocol-too-new",
            Self::BadFrame(_) | Self::Text => "bad-frame",
            Self::OutOfTurn { .. } => "out-of-turn",
            Self::TooFast(_) => "too-many-messages",
            Self::TooManyBytes(_) => "too-many-bytes",
            Self::Silent { .. } => "silent",
            Self::Superseded { .. } => "superseded",
            Self::Removed => "removed",
            Self::Stopping => "stopping",
            Self::Told(_) => "told",
            Self::Left(_) => "left",
            Self::Closed => "closed",
            Self::Failed(_) => "failed",
            Self::WriteStalled { .. } => "write-stalled",
        }
    }

    /// What the node is told, if it can still hear.
    pub(crate) fn goodbye(&self) -> Option<Goodbye> {
        let say = |reason, reconnect_after_ms| {
            Some(Goodbye {
                reason,
                reconnect_after_ms,
                message: self.to_string(),
            })
        };
        match self {
            Self::HelloOverdue { .. } | Self::BadFrame(_) | Self::OutOfTurn { .. } | Self::Text => {
                say(GoodbyeReason::ProtocolError, 0)
            }
            Self::ProtocolTooNew { .. } => say(GoodbyeReason::ProtocolTooNew, 0),
            Self::TooFast(_) | Self::TooManyBytes(_) => say(GoodbyeReason::Overloaded, 0),
            Self::Superseded { winning } => say(
                GoodbyeReason::Superseded {
                    connect_seq: *winning,
                },
                0,
            ),
            Self::Removed => say(GoodbyeReason::Removed, 0),
            Self::Stopping => say(GoodbyeReason::Stopping, DRAIN_RECONNECT_AFTER_MS),
            Self::Told(goodbye) => Some(goodbye.clone()),
            Self::Silent { .. }
            | Self::Left(_)
            | Self::Closed
            | Self::Failed(_)
            | Self::WriteStalled { .. } => None,
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HelloOverdue { waited } => {
                write!(f, "expected a hello within {waited:?}, found none")
            }
            Self::ProtocolTooNew {
                node_min,
                server_max,
            } => write!(
                f,
                "expected protocol {server_max} or older, found {node_min} as the node's oldest"
            ),
            Self::BadFrame(error) => write!(f, "{error}"),
            Self::OutOfTurn { expected, found } => {
                write!(f, "expected {expected}, found {found}")
            }
            Self::Text => write!(f, "expected binary messages, found text"),
            Self::TooFast(error) => write!(f, "messages: {error}"),
            Self::TooManyBytes(error) => write!(f, "bytes: {error}"),
            Self::Silent { lasted } => {
                write!(f, "expected a sign of life, found none for {lasted:?}")
            }
            Self::Superseded { winning } => write!(f, "superseded by connection {winning}"),
            Self::Removed => write!(f, "the node has been removed"),
            Self::Stopping => write!(f, "the gateway stops"),
            Self::Told(goodbye) => write!(f, "control ends it: {}", goodbye.message),
            Self::Left(reason) => write!(f, "the node leaves: {}", word_of(*reason)),
            Self::Closed => write!(f, "the connection was closed"),
            Self::Failed(error) => write!(f, "the connection failed: {error}"),
            Self::WriteStalled { waited } => {
                write!(f, "expected a frame to leave within {waited:?}, it did not")
            }
        }
    }
}

fn word_of(reason: GoodbyeReason) -> &'static str {
    match reason {
        GoodbyeReason::Stopping => "stopping",
        GoodbyeReason::Superseded { .. } => "superseded",
        GoodbyeReason::Removed => "removed",
        GoodbyeReason::ProtocolTooNew => "protocol too new",
        GoodbyeReason::Overloaded => "overloaded",
        GoodbyeReason::ProtocolError => "protocol error",
        GoodbyeReason::Updating => "updating",
    }
}

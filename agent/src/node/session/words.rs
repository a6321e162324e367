//! What goes into the session machine and what comes out of it.

use std::{collections::BTreeMap, time::Duration};

use bc_protocol::{
    command::{Command, CommandResult, Unreadable},
    id::{CommandId, SessionId},
    session::{
        Certificate, Facts, FrameError, FromGateway, FromNode, Goodbye, GoodbyeReason,
        ProtocolRange,
    },
    spec::{NodeSpec, SpecError},
};
use thiserror::Error;

use super::renewal::RenewalTimes;
use crate::updater::machine::Lost;

/// What a session begins with.
pub(crate) struct Beginning {
    /// Where gateways can be reached; one at least.
    pub(crate) gateways: Vec<String>,
    /// The number of this node's latest connection.
    pub(crate) connect_seq: u64,
    /// What the node is now.
    pub(crate) facts: Facts,
    /// What this build speaks.
    pub(crate) protocols: ProtocolRange,
    /// All the randomness that there will be: the order of gateways, nonces, jitter.
    pub(crate) seed: [u8; 32],
}

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Input {
    /// What the node says of itself has changed.
    Facts(Box<Facts>),
    /// The socket that was asked for is open.
    Opened {
        /// What the node is like at this moment.
        labels: BTreeMap<String, String>,
        /// The commands that this process works on.
        commands: Vec<CommandId>,
        /// When the certificate that it was opened with is to be renewed.
        renewal: RenewalTimes,
    },
    /// The node has a new certificate.
    Renewed {
        /// Where gateways can be reached now.
        gateways: Vec<String>,
        /// When this one is to be renewed.
        renewal: RenewalTimes,
    },
    /// The socket that was asked for could not be opened.
    NotOpened(Ending),
    /// The gateway sent a frame.
    Frame(Result<FromGateway, FrameError>),
    /// A command has ended.
    Result(CommandResult),
    /// The gateway showed that it lives: a ping, a pong.
    Traffic,
    /// The socket ended.
    Closed(Ending),
    /// The process is to end.
    Leave(Leaving),
    /// Time has passed.
    Tick,
}

/// Something to do, in the order given.
#[derive(Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a step gives one or two, and they are carried out at once"
)]
pub(crate) enum Output {
    /// Open a socket to this gateway. The number must outlive the process before the first byte leaves it.
    Open {
        /// `wss://HOST:PORT/session`
        gateway: String,
        /// The connection's number.
        connect_seq: u64,
    },
    /// Send a frame.
    Send(FromNode),
    /// Send a ping.
    Ping,
    /// Send what is queued, close politely and listen on until the other side has closed too.
    Close,
    /// Drop the socket, or the try to open one.
    HangUp,
    /// Ask the gateway for a new certificate.
    AskCertificate,
    /// A new certificate came.
    Certificate(Certificate),
    /// The node's desired state came.
    Spec(Result<NodeSpec, SpecError>),
    /// A command came.
    Command(Result<Command, Unreadable>),
    /// A gateway answered this connection's own Hello.
    Welcomed {
        /// Which.
        gateway: String,
        /// The session's id, for logs.
        session: SessionId,
        /// Whether the session is good for nothing but upgrades.
        upgrade_required: bool,
        /// The gateway's clock, milliseconds since 1970.
        server_time_ms: i64,
    },
    /// There is no connection any more.
    Lost {
        /// Why.
        ending: Ending,
        /// How long the node waits before the next one.
        retry_in: Duration,
    },
    /// Something came that changes nothing; it is worth a line in the log.
    Ignored(Ignored),
    /// The process can exit.
    Over,
}

/// Why the node leaves by its own will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// Somebody stops the process.
    Stopping,
    /// A command has the daemon start again.
    Restarting,
    /// A trial is on disk: the process makes room for the binary on trial.
    Updating,
}

impl Leaving {
    pub(super) fn reason(self) -> GoodbyeReason {
        match self {
            Self::Stopping | Self::Restarting => GoodbyeReason::Stopping,
            Self::Updating => GoodbyeReason::Updating,
        }
    }
}

/// How a connection ended, or why it never was one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Ending {
    /// No gateway at the other end of the line, or none that this node believes.
    #[error("the gateway cannot be reached: {0}")]
    Unreachable(String),
    /// A server answered the upgrade with another status than 101.
    #[error("expected the status 101 from the gateway, found {status}")]
    Refused {
        /// The status.
        status: u16,
        /// When the server wants to be asked again, if it says so.
        retry_after: Option<Duration>,
    },
    /// Connecting took too long.
    #[error("the gateway cannot be reached in time")]
    OpenOverdue,
    /// No answer to the Hello.
    #[error("expected a Welcome in time, found none")]
    WelcomeOverdue,
    /// Nothing was heard for several heartbeats.
    #[error("expected a sign of life, found silence for {} ms", .0.as_millis())]
    Silent(Duration),
    /// The socket ended without a Goodbye.
    #[error("the connection broke: {0}")]
    Closed(String),
    /// The gateway said why.
    #[error("the gateway said goodbye ({:?}): {}", .0.reason, .0.message)]
    Goodbye(Goodbye),
    /// The gateway sent what no gateway should.
    #[error("the gateway broke the protocol: {0}")]
    Broken(String),
}

impl Ending {
    /// What it says about the binary that runs.
    pub(crate) fn lost(&self) -> Lost {
        match self {
            Self::Unreachable(_) | Self::OpenOverdue => Lost::Unreachable,
            Self::Refused {
                status: 429 | 503, ..
            } => Lost::NotNow,
            Self::Goodbye(goodbye) => match goodbye.reason {
                GoodbyeReason::Stopping
                | GoodbyeReason::Superseded { .. }
                | GoodbyeReason::Removed
                | GoodbyeReason::Overloaded => Lost::NotNow,
                GoodbyeReason::ProtocolTooNew
                | GoodbyeReason::ProtocolError
                | GoodbyeReason::Updating => Lost::Closed,
            },
            Self::Refused { .. }
            | Self::WelcomeOverdue
            | Self::Silent(_)
            | Self::Closed(_)
            | Self::Broken(_) => Lost::Closed,
        }
    }
}

/// What changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Ignored {
    /// Nobody waits for one: it is too early, too late or the second.
    #[error("a Welcome that nobody waits for")]
    Welcome,
    /// It answers some other Hello.
    #[error("a Welcome with another nonce than the Hello's")]
    WelcomeToAnother,
    /// A newer gateway may say things that this build has never heard of.
    #[error("{0}")]
    Unknown(FrameError),
}

/// Why the machine wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wakeup {
    /// The wait before the next connection is over.
    Reconnect,
    /// The socket should be open by now.
    OpenOverdue,
    /// The Welcome should be here by now.
    WelcomeOverdue,
    /// Nothing has been heard for too long.
    Silence,
    /// A ping is due.
    Heartbeat,
    /// A report that was held back is due.
    Report,
    /// The certificate is to be renewed.
    Renewal,
    /// The other side should have closed by now.
    GoodbyeOverdue,
    /// More may be read.
    ReadOn,
}

/// The frame that says why this side leaves.
pub(super) fn goodbye(reason: GoodbyeReason, message: String) -> FromNode {
    FromNode::Goodbye(Goodbye {
        reason,
        reconnect_after_ms: 0,
        message,
    })
}

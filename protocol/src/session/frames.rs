//! The frames of a session, checked.

mod convert;

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

use super::{Facts, FrameError, ProtocolRange, check_request};
use crate::{
    command::{Command, CommandResult, Unreadable},
    id::{CommandId, SessionId},
    limits::{
        COMMANDS_IN_FLIGHT_MAX, COUNTER_MAX, LABEL_BYTES_MAX, LABELS_MAX, MESSAGE_BYTES_MAX,
        NONCE_BYTES, SESSION_FRAME_BYTES_MAX,
    },
    spec::{NodeSpec, SpecError},
    text::one_line,
    wire::node as wire,
};

/// The random bytes that tie a Welcome to its Hello.
pub type Nonce = [u8; NONCE_BYTES];

/// A frame that a node sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromNode {
    /// The first message of a session.
    Hello(Hello),
    /// The node's state has changed.
    Report(StatusReport),
    /// A command ended.
    CommandResult(CommandResult),
    /// The node wants its certificate renewed; a DER certificate request.
    CertificateRequest(Vec<u8>),
    /// The node leaves on purpose.
    Goodbye(Goodbye),
}

/// A frame that a gateway sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromGateway {
    /// The answer to a Hello.
    Welcome(Welcome),
    /// The node's desired state. What cannot be read is the node's to report, so it is no error of the frame.
    Spec(Result<NodeSpec, SpecError>),
    /// Something to do once. What cannot be read is the node's to answer, so it is no error of the frame.
    Command(Result<Command, Unreadable>),
    /// A renewed certificate.
    Certificate(Certificate),
    /// The gateway leaves, or wants the node to.
    Goodbye(Goodbye),
}

/// A node introduces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Comes back in the Welcome.
    pub nonce: Nonce,
    /// What the node can speak.
    pub protocols: ProtocolRange,
    /// Grows with every connection of this node.
    pub connect_seq: u64,
    /// The node's state.
    pub facts: Facts,
    /// Commands that were delivered and have not ended.
    pub commands_in_flight: Vec<CommandId>,
    /// What the node is like.
    pub labels: BTreeMap<String, String>,
}

/// A gateway accepts a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The Hello's.
    pub nonce: Nonce,
    /// The session's id, for logs.
    pub session: SessionId,
    /// The protocol that both speak from here on.
    pub protocol: u32,
    /// The oldest protocol that the server accepts for full sessions.
    pub server_proto_min: u32,
    /// Whether the session is good for nothing but upgrades.
    pub upgrade_required: bool,
    /// Milliseconds between pings.
    pub heartbeat_interval_ms: u32,
    /// The gateway's clock, milliseconds since 1970.
    pub server_time_ms: i64,
}

/// A node's state has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusReport {
    /// Grows within a session; the Hello counts as 0.
    pub number: u64,
    /// The node's state.
    pub facts: Facts,
}

/// A renewed certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The node's certificate first, then what signed it; DER.
    pub chain: Vec<Vec<u8>>,
    /// What to trust from now on, the old authority and the new one.
    pub authorities: Vec<Vec<u8>>,
    /// Where gateways can be reached.
    pub gateways: Vec<String>,
}

/// One side leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goodbye {
    /// Why.
    pub reason: GoodbyeReason,
    /// Milliseconds that the other side should stay away, before jitter.
    pub reconnect_after_ms: u32,
    /// One line for people.
    pub message: String,
}

/// Why one side leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoodbyeReason {
    /// The sender is about to stop.
    Stopping,
    /// A newer connection of the same node exists.
    Superseded {
        /// The newer connection's number: a node whose counter was lost goes on above it.
        connect_seq: u64,
    },
    /// The node has been removed from the fleet.
    Removed,
    /// The node's oldest protocol is newer than the server's newest.
    ProtocolTooNew,
    /// Not now.
    Overloaded,
    /// The other side broke the protocol.
    ProtocolError,
    /// The node restarts into another binary.
    Updating,
}

impl FromNode {
    /// Reads a frame.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let frame = decode::<wire::NodeFrame>(bytes, SESSION_FRAME_BYTES_MAX)?;
        Ok(match frame.body.ok_or(FrameError::Empty)? {
            wire::node_frame::Body::Hello(hello) => Self::Hello(hello.try_into()?),
            wire::node_frame::Body::Report(report) => Self::Report(report.try_into()?),
            wire::node_frame::Body::CommandResult(result) => Self::CommandResult(
                result
                    .try_into()
                    .map_err(|error| FrameError::field("command_result", "a result", error))?,
            ),
            wire::node_frame::Body::CertificateRequest(request) => {
                Self::CertificateRequest(check_request(&request.csr_der)?)
            }
            wire::node_frame::Body::Goodbye(goodbye) => Self::Goodbye(goodbye.try_into()?),
        })
    }

    /// Writes a frame.
    pub fn encode(self) -> Bytes {
        let body = match self {
            Self::Hello(hello) => wire::node_frame::Body::Hello(hello.into()),
            Self::Report(report) => wire::node_frame::Body::Report(report.into()),
            Self::CommandResult(result) => wire::node_frame::Body::CommandResult(result.into()),
            Self::CertificateRequest(csr) => {
                wire::node_frame::Body::CertificateRequest(wire::CertificateRequest {
                    csr_der: csr.into(),
                })
            }
            Self::Goodbye(goodbye) => wire::node_frame::Body::Goodbye(goodbye.into()),
        };
        wire::NodeFrame { body: Some(body) }.encode_to_vec().into()
    }
}

impl FromGateway {
    /// Reads a frame.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let frame = decode::<wire::GatewayFrame>(bytes, SESSION_FRAME_BYTES_MAX)?;
        Ok(match frame.body.ok_or(FrameError::Empty)? {
            wire::gateway_frame::Body::Welcome(welcome) => Self::Welcome(welcome.try_into()?),
            wire::gateway_frame::Body::Spec(spec) => Self::Spec(spec.try_into()),
            wire::gateway_frame::Body::Command(command) => Self::Command(command.try_into()),
            wire::gateway_frame::Body::Certificate(certificate) => {
                Self::Certificate(certificate.try_into()?)
            }
            wire::gateway_frame::Body::Goodbye(goodbye) => Self::Goodbye(goodbye.try_into()?),
        })
    }

    /// Writes a frame. A spec or command that could not be read cannot be passed on either: it is left out.
    pub fn encode(self) -> Bytes {
        let body = match self {
            Self::Welcome(welcome) => Some(wire::gateway_frame::Body::Welcome(welcome.into())),
            Self::Spec(spec) => spec
                .ok()
                .map(|spec| wire::gateway_frame::Body::Spec(spec.into())),
            Self::Command(command) => command
                .ok()
                .map(|command| wire::gateway_frame::Body::Command(command.into())),
            Self::Certificate(certificate) => {
                Some(wire::gateway_frame::Body::Certificate(certificate.into()))
            }
            Self::Goodbye(goodbye) => Some(wire::gateway_frame::Body::Goodbye(goodbye.into())),
        };
        wire::GatewayFrame { body }.encode_to_vec().into()
    }
}

/// Decodes a message of at most `max` bytes.
pub(crate) fn decode<M: Message + Default>(bytes: &[u8], max: usize) -> Result<M, FrameError> {
    if bytes.len() > max {
        return Err(FrameError::TooLarge {
            found: bytes.len(),
            max,
        });
    }
    M::decode(bytes).map_err(|error| FrameError::Undecodable(error.to_string()))
}

/// Checks labels: how many, and how long. Control characters become spaces: no database keeps all of them, and a machine's
/// own name is no reason to send it away.
pub(crate) fn check_labels(
    labels: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, FrameError> {
    if labels.len() > LABELS_MAX {
        return Err(FrameError::field("labels", "at most 64", labels.len()));
    }
    for (name, value) in &labels {
        let longest = name.len().max(value.len());
        if name.is_empty() || longest > LABEL_BYTES_MAX {
            return Err(FrameError::field("labels", "1 to 256 bytes each", longest));
        }
    }
    Ok(labels
        .into_iter()
        .map(|(name, value)| (one_line(name), one_line(value)))
        .collect())
}

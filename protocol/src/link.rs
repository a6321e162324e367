//! What a gateway and control say to each other, once it has been checked.
//!
//! Takes frames from the wire, gives messages whose every field holds; and the way back. Facts travel up in
//! batches that control acknowledges after its commit; specs, closings and settings travel down.

mod frames;

pub use frames::{FromControl, FromGateway};

use std::collections::BTreeMap;

use crate::{
    command::{Command, CommandResult, Unreadable},
    digest::Sha256,
    id::{NodeId, SessionId},
    session::{Certificate, Facts, Goodbye},
    spec::NodeSpec,
};

/// The first message of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkHello {
    /// The gateway's version.
    pub version: String,
    /// Random, made at the gateway's start: another value means another process.
    pub process: [u8; 16],
}

/// Facts in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Grows by one within a gateway's process; what control has acknowledged is never sent again.
    pub number: u64,
    /// What happened.
    pub events: Vec<Event>,
}

/// Something that happened at a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A node was welcomed.
    Opened(SessionOpened),
    /// A session ended.
    Closed(SessionClosed),
    /// A node reported.
    Report(NodeReport),
    /// A node says how a command ended.
    Ended(CommandEnded),
    /// Every live session has been named on this link: others of this gateway have ended.
    Listed,
}

/// A node was welcomed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOpened {
    /// Whose session; from the certificate.
    pub node: NodeId,
    /// The session's id.
    pub session: SessionId,
    /// The node's connection counter.
    pub connect_seq: u64,
    /// The protocol that was agreed on.
    pub protocol: u32,
    /// Whether the session is good for upgrades only.
    pub upgrade_only: bool,
    /// The number of the newest report; 0 is the Hello itself.
    pub report: u64,
    /// The newest facts.
    pub facts: Facts,
    /// The Hello's labels.
    pub labels: BTreeMap<String, String>,
    /// The digest of authorities and gateways in the newest certificate that the node has. None where that says nothing,
    /// or the gateway does not tell.
    pub company: Option<Sha256>,
}

/// A session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionClosed {
    /// Whose session.
    pub node: NodeId,
    /// The session's id.
    pub session: SessionId,
    /// The node's connection counter.
    pub connect_seq: u64,
    /// One word or line for people.
    pub reason: String,
}

/// A node reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// Whose report.
    pub node: NodeId,
    /// In which session.
    pub session: SessionId,
    /// The node's connection counter.
    pub connect_seq: u64,
    /// The report's number within the session.
    pub report: u64,
    /// The node's state.
    pub facts: Facts,
}

/// A node says how a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandEnded {
    /// Whose command.
    pub node: NodeId,
    /// In which session it was said.
    pub session: SessionId,
    /// The node's connection counter.
    pub connect_seq: u64,
    /// What was said.
    pub result: CommandResult,
}

/// A node wants its certificate renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateWanted {
    /// Which; from the certificate that it has.
    pub node: NodeId,
    /// Its request, DER.
    pub request: Vec<u8>,
}

/// A node's certificate, renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateIssued {
    /// For whom.
    pub node: NodeId,
    /// What it asked for.
    pub certificate: Certificate,
}

/// What control tells every gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The oldest protocol for full sessions.
    pub protocol_min: u32,
    /// Milliseconds between pings.
    pub heartbeat_interval_ms: u32,
}

/// The answer to a LinkHello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkWelcome {
    /// What holds from now on.
    pub settings: Settings,
    /// Every removed node whose certificate may still be valid.
    pub removed: Vec<NodeId>,
}

/// A node's desired state, on its way down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecPush {
    /// For whom.
    pub node: NodeId,
    /// What it should be like.
    pub spec: NodeSpec,
}

/// Something for a node to do once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPush {
    /// For whom.
    pub node: NodeId,
    /// For which of its sessions.
    pub connect_seq: u64,
    /// What. A gateway that cannot read it answers in the node's place.
    pub command: Result<Command, Unreadable>,
}

/// Ends a node's session, unless it has connected anew since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseSession {
    /// Whose session.
    pub node: NodeId,
    /// Sessions with a higher counter stay.
    pub connect_seq: u64,
    /// What the node is told.
    pub goodbye: Goodbye,
}

//! The frames of a link, read and written.

use bytes::Bytes;
use prost::Message;

use super::{
    Batch, CertificateIssued, CertificateWanted, CloseSession, CommandEnded, CommandPush, Event,
    LinkHello, LinkWelcome, NodeReport, SessionClosed, SessionOpened, Settings, SpecPush,
};
use crate::{
    digest::Sha256,
    id::NodeId,
    limits::{BATCH_EVENTS_MAX, LINK_FRAME_BYTES_MAX, MESSAGE_BYTES_MAX},
    session::{Certificate, FrameError, check_labels, check_request, decode},
    text::bounded,
    wire::{link as wire, node},
};

/// A frame that a gateway sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromGateway {
    /// The first message of a link.
    Hello(LinkHello),
    /// Facts in order.
    Batch(Batch),
    /// A node wants its certificate renewed.
    CertificateWanted(CertificateWanted),
    /// The gateway wants its own renewed; a DER certificate request.
    OwnCertificateWanted(Vec<u8>),
}

/// A frame that control sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromControl {
    /// The answer to a LinkHello.
    Welcome(LinkWelcome),
    /// The batch with this number, and all before it, are committed.
    Ack(u64),
    /// A node's desired state.
    Spec(SpecPush),
    /// A session is to end.
    Close(CloseSession),
    /// Settings have changed.
    Settings(Settings),
    /// These nodes have been removed.
    Removed(Vec<NodeId>),
    /// A node's certificate, renewed.
    Certificate(CertificateIssued),
    /// The gateway's own, renewed.
    OwnCertificate(Certificate),
    /// Something for a node to do.
    Command(CommandPush),
}

impl FromGateway {
    /// Reads a frame.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let frame = decode::<wire::GatewayFrame>(bytes, LINK_FRAME_BYTES_MAX)?;
        match frame.body.ok_or(FrameError::Empty)? {
            wire::gateway_frame::Body::Hello(hello) => Ok(Self::Hello(hello.try_into()?)),
            wire::gateway_frame::Body::Batch(batch) => Ok(Self::Batch(batch.try_into()?)),
            wire::gateway_frame::Body::CertificateWanted(wanted) => {
                Ok(Self::CertificateWanted(CertificateWanted {
                    node: node_id(&wanted.node_id)?,
                    request: check_request(&wanted.csr_der)?,
                }))
            }
            wire::gateway_frame::Body::OwnCertificateWanted(wanted) => {
                Ok(Self::OwnCertificateWanted(check_request(&wanted.csr_der)?))
            }
        }
    }

    /// Writes a frame.
    pub fn encode(self) -> Bytes {
        let body = match self {
            Self::Hello(hello) => wire::gateway_frame::Body::Hello(wire::LinkHello {
                version: hello.version,
                process: hello.process.to_vec().into(),
            }),
            Self::Batch(batch) => wire::gateway_frame::Body::Batch(wire::Batch {
                number: batch.number,
                events: batch.events.into_iter().map(Into::into).collect(),
            }),
            Self::CertificateWanted(wanted) => {
                wire::gateway_frame::Body::CertificateWanted(wire::CertificateWanted {
                    node_id: wanted.node.to_string(),
                    csr_der: wanted.request.into(),
                })
            }
            Self::OwnCertificateWanted(request) => {
                wire::gateway_frame::Body::OwnCertificateWanted(wire::OwnCertificateWanted {
                    csr_der: request.into(),
                })
            }
        };
        wire::GatewayFrame { body: Some(body) }
            .encode_to_vec()
            .into()
    }
}

impl FromControl {
    /// Reads a frame.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let frame = decode::<wire::ControlFrame>(bytes, LINK_FRAME_BYTES_MAX)?;
        Ok(match frame.body.ok_or(FrameError::Empty)? {
            wire::control_frame::Body::Welcome(welcome) => Self::Welcome(LinkWelcome {
                settings: settings(welcome.settings)?,
                removed: node_ids(&welcome.removed)?,
            }),
            wire::control_frame::Body::Ack(ack) => Self::Ack(ack.number),
            wire::control_frame::Body::Spec(push) => Self::Spec(SpecPush {
                node: node_id(&push.node_id)?,
                spec: push
                    .spec
                    .ok_or_else(|| FrameError::field("spec", "a spec", "none"))?
                    .try_into()
                    .map_err(|error| FrameError::field("spec", "a spec", error))?,
            }),
            wire::control_frame::Body::Close(close) => Self::Close(CloseSession {
                node: node_id(&close.node_id)?,
                connect_seq: close.connect_seq,
                goodbye: close
                    .goodbye
                    .ok_or_else(|| FrameError::field("goodbye", "a goodbye", "none"))?
                    .try_into()?,
            }),
            wire::control_frame::Body::Settings(changed) => {
                Self::Settings(settings(Some(changed))?)
            }
            wire::control_frame::Body::Removed(removed) => {
                Self::Removed(node_ids(&removed.node_ids)?)
            }
            wire::control_frame::Body::Certificate(issued) => {
                Self::Certificate(CertificateIssued {
                    node: node_id(&issued.node_id)?,
                    certificate: issued
                        .certificate
                        .ok_or_else(|| FrameError::field("certificate", "a certificate", "none"))?
                        .try_into()?,
                })
            }
            wire::control_frame::Body::OwnCertificate(certificate) => {
                Self::OwnCertificate(certificate.try_into()?)
            }
            wire::control_frame::Body::Command(push) => Self::Command(CommandPush {
                node: node_id(&push.node_id)?,
                connect_seq: push.connect_seq,
                command: push
                    .command
                    .ok_or_else(|| FrameError::field("command", "a command", "none"))?
                    .try_into(),
            }),
        })
    }

    /// Writes a frame.
    pub fn encode(self) -> Bytes {
        let body = match self {
            Self::Welcome(welcome) => wire::control_frame::Body::Welcome(wire::LinkWelcome {
                settings: Some(welcome.settings.into()),
                removed: texts(&welcome.removed),
            }),
            Self::Ack(number) => wire::control_frame::Body::Ack(wire::BatchAck { number }),
            Self::Spec(push) => wire::control_frame::Body::Spec(wire::SpecPush {
                node_id: push.node.to_string(),
                spec: Some(push.spec.into()),
            }),
            Self::Close(close) => wire::control_frame::Body::Close(wire::CloseSession {
                node_id: close.node.to_string(),
                connect_seq: close.connect_seq,
                goodbye: Some(close.goodbye.into()),
            }),
            Self::Settings(changed) => wire::control_frame::Body::Settings(changed.into()),
            Self::Removed(nodes) => wire::control_frame::Body::Removed(wire::Removed {
                node_ids: texts(&nodes),
            }),
            Self::Certificate(issued) => {
                wire::control_frame::Body::Certificate(wire::CertificateIssued {
                    node_id: issued.node.to_string(),
                    certificate: Some(issued.certificate.into()),
                })
            }
            Self::OwnCertificate(certificate) => {
                wire::control_frame::Body::OwnCertificate(certificate.into())
            }
            Self::Command(push) => wire::control_frame::Body::Command(wire::CommandPush {
                node_id: push.node.to_string(),
                connect_seq: push.connect_seq,
                // One that could not be read cannot be passed on either.
                command: push.command.ok().map(Into::into),
            }),
        };
        wire::ControlFrame { body: Some(body) }
            .encode_to_vec()
            .into()
    }
}

impl TryFrom<wire::LinkHello> for LinkHello {
    type Error = FrameError;

    fn try_from(hello: wire::LinkHello) -> Result<Self, FrameError> {
        let process = hello.process.as_ref().try_into().map_err(|_| {
            FrameError::field(
                "process",
                "16 bytes",
                format!("{} bytes", hello.process.len()),
            )
        })?;
        Ok(Self {
            version: bounded(hello.version, MESSAGE_BYTES_MAX),
            process,
        })
    }
}

impl TryFrom<wire::Batch> for Batch {
    type Error = FrameError;

    fn try_from(batch: wire::Batch) -> Result<Self, FrameError> {
        if batch.events.len() > BATCH_EVENTS_MAX {
            return Err(FrameError::field(
                "events",
                "at most 256",
                batch.events.len(),
            ));
        }
        Ok(Self {
            number: batch.number,
            events: batch
                .events
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl TryFrom<wire::Event> for Event {
    type Error = FrameError;

    fn try_from(event: wire::Event) -> Result<Self, FrameError> {
        Ok(match event.body.ok_or(FrameError::Empty)? {
            wire::event::Body::Opened(opened) => Self::Opened(opened.try_into()?),
            wire::event::Body::Closed(closed) => Self::Closed(SessionClosed {
                node: node_id(&closed.node_id)?,
                session: session_id(&closed.session_id)?,
                connect_seq: closed.connect_seq,
                reason: bounded(closed.reason, MESSAGE_BYTES_MAX),
            }),
            wire::event::Body::Report(report) => Self::Report(NodeReport {
                node: node_id(&report.node_id)?,
                session: session_id(&report.session_id)?,
                connect_seq: report.connect_seq,
                report: report.report,
                facts: facts(report.facts)?,
            }),
            wire::event::Body::Listed(wire::SessionsListed {}) => Self::Listed,
            wire::event::Body::Ended(ended) => Self::Ended(CommandEnded {
                node: node_id(&ended.node_id)?,
                session: session_id(&ended.session_id)?,
                connect_seq: ended.connect_seq,
                result: ended
                    .result
                    .ok_or_else(|| FrameError::field("result", "a result", "none"))?
                    .try_into()
                    .map_err(|error| FrameError::field("result", "a result", error))?,
            }),
        })
    }
}

impl From<Event> for wire::Event {
    fn from(event: Event) -> Self {
        let body = match event {
            Event::Opened(opened) => wire::event::Body::Opened(opened.into()),
            Event::Closed(closed) => wire::event::Body::Closed(wire::SessionClosed {
                node_id: closed.node.to_string(),
                session_id: closed.session.to_string(),
                connect_seq: closed.connect_seq,
                reason: closed.reason,
            }),
            Event::Report(report) => wire::event::Body::Report(wire::NodeReport {
                node_id: report.node.to_string(),
                session_id: report.session.to_string(),
                connect_seq: report.connect_seq,
                report: report.report,
                facts: Some(report.facts.into()),
            }),
            Event::Listed => wire::event::Body::Listed(wire::SessionsListed {}),
            Event::Ended(ended) => wire::event::Body::Ended(wire::CommandEnded {
                node_id: ended.node.to_string(),
                session_id: ended.session.to_string(),
                connect_seq: ended.connect_seq,
                result: Some(ended.result.into()),
            }),
        };
        Self { body: Some(body) }
    }
}

impl TryFrom<wire::SessionOpened> for SessionOpened {
    type Error = FrameError;

    fn try_from(opened: wire::SessionOpened) -> Result<Self, FrameError> {
        Ok(Self {
            node: node_id(&opened.node_id)?,
            session: session_id(&opened.session_id)?,
            connect_seq: opened.connect_seq,
            protocol: opened.protocol,
            upgrade_only: opened.upgrade_only,
            report: opened.report,
            facts: facts(opened.facts)?,
            labels: check_labels(opened.labels)?,
            company: company(&opened.company)?,
        })
    }
}

impl From<SessionOpened> for wire::SessionOpened {
    fn from(opened: SessionOpened) -> Self {
        Self {
            node_id: opened.node.to_string(),
            session_id: opened.session.to_string(),
            connect_seq: opened.connect_seq,
            protocol: opened.protocol,
            upgrade_only: opened.upgrade_only,
            report: opened.report,
            facts: Some(opened.facts.into()),
            labels: opened.labels,
            company: opened.company.map_or(Bytes::new(), |company| {
                Bytes::copy_from_slice(company.as_bytes())
            }),
        }
    }
}

fn company(bytes: &[u8]) -> Result<Option<Sha256>, FrameError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let digest = <[u8; 32]>::try_from(bytes).map_err(|_| {
        FrameError::field(
            "company",
            "32 bytes or none",
            format!("{} bytes", bytes.len()),
        )
    })?;
    Ok(Some(digest.into()))
}

impl From<Settings> for wire::Settings {
    fn from(settings: Settings) -> Self {
        Self {
            protocol_min: settings.protocol_min,
            heartbeat_interval_ms: settings.heartbeat_interval_ms,
        }
    }
}

fn settings(settings: Option<wire::Settings>) -> Result<Settings, FrameError> {
    let settings = settings.ok_or_else(|| FrameError::field("settings", "settings", "none"))?;
    if settings.protocol_min == 0 || settings.heartbeat_interval_ms == 0 {
        return Err(FrameError::field("settings", "numbers above 0", 0));
    }
    Ok(Settings {
        protocol_min: settings.protocol_min,
        heartbeat_interval_ms: settings.heartbeat_interval_ms,
    })
}

fn facts(facts: Option<node::Facts>) -> Result<crate::session::Facts, FrameError> {
    facts
        .ok_or_else(|| FrameError::field("facts", "the node's facts", "none"))?
        .try_into()
}

fn node_id(text: &str) -> Result<NodeId, FrameError> {
    text.parse()
        .map_err(|error| FrameError::field("node_id", "a node id", error))
}

fn node_ids(texts: &[String]) -> Result<Vec<NodeId>, FrameError> {
    texts.iter().map(|text| node_id(text)).collect()
}

fn session_id(text: &str) -> Result<crate::id::SessionId, FrameError> {
    text.parse()
        .map_err(|error| FrameError::field("session_id", "a session id", error))
}

fn texts(ids: &[NodeId]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

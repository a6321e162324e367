//! Frames to and from what is on the wire, field by field.

use super::*;
use crate::text::bounded;

impl TryFrom<wire::Hello> for Hello {
    type Error = FrameError;

    fn try_from(hello: wire::Hello) -> Result<Self, FrameError> {
        let protocols = ProtocolRange {
            min: hello.proto_min,
            max: hello.proto_max,
        };
        if protocols.min == 0 || protocols.min > protocols.max {
            let found = format!("{} to {}", protocols.min, protocols.max);
            return Err(FrameError::field("proto_min", "1 to proto_max", found));
        }
        if hello.commands_in_flight.len() > COMMANDS_IN_FLIGHT_MAX {
            let found = hello.commands_in_flight.len();
            return Err(FrameError::field(
                "commands_in_flight",
                "at most 256",
                found,
            ));
        }
        let commands_in_flight = hello
            .commands_in_flight
            .iter()
            .map(|id| id.parse())
            .collect::<Result<_, _>>()
            .map_err(|error| FrameError::field("commands_in_flight", "command ids", error))?;
        Ok(Self {
            nonce: nonce(&hello.nonce)?,
            protocols,
            connect_seq: counter("connect_seq", hello.connect_seq)?,
            facts: facts(hello.facts)?,
            commands_in_flight,
            labels: check_labels(hello.labels)?,
        })
    }
}

impl From<Hello> for wire::Hello {
    fn from(hello: Hello) -> Self {
        Self {
            nonce: hello.nonce.to_vec().into(),
            proto_min: hello.protocols.min,
            proto_max: hello.protocols.max,
            connect_seq: hello.connect_seq,
            facts: Some(hello.facts.into()),
            commands_in_flight: hello
                .commands_in_flight
                .iter()
                .map(ToString::to_string)
                .collect(),
            labels: hello.labels,
        }
    }
}

impl TryFrom<wire::Welcome> for Welcome {
    type Error = FrameError;

    fn try_from(welcome: wire::Welcome) -> Result<Self, FrameError> {
        Ok(Self {
            nonce: nonce(&welcome.nonce)?,
            session: welcome
                .session_id
                .parse()
                .map_err(|error| FrameError::field("session_id", "a session id", error))?,
            protocol: welcome.protocol,
            server_proto_min: welcome.server_proto_min,
            upgrade_required: welcome.upgrade_required,
            heartbeat_interval_ms: welcome.heartbeat_interval_ms,
            server_time_ms: welcome.server_time_ms,
        })
    }
}

impl From<Welcome> for wire::Welcome {
    fn from(welcome: Welcome) -> Self {
        Self {
            nonce: welcome.nonce.to_vec().into(),
            session_id: welcome.session.to_string(),
            protocol: welcome.protocol,
            server_proto_min: welcome.server_proto_min,
            upgrade_required: welcome.upgrade_required,
            heartbeat_interval_ms: welcome.heartbeat_interval_ms,
            server_time_ms: welcome.server_time_ms,
        }
    }
}

impl TryFrom<wire::StatusReport> for StatusReport {
    type Error = FrameError;

    fn try_from(report: wire::StatusReport) -> Result<Self, FrameError> {
        Ok(Self {
            number: counter("number", report.number)?,
            facts: facts(report.facts)?,
        })
    }
}

impl From<StatusReport> for wire::StatusReport {
    fn from(report: StatusReport) -> Self {
        Self {
            number: report.number,
            facts: Some(report.facts.into()),
        }
    }
}

impl TryFrom<wire::Goodbye> for Goodbye {
    type Error = FrameError;

    fn try_from(goodbye: wire::Goodbye) -> Result<Self, FrameError> {
        let unknown = |found: String| FrameError::field("goodbye.reason", "a known reason", found);
        let reason = wire::GoodbyeReason::try_from(goodbye.reason)
            .map_err(|found| unknown(found.to_string()))?;
        let reason = match reason {
            wire::GoodbyeReason::Unspecified => return Err(unknown("none".to_owned())),
            wire::GoodbyeReason::Stopping => GoodbyeReason::Stopping,
            wire::GoodbyeReason::Superseded => GoodbyeReason::Superseded {
                connect_seq: goodbye.connect_seq,
            },
            wire::GoodbyeReason::Removed => GoodbyeReason::Removed,
            wire::GoodbyeReason::ProtocolTooNew => GoodbyeReason::ProtocolTooNew,
            wire::GoodbyeReason::Overloaded => GoodbyeReason::Overloaded,
            wire::GoodbyeReason::ProtocolError => GoodbyeReason::ProtocolError,
            wire::GoodbyeReason::Updating => GoodbyeReason::Updating,
        };
        let message = one_line(bounded(goodbye.message, MESSAGE_BYTES_MAX));
        Ok(Self {
            reason,
            reconnect_after_ms: goodbye.reconnect_after_ms,
            message,
        })
    }
}

impl From<Goodbye> for wire::Goodbye {
    fn from(goodbye: Goodbye) -> Self {
        let (reason, connect_seq) = match goodbye.reason {
            GoodbyeReason::Stopping => (wire::GoodbyeReason::Stopping, 0),
            GoodbyeReason::Superseded { connect_seq } => {
                (wire::GoodbyeReason::Superseded, connect_seq)
            }
            GoodbyeReason::Removed => (wire::GoodbyeReason::Removed, 0),
            GoodbyeReason::ProtocolTooNew => (wire::GoodbyeReason::ProtocolTooNew, 0),
            GoodbyeReason::Overloaded => (wire::GoodbyeReason::Overloaded, 0),
            GoodbyeReason::ProtocolError => (wire::GoodbyeReason::ProtocolError, 0),
            GoodbyeReason::Updating => (wire::GoodbyeReason::Updating, 0),
        };
        Self {
            reason: reason.into(),
            reconnect_after_ms: goodbye.reconnect_after_ms,
            connect_seq,
            message: goodbye.message,
        }
    }
}

fn counter(field: &'static str, number: u64) -> Result<u64, FrameError> {
    if number > COUNTER_MAX {
        return Err(FrameError::field(field, "at most 2^63 - 1", number));
    }
    Ok(number)
}

fn nonce(bytes: &[u8]) -> Result<Nonce, FrameError> {
    Nonce::try_from(bytes)
        .map_err(|_| FrameError::field("nonce", "16 bytes", format!("{} bytes", bytes.len())))
}

fn facts(facts: Option<wire::Facts>) -> Result<Facts, FrameError> {
    facts
        .ok_or_else(|| FrameError::field("facts", "the node's facts", "none"))?
        .try_into()
}

//! What can be asked of a node besides its desired state.
//!
//! Takes wire messages, gives checked ones, and holds the table of kinds: lane, whether a second delivery does harm,
//! what ends it and how long it may take. It sends nothing.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    id::{CommandId, IdError},
    limits::MESSAGE_BYTES_MAX,
    spec::{DaemonSection, SpecError},
    wire::node as wire,
};

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// Brings an upgrade-only node to a version.
    #[serde(rename = "daemon.upgrade")]
    Upgrade,
    /// Restarts the daemon.
    #[serde(rename = "daemon.restart")]
    Restart,
    /// Collects a bounded text report.
    #[serde(rename = "diagnostics.collect")]
    Diagnostics,
}

/// Commands of one lane run one after the other; lanes do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lane {
    /// What changes the daemon itself.
    Control,
    /// Everything that may take its time.
    Work,
}

/// What ends a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndsBy {
    /// The node's facts show its effect; its process may not live to answer.
    Facts,
    /// The node's answer.
    Answer,
}

impl Kind {
    /// The lane that commands of this kind wait in.
    pub fn lane(self) -> Lane {
        match self {
            Self::Upgrade | Self::Restart => Lane::Control,
            Self::Diagnostics => Lane::Work,
        }
    }

    /// What ends a command of this kind.
    pub fn ends_by(self) -> EndsBy {
        match self {
            Self::Upgrade | Self::Restart => EndsBy::Facts,
            Self::Diagnostics => EndsBy::Answer,
        }
    }

    /// How long a dispatched command may take before it counts as timed out.
    pub fn timeout(self) -> Duration {
        match self {
            Self::Upgrade => Duration::from_secs(15 * 60),
            Self::Restart => Duration::from_secs(2 * 60),
            Self::Diagnostics => Duration::from_secs(5 * 60),
        }
    }
}

/// A command on its way to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its id; the node journals it, so that a second delivery has no second effect.
    pub id: CommandId,
    /// Milliseconds since 1970; a node does not start it later.
    pub expires_at_ms: i64,
    /// What is to be done.
    pub order: Order,
}

/// A kind with its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Bring the node to this section's release.
    Upgrade(DaemonSection),
    /// Restart the daemon.
    Restart,
    /// Collect these parts of a report.
    Diagnostics {
        /// What to collect.
        collect: Vec<String>,
    },
}

impl Order {
    /// The kind that this order is of.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Upgrade(_) => Kind::Upgrade,
            Self::Restart => Kind::Restart,
            Self::Diagnostics { .. } => Kind::Diagnostics,
        }
    }
}

/// How a command ended on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandResult {
    /// The command's id.
    pub id: CommandId,
    /// Whether it did what was asked.
    pub succeeded: bool,
    /// One line for people.
    pub message: String,
    /// What was collected.
    pub report: Vec<u8>,
}

/// Why a command from the wire cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    /// The id is none.
    #[error("command id cannot be read")]
    Id(#[from] IdError),
    /// A kind that this build does not know.
    #[error("command kind: expected one that this build knows, found none of them")]
    Kind,
    /// The section of an upgrade is wrong.
    #[error("command payload cannot be read")]
    Section(#[from] SpecError),
}

impl TryFrom<wire::Command> for Command {
    type Error = CommandError;

    fn try_from(command: wire::Command) -> Result<Self, CommandError> {
        let order = match command.kind.ok_or(CommandError::Kind)? {
            wire::command::Kind::Upgrade(section) => Order::Upgrade(section.try_into()?),
            wire::command::Kind::Restart(wire::Restart {}) => Order::Restart,
            wire::command::Kind::Diagnostics(what) => Order::Diagnostics {
                collect: what.collect,
            },
        };
        Ok(Self {
            id: command.id.parse()?,
            expires_at_ms: command.expires_at_ms,
            order,
        })
    }
}

impl From<Command> for wire::Command {
    fn from(command: Command) -> Self {
        let kind = match command.order {
            Order::Upgrade(section) => wire::command::Kind::Upgrade(section.into()),
            Order::Restart => wire::command::Kind::Restart(wire::Restart {}),
            Order::Diagnostics { collect } => {
                wire::command::Kind::Diagnostics(wire::Diagnostics { collect })
            }
        };
        Self {
            id: command.id.to_string(),
            expires_at_ms: command.expires_at_ms,
            kind: Some(kind),
        }
    }
}

impl TryFrom<wire::CommandResult> for CommandResult {
    type Error = CommandError;

    fn try_from(result: wire::CommandResult) -> Result<Self, CommandError> {
        let mut message = result.message;
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        Ok(Self {
            id: result.id.parse()?,
            succeeded: result.succeeded,
            message,
            report: result.report.to_vec(),
        })
    }
}

impl From<CommandResult> for wire::CommandResult {
    fn from(result: CommandResult) -> Self {
        Self {
            id: result.id.to_string(),
            succeeded: result.succeeded,
            message: result.message,
            report: result.report.into(),
        }
    }
}

//! Commands and their results as they travel.

use super::{Command, CommandError, CommandResult, Order, Unreadable};
use crate::{
    limits::{CODE_BYTES_MAX, COLLECT_PARTS_MAX, MESSAGE_BYTES_MAX, REPORT_BYTES_MAX},
    text::bounded,
    wire::node as wire,
};

impl TryFrom<wire::Command> for Command {
    type Error = Unreadable;

    fn try_from(command: wire::Command) -> Result<Self, Unreadable> {
        let id = command.id.parse();
        let named = id.as_ref().ok().cloned();
        let unreadable = |problem| Unreadable { id: named, problem };
        let read = || -> Result<Self, CommandError> {
            Ok(Self {
                id: id?,
                expires_at_ms: command.expires_at_ms,
                order: order(command.kind.ok_or(CommandError::Kind)?)?,
            })
        };
        read().map_err(unreadable)
    }
}

fn order(kind: wire::command::Kind) -> Result<Order, CommandError> {
    Ok(match kind {
        wire::command::Kind::Upgrade(section) => Order::Upgrade(section.try_into()?),
        wire::command::Kind::Restart(wire::Restart {}) => Order::Restart,
        wire::command::Kind::Diagnostics(what) => {
            let (found, max) = (what.collect.len(), COLLECT_PARTS_MAX);
            if found > max {
                return Err(CommandError::Collect { found, max });
            }
            Order::Diagnostics {
                collect: what
                    .collect
                    .into_iter()
                    .map(|part| bounded(part, CODE_BYTES_MAX))
                    .collect(),
            }
        }
    })
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
        let mut report = result.report;
        // The node has marked its own cut; whoever sends more is cut without a word.
        report.truncate(REPORT_BYTES_MAX);
        Ok(Self {
            id: result.id.parse()?,
            succeeded: result.succeeded,
            message: bounded(result.message, MESSAGE_BYTES_MAX),
            report: report.to_vec(),
            code: bounded(result.code, CODE_BYTES_MAX),
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
            code: result.code,
        }
    }
}

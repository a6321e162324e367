//! What tests of this crate begin with.

use bc_protocol::{
    command::{Command, CommandResult, Order},
    digest::Sha256,
    id::{AttemptId, CommandId, NodeId, SessionId},
    link::{CommandEnded, SessionOpened},
    spec::DaemonSection,
};

mod said;

pub(crate) use said::{facts, hello};

/// A command by a number.
pub(crate) fn command(name: u8, order: Order) -> Command {
    Command {
        id: CommandId::derived(&[&[name]]),
        expires_at_ms: 7,
        order,
    }
}

/// An order to restart.
pub(crate) fn restart(name: u8) -> Command {
    command(name, Order::Restart)
}

/// An order to upgrade.
pub(crate) fn upgrade(name: u8) -> Command {
    let section = DaemonSection {
        version: "2.0.0".parse().unwrap(),
        url: String::new(),
        sha256: Sha256::of(b"2.0.0"),
        signature: Vec::new(),
        attempt: AttemptId::derived(&[&[name]]),
    };
    command(name, Order::Upgrade(section))
}

/// A node's word that it has done a command.
pub(crate) fn done(id: CommandId) -> CommandResult {
    CommandResult {
        id,
        succeeded: true,
        message: "done".to_owned(),
        report: Vec::new(),
        code: String::new(),
    }
}

/// The same on its way to control.
pub(crate) fn ended(name: u8, connect_seq: u64, result: CommandResult) -> CommandEnded {
    CommandEnded {
        node: node(name),
        session: session(connect_seq),
        connect_seq,
        result,
    }
}

/// A node by a number.
pub(crate) fn node(name: u8) -> NodeId {
    NodeId::derived(&[&[name]])
}

/// A session by a number.
pub(crate) fn session(name: u64) -> SessionId {
    SessionId::random(name, 0)
}

/// A session that was just welcomed. Its number is the node's counter too.
pub(crate) fn opened(name: u8, connect_seq: u64) -> SessionOpened {
    let hello = hello(connect_seq);
    SessionOpened {
        node: node(name),
        session: session(connect_seq),
        connect_seq,
        protocol: 1,
        upgrade_only: false,
        report: 0,
        facts: hello.facts,
        labels: hello.labels,
        company: None,
    }
}

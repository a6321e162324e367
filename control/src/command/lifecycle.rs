//! What may become of a command, and what its node is to have of its commands now.
//!
//! Takes states and what happened, gives states; takes a node's open commands, gives a plan that leaves its executor no
//! choices. It reads no clock and no row.

use std::collections::BTreeSet;

use bc_protocol::{
    command::{Kind, code},
    id::CommandId,
};

use crate::{api::command::CommandState, clock::Moment};

impl CommandState {
    /// Every state, in the order of a life.
    pub(crate) const ALL: [Self; 6] = [
        Self::Pending,
        Self::Dispatched,
        Self::Succeeded,
        Self::Failed,
        Self::Expired,
        Self::TimedOut,
    ];

    /// The word in the database and in the API.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Dispatched => "dispatched",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Expired => "expired",
            Self::TimedOut => "timed-out",
        }
    }

    /// The state of that word.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }

    /// Whether something may still become of it.
    pub(crate) fn is_open(self) -> bool {
        match self {
            Self::Pending | Self::Dispatched => true,
            Self::Succeeded | Self::Failed | Self::Expired | Self::TimedOut => false,
        }
    }

    /// The state after something happened; none where that changes nothing.
    pub(crate) fn after(self, happened: &Happened<'_>) -> Option<Self> {
        match (self, happened) {
            (Self::Pending, Happened::Sent) => Some(Self::Dispatched),
            (Self::Dispatched, Happened::CalledBack) => Some(Self::Pending),
            (Self::Pending, Happened::TimeIsUp) => Some(Self::Expired),
            (Self::Dispatched, Happened::TimeIsUp) => Some(Self::TimedOut),
            // Also of a pending one: it was dispatched and called back, and the node had it all the same.
            (Self::Pending | Self::Dispatched, Happened::Did) => Some(Self::Succeeded),
            (
                Self::Pending | Self::Dispatched,
                Happened::DidNot {
                    code: code::EXPIRED,
                },
            ) => Some(Self::Expired),
            (Self::Pending | Self::Dispatched, Happened::DidNot { .. } | Happened::Withdrawn) => {
                Some(Self::Failed)
            }
            (Self::Pending, Happened::CalledBack) | (Self::Dispatched, Happened::Sent) => None,
            (Self::Succeeded | Self::Failed | Self::Expired | Self::TimedOut, _) => None,
        }
    }
}

/// Something that happened to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened<'a> {
    /// It was given to its node.
    Sent,
    /// Its node came back too old for it: it waits again.
    CalledBack,
    /// The node did it.
    Did,
    /// The node did not, for good.
    DidNot {
        /// Why, as a word.
        code: &'a str,
    },
    /// Nobody wants it any more.
    Withdrawn,
    /// It has waited, or gone on, for too long.
    TimeIsUp,
}

/// What a node's session is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carries {
    /// Specs, and commands of every kind but upgrades: a node that takes specs needs none.
    Everything,
    /// The same without restarts: a binary is on trial, and one more start of it would count against it. An upgrade that
    /// brought it ends with the trial.
    ButRestarts,
    /// Upgrades, and nothing else.
    Upgrades,
}

/// An open command, as far as a plan is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Open {
    /// Its id.
    pub id: CommandId,
    /// Its kind.
    pub kind: Kind,
    /// Pending or dispatched.
    pub state: CommandState,
    /// When it is not begun any more.
    pub expires_at: Moment,
}

/// What is to be done for a node, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// These wait again.
    pub call_back: Vec<CommandId>,
    /// Nobody needs these any more.
    pub withdraw: Vec<CommandId>,
    /// These become dispatched.
    pub begin: Vec<CommandId>,
    /// These are given to the node: what was dispatched before goes first.
    pub send: Vec<CommandId>,
}

/// Plans for a node's open commands, which come in order. At most one of each lane is under way.
pub(crate) fn plan(open: &[Open], carries: Carries, now: Moment) -> Plan {
    let mut plan = Plan::default();
    let mut busy = BTreeSet::new();
    for command in open
        .iter()
        .filter(|open| open.state == CommandState::Dispatched)
    {
        match stance(carries, command.kind) {
            Stance::Given => {
                busy.insert(command.kind.lane());
                plan.send.push(command.id.clone());
            }
            Stance::Kept => {
                busy.insert(command.kind.lane());
            }
            Stance::PutOff => plan.put_off(command),
        }
    }
    for command in open
        .iter()
        .filter(|open| open.state == CommandState::Pending)
    {
        match stance(carries, command.kind) {
            Stance::Given => {
                if command.expires_at > now && busy.insert(command.kind.lane()) {
                    plan.begin.push(command.id.clone());
                    plan.send.push(command.id.clone());
                }
            }
            Stance::Kept => {}
            Stance::PutOff => plan.put_off(command),
        }
    }
    plan
}

impl Plan {
    /// Whether rows stay as they are.
    pub(crate) fn changes_nothing(&self) -> bool {
        self.call_back.is_empty() && self.withdraw.is_empty() && self.begin.is_empty()
    }

    fn put_off(&mut self, command: &Open) {
        match (command.kind, command.state) {
            (Kind::Upgrade, _) => self.withdraw.push(command.id.clone()),
            (Kind::Restart | Kind::Diagnostics, CommandState::Dispatched) => {
                self.call_back.push(command.id.clone());
            }
            (
                Kind::Restart | Kind::Diagnostics,
                CommandState::Pending
                | CommandState::Succeeded
                | CommandState::Failed
                | CommandState::Expired
                | CommandState::TimedOut,
            ) => {}
        }
    }
}

/// What a session does about commands of a kind.
enum Stance {
    /// They are given to the node.
    Given,
    /// They stay as they are.
    Kept,
    /// They wait for another session, or nobody needs them any more.
    PutOff,
}

fn stance(carries: Carries, kind: Kind) -> Stance {
    match (carries, kind) {
        (Carries::Everything, Kind::Restart | Kind::Diagnostics)
        | (Carries::ButRestarts, Kind::Diagnostics)
        | (Carries::Upgrades, Kind::Upgrade) => Stance::Given,
        // What is on trial may be what it brought.
        (Carries::ButRestarts, Kind::Upgrade) => Stance::Kept,
        (Carries::Everything, Kind::Upgrade)
        | (Carries::ButRestarts, Kind::Restart)
        | (Carries::Upgrades, Kind::Restart | Kind::Diagnostics) => Stance::PutOff,
    }
}

#[cfg(test)]
mod tests;

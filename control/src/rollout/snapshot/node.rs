//! A node as control knows it: what a planner may decide by.

use bc_protocol::{
    id::{AttemptId, NodeId},
    sequence::ReleaseFloor,
    session::Outcome,
    version::Version,
};

use super::Place;
use crate::clock::Moment;

/// A node as control knows it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Its id.
    pub id: NodeId,
    /// Whether it was removed.
    pub removed: bool,
    /// Whether it is in maintenance.
    pub maintenance: bool,
    /// Its `cpu.arch` label.
    pub arch: Option<String>,
    /// Whether it can be reached.
    pub presence: Presence,
    /// What it last said; absent before its first session.
    pub said: Option<Said>,
}

/// Whether a node holds a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It does.
    Online,
    /// It does not, since then.
    Offline(Moment),
}

/// How far a node is known to have read its specs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// It may know an older one than the newest.
    Behind,
    /// The newest, which names this attempt, or none.
    Newest(Option<AttemptId>),
    /// The newest, in a session that brings none: what it was told since came as a command.
    Commanded(Option<AttemptId>),
}

impl Read {
    /// The attempt that the newest spec names, where the node has read that one.
    pub(crate) fn attempt(&self) -> Option<&AttemptId> {
        match self {
            Self::Behind => None,
            Self::Newest(attempt) | Self::Commanded(attempt) => attempt.as_ref(),
        }
    }

    /// Whether the node knows that an attempt is not asked of it any more.
    pub(crate) fn has_taken_back(&self, attempt: &AttemptId) -> bool {
        match self {
            Self::Behind | Self::Commanded(_) => false,
            Self::Newest(named) => named.as_ref() != Some(attempt),
        }
    }
}

/// The facts of a node that the planner decides by.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    /// The version that runs.
    pub version: Version,
    /// The oldest release that it accepts.
    pub floor: ReleaseFloor,
    /// The attempt whose binary is on trial.
    pub trial: Option<AttemptId>,
    /// The attempt that its updater works on.
    pub working_on: Option<AttemptId>,
    /// How far it has read its specs.
    pub read: Read,
    /// The newest attempt.
    pub attempt: Option<AttemptSaid>,
    /// The owner's reason, where he holds the node.
    pub held: Option<String>,
}

/// The newest attempt that a node reports.
#[derive(Clone, Debug)]
pub(crate) struct AttemptSaid {
    /// Its id.
    pub id: AttemptId,
    /// How far it came.
    pub outcome: Outcome,
    /// Whether it has ended for good.
    pub is_final: bool,
    /// What went wrong.
    pub trouble: Option<Trouble>,
}

/// A reason, as a word and as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// The word; failures are counted by it.
    pub code: String,
    /// The sentence.
    pub message: String,
}

impl Trouble {
    /// Of a word and a sentence.
    pub(crate) fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
        }
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.message.is_empty() {
            f.write_str(&self.code)
        } else {
            write!(f, "{}: {}", self.code, self.message)
        }
    }
}

impl Node {
    /// Whose its place is when a row lets it go. A removal has given the place back already: nobody gives it back twice.
    pub(crate) fn place(&self, place: Place) -> Place {
        if self.removed { Place::Shared } else { place }
    }

    /// Whether it holds a session.
    pub(crate) fn is_online(&self) -> bool {
        match self.presence {
            Presence::Online => true,
            Presence::Offline(_) => false,
        }
    }
}

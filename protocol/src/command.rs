//! What can be asked of a node besides its desired state.
//!
//! Takes wire messages, gives checked ones, and holds the table of kinds: lane, whether a second delivery does harm,
//! what ends it and how long it may take. It sends nothing.

mod wire_form;

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    id::{CommandId, IdError},
    spec::{DaemonSection, SpecError},
    text::{excerpt, serde_as_text},
};

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Brings an upgrade-only node to a version.
    Upgrade,
    /// Restarts the daemon.
    Restart,
    /// Collects a bounded text report.
    Diagnostics,
}

serde_as_text!(Kind);

/// Commands of one lane run one after the other; lanes do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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

impl Lane {
    /// Every lane.
    pub const ALL: [Self; 2] = [Self::Control, Self::Work];

    /// Its word in JSON, tables and rows.
    pub fn word(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Work => "work",
        }
    }
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Upgrade, Self::Restart, Self::Diagnostics];

    /// Its word in JSON, tables and rows.
    pub fn word(self) -> &'static str {
        match self {
            Self::Upgrade => "daemon.upgrade",
            Self::Restart => "daemon.restart",
            Self::Diagnostics => "diagnostics.collect",
        }
    }

    /// Whether it may be begun again where nobody knows how far it came.
    pub fn is_retry_safe(self) -> bool {
        match self {
            Self::Upgrade | Self::Restart | Self::Diagnostics => true,
        }
    }

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

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Kind {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let known = Self::ALL.into_iter().find(|kind| kind.word() == text);
        known.ok_or_else(|| UnknownWord::new(Self::ALL.map(Self::word), text))
    }
}

/// A part of a diagnostics report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// What the programs and the machine are.
    Versions,
    /// What the node says of itself.
    Status,
    /// What keeps it from its work.
    Doctor,
    /// The record of its updates.
    Record,
    /// The owner's configuration, without secrets.
    Config,
    /// Room and files.
    Disk,
    /// The last lines that the node logged.
    Log,
}

serde_as_text!(Part);

impl Part {
    /// Every part, in the order of a report.
    pub const ALL: [Self; 7] = [
        Self::Versions,
        Self::Status,
        Self::Doctor,
        Self::Record,
        Self::Config,
        Self::Disk,
        Self::Log,
    ];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Versions => "versions",
            Self::Status => "status",
            Self::Doctor => "doctor",
            Self::Record => "record",
            Self::Config => "config",
            Self::Disk => "disk",
            Self::Log => "log",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Part {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let known = Self::ALL.into_iter().find(|part| part.word() == text);
        known.ok_or_else(|| UnknownWord::new(Self::ALL.map(Self::word), text))
    }
}

/// A word that is none of those known.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected one of {known}, found \"{}\"", excerpt(found))]
pub struct UnknownWord {
    known: String,
    found: String,
}

impl UnknownWord {
    fn new<const N: usize>(known: [&str; N], found: &str) -> Self {
        Self {
            known: known.join(", "),
            found: found.to_owned(),
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
    /// Collect these parts of a report; all of them where none is named. Words that a build does not know are for it
    /// to say so in the report.
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
    /// The reason against it as a word, one of [`code`]'s or an attempt's; empty where it succeeded.
    pub code: String,
}

/// The words for why a node did not do what was asked.
pub mod code {
    /// It came after its time.
    pub const EXPIRED: &str = "expired";
    /// This build does not know the kind.
    pub const UNKNOWN_KIND: &str = "unknown-kind";
    /// It cannot be read.
    pub const MALFORMED: &str = "malformed";
    /// A binary is on trial, and nothing else may end it.
    pub const ON_TRIAL: &str = "on-trial";
    /// The node cannot remember it, so that it might do it twice.
    pub const JOURNAL: &str = "journal";
    /// It took too long.
    pub const OVERDUE: &str = "overdue";
    /// Another one took its place.
    pub const REPLACED: &str = "replaced";
    /// It was begun, and nobody has asked for it since.
    pub const FORGOTTEN: &str = "forgotten";
    /// Its gateway had no room for the report.
    pub const NO_ROOM: &str = "no-room";
}

/// The one command that a session carries whose node is too old for everything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradeCommand {
    /// Its id.
    pub id: CommandId,
    /// Milliseconds since 1970; a node does not start it later.
    pub expires_at_ms: i64,
    /// The release to bring the node to.
    pub section: DaemonSection,
}

impl Command {
    /// The command, if it is an upgrade; otherwise the command as it was.
    pub fn into_upgrade(self) -> Result<UpgradeCommand, Box<Self>> {
        let Self {
            id,
            expires_at_ms,
            order,
        } = self;
        match order {
            Order::Upgrade(section) => Ok(UpgradeCommand {
                id,
                expires_at_ms,
                section,
            }),
            order @ (Order::Restart | Order::Diagnostics { .. }) => Err(Box::new(Self {
                id,
                expires_at_ms,
                order,
            })),
        }
    }
}

impl From<UpgradeCommand> for Command {
    fn from(upgrade: UpgradeCommand) -> Self {
        Self {
            id: upgrade.id,
            expires_at_ms: upgrade.expires_at_ms,
            order: Order::Upgrade(upgrade.section),
        }
    }
}

/// A command that cannot be read. Whoever was to do it answers that, where it can be told under which id.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{problem}")]
pub struct Unreadable {
    /// The command's id, if that much could be read.
    pub id: Option<CommandId>,
    /// What is wrong.
    pub problem: CommandError,
}

impl Unreadable {
    /// The reason as a word.
    pub fn code(&self) -> &'static str {
        match self.problem {
            CommandError::Kind => code::UNKNOWN_KIND,
            CommandError::Id(_) | CommandError::Collect { .. } | CommandError::Section(_) => {
                code::MALFORMED
            }
        }
    }
}

/// Why a command from the wire cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    /// The id is none.
    #[error("command id cannot be read: {0}")]
    Id(#[from] IdError),
    /// A kind that this build does not know.
    #[error("command kind: expected one that this build knows, found none of them")]
    Kind,
    /// More parts than anybody could mean.
    #[error("command payload: expected at most {max} parts, found {found}")]
    Collect {
        /// How many.
        found: usize,
        /// How many there may be.
        max: usize,
    },
    /// The section of an upgrade is wrong.
    #[error("command payload cannot be read: {0}")]
    Section(#[from] SpecError),
}

#[cfg(test)]
mod tests {
    use super::{EndsBy, Kind, Lane, Part};

    fn check(kind: Kind, lane: Lane, ends_by: EndsBy, seconds: u64) {
        assert_eq!((kind.lane(), kind.ends_by()), (lane, ends_by), "{kind}");
        assert_eq!(kind.timeout().as_secs(), seconds, "{kind}");
        assert!(kind.is_retry_safe(), "{kind}");
    }

    #[test]
    fn the_table_of_kinds() {
        check(Kind::Upgrade, Lane::Control, EndsBy::Facts, 15 * 60);
        check(Kind::Restart, Lane::Control, EndsBy::Facts, 2 * 60);
        check(Kind::Diagnostics, Lane::Work, EndsBy::Answer, 5 * 60);
    }

    #[test]
    fn words_survive_their_text() {
        for kind in Kind::ALL {
            assert_eq!(kind.word().parse(), Ok(kind));
        }
        for part in Part::ALL {
            assert_eq!(part.word().parse(), Ok(part));
        }
        let unknown = "daemon.stop".parse::<Kind>().unwrap_err().to_string();
        assert_eq!(
            unknown,
            "expected one of daemon.upgrade, daemon.restart, diagnostics.collect, found \"daemon.stop\""
        );
    }
}

//! Nodes that have no part in a rollout, and why. Pure.

use std::fmt;

/// Why a node has no part in a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    /// It was removed.
    Removed,
    /// The rollout does not move through its pool.
    OtherPool,
    /// It joined later, and the rollout has not completed.
    JoinedLater,
    /// The rollout was made for certain nodes only.
    Narrowed,
    /// It was in maintenance.
    LeftOut,
    /// A newer rollout has its say.
    Overtaken,
}

impl Absence {
    /// The word.
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::OtherPool => "other-pool",
            Self::JoinedLater => "joined-later",
            Self::Narrowed => "narrowed",
            Self::LeftOut => "left-out",
            Self::Overtaken => "overtaken",
        }
    }
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Removed => "it has no part in the rollout: it was removed",
            Self::OtherPool => "it has no part in the rollout, which does not move through its pool",
            Self::JoinedLater => {
                "it has no part in the rollout: it joined later, and is late for it once the rollout has completed"
            }
            Self::Narrowed => {
                "it has no part in the rollout, which was made for certain nodes only"
            }
            Self::LeftOut => {
                "it has no part in the rollout: it was left out, as nodes in maintenance are"
            }
            Self::Overtaken => {
                "it has no part in the rollout: a newer one says what it should run"
            }
        })
    }
}

//! Why something does not happen now.
//!
//! One value a reason, with its numbers. Logs, explanations and tests print these values; nothing is silently passed
//! over.

use std::fmt;

use super::snapshot::{Freeze, Trouble};
use crate::{api::rollout::RolloutState, clock::Moment};

/// Why something does not happen now, with its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Nothing starts in a rollout that does not run.
    NotRunning {
        /// Its state.
        state: RolloutState,
        /// Why.
        reason: Option<String>,
    },
    /// Nothing starts in the whole tenant.
    Frozen(Freeze),
    /// The wave has settled and rests.
    Soaking {
        /// Until when.
        until: Moment,
    },
    /// The node cannot be reached.
    Offline {
        /// Since when.
        since: Moment,
        /// From when on the wave goes on without it, if nothing else of the wave moves.
        skipped_at: Option<Moment>,
    },
    /// Something else disrupts the node already: a workflow, or another rollout.
    Disrupted {
        /// What.
        by: String,
    },
    /// The pool has no place left.
    Budget {
        /// Nodes that are disrupted.
        disrupted: u32,
        /// Nodes that may be.
        max: u32,
    },
    /// Today's pins do not cover the release.
    Distrusted {
        /// Why it is not believed.
        refusal: String,
    },
    /// The node has settled and is still at work, so its place is not free.
    StillAtWork,
    /// The node is in maintenance, and late ones wait.
    Maintenance,
    /// The node is late, and cannot be told to run the release.
    Unstartable(Trouble),
}

impl Hold {
    /// The reason in one word.
    pub(crate) fn code(&self) -> &str {
        match self {
            Self::NotRunning { state, .. } => state.word(),
            Self::Frozen(_) => "frozen",
            Self::Soaking { .. } => "soaking",
            Self::Offline { .. } => "offline",
            Self::Disrupted { .. } => "disrupted",
            Self::Budget { .. } => "budget",
            Self::Distrusted { .. } => "distrusted",
            Self::StillAtWork => "at-work",
            Self::Maintenance => "maintenance",
            Self::Unstartable(trouble) => &trouble.code,
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRunning { state, reason } => {
                write!(f, "the rollout is {}", state.word())?;
                match reason {
                    Some(reason) => write!(f, " because: {reason}"),
                    None => Ok(()),
                }
            }
            Self::Frozen(Freeze { reason, by, since }) => {
                write!(
                    f,
                    "{by} froze the fleet at {since:#}, so nothing starts: {reason}"
                )
            }
            Self::Soaking { until } => write!(f, "the wave has settled and soaks until {until:#}"),
            Self::Offline { since, skipped_at } => {
                write!(f, "the node has been offline since {since:#}")?;
                match skipped_at {
                    Some(at) => write!(f, ", and is passed over at {at:#}"),
                    None => Ok(()),
                }
            }
            Self::Disrupted { by } => write!(f, "{by} disrupts the node already"),
            Self::Budget { disrupted: 1, max } => {
                write!(f, "1 node of its pool is disrupted where {max} may be")
            }
            Self::Budget { disrupted, max } => write!(
                f,
                "{disrupted} nodes of its pool are disrupted where {max} may be"
            ),
            Self::Distrusted { refusal } => {
                write!(f, "today's pins do not cover the release: {refusal}")
            }
            Self::StillAtWork => {
                f.write_str("the node is still at work, so its place is not free yet")
            }
            Self::Maintenance => f.write_str("the node is in maintenance"),
            Self::Unstartable(trouble) => write!(f, "{trouble}"),
        }
    }
}

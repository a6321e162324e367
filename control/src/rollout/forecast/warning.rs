//! What the author of a rollout may not have meant, in words.

use std::{fmt, time::Duration};

use bc_protocol::{
    id::{PoolId, RolloutId},
    version::Version,
};

use super::WATCHDOG;
use crate::rollout::snapshot::{Freeze, Trouble};

/// What the author of a rollout may not have meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Warning {
    /// Nodes may be called failed that are still deciding.
    ShortTimeout {
        /// What was asked for.
        timeout: Duration,
    },
    /// Nothing is tried out first.
    FirstWaveIsEverything {
        /// Its nodes.
        nodes: u32,
    },
    /// Nobody of the pool can be reached.
    NobodyOnline {
        /// The pool.
        pool: PoolId,
        /// Its nodes in scope.
        nodes: u32,
    },
    /// There is nothing to do.
    NothingToDo,
    /// Nobody of the first wave can begin.
    NoCanary {
        /// Its nodes.
        nodes: u32,
    },
    /// Nodes that cannot take the release.
    PassedOver(PassedOver),
    /// Nobody can take the release.
    NobodyTakesIt,
    /// The version's numbers fall, though the sequence rises.
    LowerVersion {
        /// What it brings.
        version: Version,
        /// What a node runs.
        runs: Version,
        /// How many run such a version.
        nodes: u32,
    },
    /// Nodes in maintenance are not in it.
    LeftOut {
        /// How many.
        nodes: u32,
    },
    /// Nothing starts in the tenant.
    Frozen(Freeze),
    /// Control serves binaries, and not these.
    Unpublished {
        /// Platforms that the release lists.
        platforms: Vec<String>,
    },
    /// Somebody has given the release up once.
    AbortedBefore {
        /// That rollout.
        rollout: RolloutId,
        /// Why.
        reason: String,
    },
}

/// Nodes that would be passed over for one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PassedOver {
    /// How many.
    pub nodes: u32,
    /// The cause, with what one of them says.
    why: Trouble,
}

impl PassedOver {
    /// None yet.
    pub(super) fn new(why: Trouble) -> Self {
        Self { nodes: 0, why }
    }
}

impl Warning {
    /// In one word.
    pub(crate) fn code(&self) -> &str {
        match self {
            Self::ShortTimeout { .. } => "short-timeout",
            Self::FirstWaveIsEverything { .. } => "first-wave-is-everything",
            Self::NobodyOnline { .. } => "nobody-online",
            Self::NothingToDo => "nothing-to-do",
            Self::NoCanary { .. } => "no-canary",
            Self::PassedOver(passed) => &passed.why.code,
            Self::NobodyTakesIt => NOBODY_TAKES_IT,
            Self::LowerVersion { .. } => "lower-version",
            Self::LeftOut { .. } => "maintenance",
            Self::Frozen(_) => "frozen",
            Self::Unpublished { .. } => "unpublished",
            Self::AbortedBefore { .. } => "aborted-before",
        }
    }
}

/// The word for a release that no node in scope can take.
pub(crate) const NOBODY_TAKES_IT: &str = "nobody-takes-it";

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShortTimeout { timeout } => write!(
                f,
                "a node may take {} s, but one on trial waits {} s for a Welcome before it goes back",
                timeout.as_secs(),
                WATCHDOG.as_secs()
            ),
            Self::FirstWaveIsEverything { nodes } => write!(
                f,
                "the first wave is all {nodes} nodes: nothing is tried out before"
            ),
            Self::NobodyOnline { pool, nodes } => write!(
                f,
                "none of the {nodes} nodes of {pool} is online: they are passed over, and late when they return"
            ),
            Self::NothingToDo => f.write_str("every node in scope runs the release already"),
            Self::NoCanary { nodes } => write!(
                f,
                "no node of the first wave, which has {nodes}, can begin now: all others wait until it is passed over"
            ),
            Self::PassedOver(PassedOver { nodes, why }) => {
                write!(
                    f,
                    "{} would be passed over: {}",
                    of_nodes(*nodes),
                    why.message
                )
            }
            Self::NobodyTakesIt => {
                f.write_str("no node in scope can take the release: all would be passed over")
            }
            Self::LowerVersion {
                version,
                runs,
                nodes,
            } => write!(
                f,
                "{} would go from a version such as {runs} to {version}: its sequence is the higher one, and that is what counts",
                of_nodes(*nodes)
            ),
            Self::LeftOut { nodes } => {
                write!(f, "{} in maintenance would be left out", of_nodes(*nodes))
            }
            Self::Frozen(Freeze { reason, by, since }) => write!(
                f,
                "nothing starts until the fleet is unfrozen: {by} has frozen it since {since}: {reason}"
            ),
            Self::Unpublished { platforms } => write!(
                f,
                "nobody has published its binary for {} here: nodes that are told to fetch it fail until somebody has",
                platforms.join(", ")
            ),
            Self::AbortedBefore { rollout, reason } => write!(
                f,
                "the last rollout of this version, {rollout}, was aborted: {reason}"
            ),
        }
    }
}

fn of_nodes(nodes: u32) -> String {
    match nodes {
        1 => "1 node".to_owned(),
        several => format!("{several} nodes"),
    }
}

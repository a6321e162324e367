//! Why a call was not carried out, and how the API says so.

use bc_protocol::{
    id::{NodeId, PoolId, RolloutId},
    version::Version,
};
use thiserror::Error;

use crate::{
    api::{
        error::{Code, ErrorObject},
        rollout::RolloutState,
    },
    release::store::ReleaseError,
    rollout::store::StoreError,
};

/// Why a call was not carried out. Nothing was stored.
#[derive(Debug, Error)]
pub(crate) enum RolloutError {
    /// A field breaks a rule.
    #[error("{field}: expected {rule}, found {found}")]
    Invalid {
        /// The field, as JSON names it.
        field: &'static str,
        /// What it should have been.
        rule: &'static str,
        /// What it was.
        found: String,
    },
    /// Nothing of that name is visible to the caller.
    #[error("there is no rollout {rollout}")]
    NoRollout {
        /// The id asked for.
        rollout: RolloutId,
    },
    /// The version is not registered.
    #[error("expected a registered release, found none of version {version}")]
    NoRelease {
        /// The version asked for.
        version: Version,
    },
    /// A listed pool is no unarchived pool of the tenant.
    #[error("there is no pool {pool}")]
    NoPool {
        /// The id asked for.
        pool: PoolId,
    },
    /// A listed node is none of the tenant's.
    #[error("there is no node {node}")]
    NoNode {
        /// The id asked for.
        node: NodeId,
    },
    /// Nobody would be upgraded.
    #[error("expected at least one node in scope that runs bcd, found none")]
    NobodyInScope,
    /// A node in scope is in another rollout.
    #[error("a node in scope is in rollout {rollout}, which has not ended")]
    Busy {
        /// The other rollout.
        rollout: RolloutId,
    },
    /// The key was used for another version.
    #[error("the idempotency key was used for version {stored} before, found {asked}")]
    KeyTaken {
        /// The rollout of that key.
        rollout: RolloutId,
        /// What it brings.
        stored: Version,
        /// What was asked for.
        asked: Version,
    },
    /// The rollout has ended.
    #[error("expected a running or paused rollout, found {rollout} {}", state.word())]
    Ended {
        /// The rollout.
        rollout: RolloutId,
        /// How it ended.
        state: RolloutState,
    },
    /// Nothing of it can be tried again.
    #[error("expected a completed rollout over whole pools, found {rollout} {}", word(*state))]
    NoRetry {
        /// The rollout.
        rollout: RolloutId,
        /// How it stands.
        state: RolloutState,
    },
    /// The node has not failed in the rollout.
    #[error("expected a node that failed in the rollout, found {node}")]
    NotFailed {
        /// The node asked for.
        node: NodeId,
    },
    /// The release could not be read.
    #[error("the release cannot be read")]
    Release(#[from] ReleaseError),
    /// The rollout could not be read or written.
    #[error("the rollout cannot be read or written")]
    Store(#[from] StoreError),
}

/// A completed rollout that is refused was made for certain nodes only.
fn word(state: RolloutState) -> &'static str {
    match state {
        RolloutState::Completed => "narrowed to certain nodes",
        RolloutState::Running | RolloutState::Paused | RolloutState::Aborted => state.word(),
    }
}

impl From<sqlx::Error> for RolloutError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl RolloutError {
    pub(super) fn no_rollout(id: &RolloutId) -> Self {
        Self::NoRollout {
            rollout: id.clone(),
        }
    }
}

impl From<RolloutError> for ErrorObject {
    fn from(error: RolloutError) -> Self {
        // The registry has its own words for why a release is not to be had.
        if let RolloutError::Release(release) = error {
            return release.into();
        }
        let new = |code| Self::new(code, &error);
        match &error {
            RolloutError::Invalid { field, rule, .. } => new(Code::InvalidInput)
                .with("field", field)
                .with("rule", rule),
            RolloutError::NoRollout { rollout } => new(Code::NotFound).with("rolloutId", rollout),
            RolloutError::NoRelease { version } => new(Code::NotFound).with("version", version),
            RolloutError::NoPool { pool } => new(Code::NotFound).with("poolId", pool),
            RolloutError::NoNode { node } => new(Code::NotFound).with("nodeId", node),
            RolloutError::NobodyInScope => new(Code::InvalidState),
            RolloutError::Ended { rollout, state } => new(Code::InvalidState)
                .with("rolloutId", rollout)
                .with("state", state),
            RolloutError::NoRetry { rollout, .. } => {
                new(Code::InvalidState).with("rolloutId", rollout)
            }
            RolloutError::NotFailed { node } => new(Code::InvalidState).with("nodeId", node),
            RolloutError::Busy { rollout } | RolloutError::KeyTaken { rollout, .. } => {
                new(Code::Conflict).with("rolloutId", rollout)
            }
            RolloutError::Release(_) | RolloutError::Store(_) => Self::internal(&error),
        }
    }
}

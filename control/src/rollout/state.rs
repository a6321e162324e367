//! The states of a rollout and of its rows, and which may follow which.
//!
//! Takes states, gives their words in the database and the moves that are allowed. Never moves anything itself.

use crate::api::rollout::{RolloutState, RowCounts, RowState};

/// What a row asks of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    /// To run the rollout's release.
    Release,
    /// To run what it ran before.
    Origin,
    /// The row has no say.
    Nothing,
}

impl RolloutState {
    /// The word in the database and in the API.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Aborted => "aborted",
        }
    }

    /// The state of that word.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        [Self::Running, Self::Paused, Self::Completed, Self::Aborted]
            .into_iter()
            .find(|state| state.word() == word)
    }
}

impl RowState {
    /// Every state, in the order in which people list them.
    pub(crate) const ALL: [Self; 7] = [
        Self::Pending,
        Self::Upgrading,
        Self::Succeeded,
        Self::Failed,
        Self::Skipped,
        Self::RollingBack,
        Self::RolledBack,
    ];

    /// The word in the database and in the API.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Upgrading => "upgrading",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::RollingBack => "rolling-back",
            Self::RolledBack => "rolled-back",
        }
    }

    /// The state of that word.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }

    /// Whether the node has been told something and has not answered for good.
    pub(crate) fn is_in_flight(self) -> bool {
        match self {
            Self::Upgrading | Self::RollingBack => true,
            Self::Pending | Self::Succeeded | Self::Failed | Self::Skipped | Self::RolledBack => {
                false
            }
        }
    }

    /// What a row of this state asks of its node.
    pub(crate) fn wants(self) -> Wants {
        match self {
            Self::Upgrading | Self::Succeeded => Wants::Release,
            Self::Failed | Self::RollingBack | Self::RolledBack => Wants::Origin,
            Self::Pending | Self::Skipped => Wants::Nothing,
        }
    }

    /// Whether this row has a say in what its node should run.
    pub(crate) fn is_touched(self) -> bool {
        match self.wants() {
            Wants::Release | Wants::Origin => true,
            Wants::Nothing => false,
        }
    }

    /// Whether a row may go from this state to `next`. Settled rows stay.
    pub(crate) fn may_become(self, next: Self) -> bool {
        match self {
            Self::Pending => matches!(next, Self::Upgrading | Self::Skipped),
            Self::Upgrading => matches!(
                next,
                Self::Succeeded | Self::Failed | Self::Skipped | Self::RollingBack
            ),
            Self::RollingBack => {
                matches!(next, Self::RolledBack | Self::Succeeded | Self::Failed)
            }
            Self::Succeeded | Self::Failed | Self::Skipped | Self::RolledBack => false,
        }
    }
}

impl RowCounts {
    /// The counter of one state.
    pub(crate) fn get(self, state: RowState) -> u32 {
        match state {
            RowState::Pending => self.pending,
            RowState::Upgrading => self.upgrading,
            RowState::Succeeded => self.succeeded,
            RowState::Failed => self.failed,
            RowState::Skipped => self.skipped,
            RowState::RollingBack => self.rolling_back,
            RowState::RolledBack => self.rolled_back,
        }
    }

    fn slot(&mut self, state: RowState) -> &mut u32 {
        match state {
            RowState::Pending => &mut self.pending,
            RowState::Upgrading => &mut self.upgrading,
            RowState::Succeeded => &mut self.succeeded,
            RowState::Failed => &mut self.failed,
            RowState::Skipped => &mut self.skipped,
            RowState::RollingBack => &mut self.rolling_back,
            RowState::RolledBack => &mut self.rolled_back,
        }
    }

    /// Counts `nodes` more in `state`.
    pub(crate) fn add(&mut self, state: RowState, nodes: u32) {
        let slot = self.slot(state);
        *slot = slot.saturating_add(nodes);
    }

    /// Moves `nodes` from one state to another.
    pub(crate) fn shift(&mut self, from: RowState, to: RowState, nodes: u32) {
        let slot = self.slot(from);
        *slot = slot.saturating_sub(nodes);
        self.add(to, nodes);
    }

    /// All nodes.
    pub(crate) fn total(self) -> u32 {
        RowState::ALL
            .into_iter()
            .fold(0_u32, |sum, state| sum.saturating_add(self.get(state)))
    }

    /// Nodes that have been told something and have not answered for good.
    pub(crate) fn in_flight(self) -> u32 {
        self.upgrading.saturating_add(self.rolling_back)
    }

    /// Nodes that were not passed over.
    pub(crate) fn not_skipped(self) -> u32 {
        self.total().saturating_sub(self.skipped)
    }

    /// Whether nothing is left to happen.
    pub(crate) fn are_settled(self) -> bool {
        self.pending == 0 && self.in_flight() == 0
    }

    /// These nodes and those.
    #[must_use]
    pub(crate) fn plus(mut self, others: Self) -> Self {
        for state in RowState::ALL {
            self.add(state, others.get(state));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::{RolloutState, RowState};

    #[test]
    fn words_are_those_of_the_api() {
        for state in RowState::ALL {
            let json = serde_json::to_string(&state).unwrap();
            assert_eq!(json, format!("\"{}\"", state.word()));
            assert_eq!(RowState::from_word(state.word()), Some(state));
        }
        for state in [
            RolloutState::Running,
            RolloutState::Paused,
            RolloutState::Completed,
            RolloutState::Aborted,
        ] {
            let json = serde_json::to_string(&state).unwrap();
            assert_eq!(json, format!("\"{}\"", state.word()));
            assert_eq!(RolloutState::from_word(state.word()), Some(state));
        }
        assert_eq!(RowState::from_word("rolling_back"), None);
    }

    /// I19
    #[test]
    fn rows_move_only_forward() {
        let allowed: Vec<_> = RowState::ALL
            .into_iter()
            .flat_map(|from| RowState::ALL.map(|to| (from, to)))
            .filter(|(from, to)| from.may_become(*to))
            .map(|(from, to)| format!("{} > {}", from.word(), to.word()))
            .collect();
        assert_eq!(
            allowed,
            [
                "pending > upgrading",
                "pending > skipped",
                "upgrading > succeeded",
                "upgrading > failed",
                "upgrading > skipped",
                "upgrading > rolling-back",
                "rolling-back > succeeded",
                "rolling-back > failed",
                "rolling-back > rolled-back",
            ]
        );
    }
}

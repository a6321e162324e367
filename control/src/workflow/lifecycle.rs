//! The states of a workflow, and which may follow which.
//!
//! Takes states, gives their words in the database and the moves that are allowed. Never moves anything itself.

use crate::api::workflow::WorkflowState;

/// Whether a workflow disrupts its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It takes its node's place.
    Open,
    /// It takes nothing.
    Ended,
}

impl WorkflowState {
    /// Every state.
    pub(crate) const ALL: [Self; 6] = [
        Self::Pending,
        Self::Running,
        Self::Paused,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The word in the database and in the API.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The state of that word.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }

    /// Whether a workflow of this state disrupts its node.
    pub(crate) fn standing(self) -> Standing {
        match self {
            Self::Pending | Self::Running | Self::Paused => Standing::Open,
            Self::Succeeded | Self::Failed | Self::Cancelled => Standing::Ended,
        }
    }

    /// Whether a workflow may go from this state to `next`. What has ended stays as it is; what has not run cannot have
    /// succeeded.
    pub(crate) fn may_become(self, next: Self) -> bool {
        match self {
            Self::Pending => matches!(next, Self::Running | Self::Failed | Self::Cancelled),
            Self::Running => matches!(
                next,
                Self::Paused | Self::Succeeded | Self::Failed | Self::Cancelled
            ),
            Self::Paused => matches!(next, Self::Running | Self::Failed | Self::Cancelled),
            Self::Succeeded | Self::Failed | Self::Cancelled => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Standing;
    use crate::api::workflow::WorkflowState;

    #[test]
    fn words_are_those_of_the_api() {
        for state in WorkflowState::ALL {
            let json = serde_json::to_string(&state).unwrap();
            assert_eq!(json, format!("\"{}\"", state.word()));
            assert_eq!(WorkflowState::from_word(state.word()), Some(state));
        }
        assert_eq!(WorkflowState::from_word("canceled"), None);
    }

    #[test]
    fn workflows_move_like_this() {
        let allowed: Vec<_> = WorkflowState::ALL
            .into_iter()
            .flat_map(|from| WorkflowState::ALL.map(|to| (from, to)))
            .filter(|(from, to)| from.may_become(*to))
            .map(|(from, to)| format!("{} > {}", from.word(), to.word()))
            .collect();
        assert_eq!(
            allowed,
            [
                "pending > running",
                "pending > failed",
                "pending > cancelled",
                "running > paused",
                "running > succeeded",
                "running > failed",
                "running > cancelled",
                "paused > running",
                "paused > failed",
                "paused > cancelled",
            ]
        );
    }

    #[test]
    fn what_has_ended_stays_and_takes_no_place() {
        for state in WorkflowState::ALL {
            let stays = WorkflowState::ALL
                .iter()
                .all(|next| !state.may_become(*next));
            assert_eq!(stays, state.standing() == Standing::Ended, "{state:?}");
        }
    }
}

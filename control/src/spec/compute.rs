//! Which version a node should run.
//!
//! Takes the node's rows in rollouts, gives a version and the attempt to name, or why there is none. Two control
//! processes that read the same rows compute the same. Knows nothing of pushes and sessions.

use bc_protocol::{
    id::{AttemptId, RolloutId},
    version::Version,
};
use thiserror::Error;

use crate::{
    api::rollout::RowState,
    clock::Moment,
    rollout::{state::Wants, target::Unfit},
};

/// What there is to compute from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    /// The newest rollout that has touched the node.
    pub touched: Option<Touched>,
    /// The newest completed rollout over the node's pool that was not narrowed.
    pub completed: Option<Age>,
}

/// A rollout and when it was created. The id tells two of one millisecond apart, the same way everywhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Age {
    /// When.
    pub created_at: Moment,
    /// Which.
    pub rollout: RolloutId,
}

/// A row of the node that has a say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Touched {
    /// Its rollout.
    pub age: Age,
    /// What the rollout brings.
    pub version: Version,
    /// The row's state.
    pub state: RowState,
    /// What the node ran before.
    pub from: Option<Version>,
    /// What reports about the row name.
    pub attempt: Option<AttemptId>,
    /// Whether the rollout came to the node, or the node to it.
    pub turn: Turn,
}

/// When a node has its turn in a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// In a wave.
    Wave,
    /// After the rollout had completed.
    Late,
}

/// What a node should run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The version.
    pub version: Version,
    /// What reports will name.
    pub attempt: AttemptId,
    /// What it follows from.
    pub origin: Origin,
}

/// What a choice follows from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The rollout.
    pub rollout: RolloutId,
    /// Which way the rollout moves the node.
    pub way: Way,
}

/// Which way a rollout moves a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// To its release.
    There,
    /// To its release, after everybody else.
    Late,
    /// To what the node ran before.
    Back,
}

/// Why a node is left alone.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum NoSection {
    /// No rollout has been here.
    #[error("no rollout has touched the node or completed over its pool")]
    Untouched,
    /// A completed rollout waits to be brought to it.
    #[error("the node is late for {rollout}, and has not been started for it")]
    Late {
        /// The rollout.
        rollout: RolloutId,
    },
    /// It should go back, and nobody knows to what.
    #[error("the node ran an unknown version before {rollout}, so there is nothing to go back to")]
    UnknownOrigin {
        /// The rollout.
        rollout: RolloutId,
    },
    /// Its row names no attempt, so that no report could settle it.
    #[error("the node's row in {rollout} names no attempt")]
    NoAttempt {
        /// The rollout.
        rollout: RolloutId,
    },
    /// The release has nothing for it.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// Today's pins do not cover the release.
    #[error("release {version} is not trusted: {refusal}")]
    Distrusted {
        /// The version.
        version: Version,
        /// Why not.
        refusal: String,
    },
}

/// Chooses the version for a node.
pub(crate) fn choose(rows: &Rows) -> Result<Choice, NoSection> {
    let touched = match (&rows.touched, &rows.completed) {
        (None, None) => return Err(NoSection::Untouched),
        (None, Some(completed)) => return Err(late(completed)),
        // A node once touched and later skipped must still converge on what its pool has converged on.
        (Some(touched), Some(completed)) if *completed > touched.age => {
            return Err(late(completed));
        }
        (Some(touched), Some(_) | None) => touched,
    };
    let rollout = || touched.age.rollout.clone();
    let (version, way) = match touched.state.wants() {
        Wants::Release => {
            let way = match touched.turn {
                Turn::Wave => Way::There,
                Turn::Late => Way::Late,
            };
            (touched.version.clone(), way)
        }
        Wants::Origin => {
            let from = touched.from.clone();
            let from = from.ok_or_else(|| NoSection::UnknownOrigin { rollout: rollout() })?;
            (from, Way::Back)
        }
        Wants::Nothing => return Err(NoSection::Untouched),
    };
    let attempt = touched
        .attempt
        .clone()
        .ok_or_else(|| NoSection::NoAttempt { rollout: rollout() })?;
    Ok(Choice {
        version,
        attempt,
        origin: Origin {
            rollout: rollout(),
            way,
        },
    })
}

fn late(completed: &Age) -> NoSection {
    NoSection::Late {
        rollout: completed.rollout.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Age, Rows, Touched, Turn, choose};
    use crate::{api::rollout::RowState, clock::Moment};
    use bc_protocol::id::{AttemptId, RolloutId};

    fn age(created: i64) -> Age {
        Age {
            created_at: Moment::from_millis(created),
            rollout: RolloutId::derived(&[&created.to_be_bytes()]),
        }
    }

    fn touched(created: i64, state: RowState) -> Touched {
        Touched {
            age: age(created),
            version: "2.0.0".parse().unwrap(),
            state,
            from: Some("1.0.0".parse().unwrap()),
            attempt: Some(AttemptId::derived(&[b"a"])),
            turn: Turn::Wave,
        }
    }

    fn check(touched: Option<Touched>, completed: Option<i64>, expected: &str) {
        let rows = Rows {
            touched,
            completed: completed.map(age),
        };
        let chosen = match choose(&rows) {
            Ok(choice) => choice.version.to_string(),
            Err(reason) => reason
                .to_string()
                .replace(age(2).rollout.as_str(), "2")
                .replace(age(1).rollout.as_str(), "1"),
        };
        assert_eq!(chosen, expected);
    }

    #[test]
    fn a_node_that_nobody_touched_is_left_alone() {
        check(
            None,
            None,
            "no rollout has touched the node or completed over its pool",
        );
    }

    #[test]
    fn a_node_that_joined_after_a_rollout_is_late_for_it() {
        check(
            None,
            Some(2),
            "the node is late for 2, and has not been started for it",
        );
    }

    #[test]
    fn a_node_that_was_skipped_in_a_newer_completed_rollout_is_late_for_that() {
        let row = touched(1, RowState::Succeeded);
        check(
            Some(row),
            Some(2),
            "the node is late for 2, and has not been started for it",
        );
    }

    #[test]
    fn the_rollouts_version_while_upgrading_and_after() {
        for completed in [None, Some(1), Some(2)] {
            check(Some(touched(2, RowState::Upgrading)), completed, "2.0.0");
            check(Some(touched(2, RowState::Succeeded)), completed, "2.0.0");
        }
    }

    #[test]
    fn what_ran_before_after_a_failure_and_on_the_way_back() {
        for completed in [None, Some(1)] {
            for state in [
                RowState::Failed,
                RowState::RollingBack,
                RowState::RolledBack,
            ] {
                check(Some(touched(2, state)), completed, "1.0.0");
            }
        }
    }

    #[test]
    fn an_unknown_origin_does_not_fall_back_to_an_older_rollout() {
        let row = Touched {
            from: None,
            ..touched(2, RowState::Failed)
        };
        let reason = "the node ran an unknown version before 2, so there is nothing to go back to";
        check(Some(row), Some(1), reason);
    }

    #[test]
    fn rows_that_have_no_say_choose_nothing() {
        for state in [RowState::Pending, RowState::Skipped] {
            let reason = "no rollout has touched the node or completed over its pool";
            check(Some(touched(2, state)), None, reason);
        }
    }
}

//! A sentence for every reason, absence and state.

use super::*;

#[test]
fn a_sentence_for_every_reason_of_the_rollouts() {
    let at = || moment("2026-11-30T09:00:00Z");
    let paused = |reason: Option<&str>| Hold::NotRunning {
        state: RolloutState::Paused,
        reason: reason.map(Into::into),
    };
    let freeze = Freeze {
        reason: "incident 7".into(),
        by: "alice".into(),
        since: at(),
    };
    for (hold, code, sentence) in [
        (
            paused(Some("looks odd")),
            "paused",
            "the rollout is paused because: looks odd",
        ),
        (paused(None), "paused", "the rollout is paused"),
        (
            Hold::Frozen(freeze),
            "frozen",
            "alice froze the fleet at 2026-11-30T09:00:00Z, so nothing starts: incident 7",
        ),
        (
            Hold::Soaking { until: at() },
            "soaking",
            "the wave has settled and soaks until 2026-11-30T09:00:00Z",
        ),
        (
            Hold::Distrusted {
                refusal: "expected valid signatures of 2 pinned keys, found 1".into(),
            },
            "distrusted",
            "today's pins do not cover the release: expected valid signatures of 2 pinned keys, found 1",
        ),
    ] {
        let given = Given::held(pending(0), hold);
        check(&given, code, &format!("it waits: {sentence}"));
    }
}

/// What stops this node.
#[test]
fn a_sentence_for_every_reason_of_the_nodes() {
    let since = moment("2026-11-30T09:00:00Z");
    for (hold, code, sentence) in [
        (
            Hold::Offline {
                since,
                skipped_at: None,
            },
            "offline",
            "the node has been offline since 2026-11-30T09:00:00Z",
        ),
        (
            Hold::Disrupted {
                by: "rollout_x".into(),
            },
            "disrupted",
            "rollout_x disrupts the node already",
        ),
        (
            Hold::Budget {
                disrupted: 1,
                max: 1,
            },
            "budget",
            "1 node of its pool is disrupted where 1 may be: a by wf_a, b by wf_b, c by wf_c, and 2 more",
        ),
        (
            Hold::StillAtWork,
            "at-work",
            "the node is still at work, so its place is not free yet",
        ),
        (
            Hold::Maintenance,
            "maintenance",
            "the node is in maintenance",
        ),
        (
            Hold::Unstartable(Trouble::new("floor", "the node accepts nothing below 12")),
            "floor",
            "floor: the node accepts nothing below 12",
        ),
    ] {
        let given = Given::held(pending(0), hold);
        check(&given, code, &format!("it waits: {sentence}"));
    }
}

/// Every way to have no part in a rollout.
#[test]
fn a_sentence_for_every_absence() {
    for (absence, code, rest) in [
        (Absence::Removed, "removed", ": it was removed"),
        (
            Absence::OtherPool,
            "other-pool",
            ", which does not move through its pool",
        ),
        (
            Absence::JoinedLater,
            "joined-later",
            ": it joined later, and is late for it once the rollout has completed",
        ),
        (
            Absence::Narrowed,
            "narrowed",
            ", which was made for certain nodes only",
        ),
        (
            Absence::LeftOut,
            "left-out",
            ": it was left out, as nodes in maintenance are",
        ),
        (
            Absence::Overtaken,
            "overtaken",
            ": a newer one says what it should run",
        ),
    ] {
        let sentence = format!("it has no part in the rollout{rest}");
        check(&Given::of(Part::Stranger(absence)), code, &sentence);
    }
}

/// Every state of a row, of a wave and late.
#[test]
fn a_sentence_for_every_state() {
    for (state, wave, late) in [
        (
            RowState::Pending,
            "it starts with the next pass",
            "it starts with the next pass",
        ),
        (
            RowState::Upgrading,
            "it is upgrading to 1.1.0 from 1.0.0 since 2026-11-30T10:00:00Z",
            "it is upgrading late to 1.1.0 from 1.0.0 since 2026-11-30T10:00:00Z",
        ),
        (
            RowState::Succeeded,
            "it went from 1.0.0 to 1.1.0, confirmed",
            "it went late from 1.0.0 to 1.1.0, confirmed",
        ),
        (
            RowState::Failed,
            "upgrading to 1.1.0 failed, and nothing says why",
            "upgrading late to 1.1.0 failed, and nothing says why",
        ),
        (
            RowState::Skipped,
            "it was passed over, and nothing says why",
            "it was passed over, and nothing says why",
        ),
        (
            RowState::RollingBack,
            "it is going back from 1.1.0 to 1.0.0 since 2026-11-30T10:00:00Z",
            "it is going back from 1.1.0 to 1.0.0 since 2026-11-30T10:00:00Z",
        ),
        (
            RowState::RolledBack,
            "it went back to 1.0.0",
            "it went back to 1.0.0",
        ),
    ] {
        let row = Account {
            finished_at: None,
            ..account(state)
        };
        for (part, expected) in [(Part::Wave(0, row.clone()), wave), (Part::Late(row), late)] {
            let code = match state {
                RowState::Pending => "next",
                RowState::Failed | RowState::Skipped => "unknown",
                RowState::Upgrading
                | RowState::Succeeded
                | RowState::RollingBack
                | RowState::RolledBack => state.word(),
            };
            check(&Given::of(part), code, expected);
        }
    }
}

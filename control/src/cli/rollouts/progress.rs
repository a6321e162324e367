//! How far a rollout is, wave by wave.
//!
//! Takes rollouts as `rollouts.get` gives them, gives counts, phases and sentences. Pure: no clock, no terminal.

use std::collections::BTreeMap;

use crate::{
    api::{
        freeze::Frozen,
        rollout::{Rollout, RolloutState, RowCounts, RowState},
    },
    cli::{exit::Exit, sheet::second},
    clock::Moment,
};

/// One wave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wave {
    /// Its number, from 1.
    pub number: usize,
    /// Its nodes by state.
    pub counts: RowCounts,
    /// Where it stands.
    pub phase: Phase,
}

/// Where a wave stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its turn has not come.
    Waiting,
    /// Its nodes start and settle.
    Open,
    /// All its nodes have settled; the next wave waits for the soak to end.
    Soaking,
    /// All its nodes have settled; the next wave waits for somebody to let the rollout go on.
    Settled,
    /// Nothing more happens to it.
    Over,
}

/// The waves that have nodes: a fleet may be smaller than its waves.
pub(super) fn waves(rollout: &Rollout) -> Vec<Wave> {
    let mut counts = BTreeMap::<u32, RowCounts>::new();
    for node in rollout.node_list.iter().flatten() {
        count(counts.entry(node.wave).or_default(), node.state);
    }
    let last = counts.keys().max().copied();
    counts
        .into_iter()
        .map(|(index, counts)| Wave {
            number: usize::try_from(index)
                .unwrap_or(usize::MAX)
                .saturating_add(1),
            counts,
            phase: phase(rollout, index, last, &counts),
        })
        .collect()
}

fn phase(rollout: &Rollout, index: u32, last: Option<u32>, counts: &RowCounts) -> Phase {
    match rollout.state {
        RolloutState::Completed | RolloutState::Aborted => Phase::Over,
        RolloutState::Running | RolloutState::Paused => {
            if index > rollout.wave {
                Phase::Waiting
            } else if index < rollout.wave {
                Phase::Over
            } else if settled(counts) < total(counts) {
                Phase::Open
            } else if Some(index) == last {
                Phase::Over
            } else if rollout.state == RolloutState::Running || rollout.soaks_until.is_some() {
                Phase::Soaking
            } else {
                Phase::Settled
            }
        }
    }
}

/// How the watching of a rollout ends, once there is nothing more to see.
pub(super) fn outcome(rollout: &Rollout) -> Option<Exit> {
    match rollout.state {
        RolloutState::Running => None,
        RolloutState::Paused => Some(Exit::RolloutEnded),
        // Nodes on their way back are still to be seen.
        RolloutState::Aborted if rollout.nodes.rolling_back > 0 => None,
        RolloutState::Aborted => Some(Exit::RolloutEnded),
        RolloutState::Completed if rollout.nodes.failed > 0 => Some(Exit::RolloutEnded),
        RolloutState::Completed => Some(Exit::Done),
    }
}

/// How the watching of its late nodes ends: each has said how it went.
pub(super) fn late_outcome(rollout: &Rollout) -> Option<Exit> {
    let mut exit = Exit::Done;
    for node in rollout.late_nodes.iter().flatten() {
        match node.state {
            RowState::Pending | RowState::Upgrading | RowState::RollingBack => return None,
            RowState::Failed | RowState::RolledBack => exit = Exit::RolloutEnded,
            RowState::Succeeded | RowState::Skipped => {}
        }
    }
    Some(exit)
}

/// The rollout in one line, and what keeps it.
pub(super) fn state_in_words(rollout: &Rollout) -> String {
    let mut words = bare_state(rollout);
    if let Some(until) = rollout.soaks_until {
        let wave = rollout.wave.saturating_add(1);
        let until = until_when(rollout.state, until);
        words = format!("{words}; wave {wave} soaks until {until}");
    }
    if let Some(frozen) = &rollout.frozen {
        words = format!("{words}; {}", frozen_in_words(frozen));
    }
    words
}

/// The end of a soak; one that lets nothing begin says so.
pub(super) fn until_when(state: RolloutState, until: Moment) -> String {
    let until = second(until);
    match state {
        RolloutState::Paused => format!("{until} (nothing starts then either, while it is paused)"),
        RolloutState::Running | RolloutState::Completed | RolloutState::Aborted => until,
    }
}

/// Why nothing starts in the whole tenant, and what ends that.
pub(in crate::cli) fn frozen_in_words(Frozen { reason, by, since }: &Frozen) -> String {
    format!(
        "{by} froze the fleet at {}, so nothing starts until `better-compute fleet unfreeze`: {reason}",
        second(*since)
    )
}

/// `; soaking until …`, where a wave does.
pub(super) fn soak_in_words(rollout: &Rollout, phase: Phase) -> String {
    match (phase, rollout.soaks_until) {
        (Phase::Soaking, Some(until)) => {
            format!("; soaking until {}", until_when(rollout.state, until))
        }
        (Phase::Soaking, None) => "; soaking".to_owned(),
        (Phase::Waiting | Phase::Open | Phase::Settled | Phase::Over, _) => String::new(),
    }
}

fn bare_state(rollout: &Rollout) -> String {
    let counts = in_words(&rollout.nodes);
    let version = &rollout.version;
    match (rollout.state, &rollout.reason) {
        (RolloutState::Running, _) => format!("{version} running: {counts}"),
        (RolloutState::Completed, _) => format!("{version} completed: {counts}"),
        (RolloutState::Paused, Some(reason)) => format!("{version} paused ({counts}): {reason}"),
        (RolloutState::Paused, None) => format!("{version} paused: {counts}"),
        (RolloutState::Aborted, Some(reason)) => {
            let paused = rollout.paused_reason.as_ref();
            let paused = paused.map(|paused| format!("; it had paused: {paused}"));
            let paused = paused.unwrap_or_default();
            format!("{version} aborted ({counts}): {reason}{paused}")
        }
        (RolloutState::Aborted, None) => format!("{version} aborted: {counts}"),
    }
}

/// `3 succeeded, 1 failed`: what there is of each state, in the order in which a node goes through them.
pub(super) fn in_words(counts: &RowCounts) -> String {
    let words: Vec<String> = by_name(counts)
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    if words.is_empty() {
        "no nodes".to_owned()
    } else {
        words.join(", ")
    }
}

fn by_name(counts: &RowCounts) -> [(&'static str, u32); 7] {
    [
        ("succeeded", counts.succeeded),
        ("failed", counts.failed),
        ("skipped", counts.skipped),
        ("rolled back", counts.rolled_back),
        ("rolling back", counts.rolling_back),
        ("upgrading", counts.upgrading),
        ("pending", counts.pending),
    ]
}

/// All nodes.
pub(super) fn total(counts: &RowCounts) -> u32 {
    by_name(counts)
        .iter()
        .fold(0, |sum, (_, count)| sum.saturating_add(*count))
}

/// The nodes to which nothing more happens.
pub(super) fn settled(counts: &RowCounts) -> u32 {
    [
        counts.succeeded,
        counts.failed,
        counts.skipped,
        counts.rolled_back,
    ]
    .iter()
    .fold(0, |sum, count| sum.saturating_add(*count))
}

fn count(counts: &mut RowCounts, state: RowState) {
    let place = match state {
        RowState::Pending => &mut counts.pending,
        RowState::Upgrading => &mut counts.upgrading,
        RowState::Succeeded => &mut counts.succeeded,
        RowState::Failed => &mut counts.failed,
        RowState::Skipped => &mut counts.skipped,
        RowState::RollingBack => &mut counts.rolling_back,
        RowState::RolledBack => &mut counts.rolled_back,
    };
    *place = place.saturating_add(1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::rollouts::sample::{late, rollout};

    fn phases(rollout: &Rollout) -> Vec<Phase> {
        waves(rollout).into_iter().map(|wave| wave.phase).collect()
    }

    #[test]
    fn a_wave_waits_opens_soaks_and_is_over() {
        use Phase::{Open, Over, Settled, Soaking, Waiting};
        for (state, wave, first, second, expected) in [
            ("running", 0, "pending", "pending", [Open, Waiting]),
            ("running", 0, "upgrading", "pending", [Open, Waiting]),
            ("running", 0, "succeeded", "pending", [Soaking, Waiting]),
            ("paused", 0, "failed", "pending", [Settled, Waiting]),
            ("running", 1, "succeeded", "upgrading", [Over, Open]),
            ("running", 1, "succeeded", "succeeded", [Over, Over]),
            ("completed", 1, "succeeded", "succeeded", [Over, Over]),
            ("aborted", 0, "failed", "skipped", [Over, Over]),
        ] {
            let rollout = rollout(state, wave, &[(0, first, None), (1, second, None)]);
            assert_eq!(phases(&rollout), expected, "{state} {first} {second}");
        }
    }

    #[test]
    fn a_wave_soaks_during_a_pause_too() {
        let mut rollout = rollout("paused", 0, &[(0, "succeeded", None), (1, "pending", None)]);
        rollout.soaks_until = Some(rollout.updated_at);
        assert_eq!(phases(&rollout), [Phase::Soaking, Phase::Waiting]);
        assert_eq!(
            state_in_words(&rollout),
            "1.4.0 paused (1 succeeded, 1 pending): wave 1: 1 of 1 failed, more than 0.05; \
             wave 1 soaks until 2026-11-29T21:00:00Z (nothing starts then either, while it is paused)"
        );
    }

    #[test]
    fn a_freeze_says_who_why_since_when_and_how_it_ends() {
        let mut rollout = rollout("running", 0, &[(0, "pending", None)]);
        rollout.frozen = Some(Frozen {
            reason: "incident 7".to_owned(),
            by: "alice".to_owned(),
            since: rollout.updated_at,
        });
        assert_eq!(
            state_in_words(&rollout),
            "1.4.0 running: 1 pending; alice froze the fleet at 2026-11-29T21:00:00Z, so nothing starts until \
             `better-compute fleet unfreeze`: incident 7"
        );
    }

    #[test]
    fn late_nodes_are_waited_for_until_each_has_said_how_it_went() {
        for (states, exit) in [
            (["failed", "pending"], None),
            (["succeeded", "upgrading"], None),
            (["succeeded", "succeeded"], Some(Exit::Done)),
            (["succeeded", "failed"], Some(Exit::RolloutEnded)),
        ] {
            let mut rollout = rollout("completed", 0, &[(0, "failed", None)]);
            rollout.late_nodes = Some(late(&states));
            assert_eq!(late_outcome(&rollout), exit, "{states:?}");
        }
    }

    #[test]
    fn a_fleet_smaller_than_its_waves_has_fewer() {
        let rollout = rollout("running", 0, &[(0, "pending", None)]);
        assert_eq!(waves(&rollout).len(), 1);
    }

    #[test]
    fn the_outcome_is_known_when_nothing_more_happens() {
        let nodes = |state| [(0, state, None)];
        for (state, row, exit) in [
            ("running", "upgrading", None),
            ("paused", "upgrading", Some(Exit::RolloutEnded)),
            ("completed", "succeeded", Some(Exit::Done)),
            ("completed", "skipped", Some(Exit::Done)),
            ("completed", "failed", Some(Exit::RolloutEnded)),
            ("aborted", "rolling-back", None),
            ("aborted", "rolled-back", Some(Exit::RolloutEnded)),
        ] {
            let rollout = rollout(state, 0, &nodes(row));
            assert_eq!(outcome(&rollout), exit, "{state} {row}");
        }
    }
}

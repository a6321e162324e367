//! How far a rollout is, wave by wave, and what changed since one looked last.
//!
//! Takes rollouts as `rollouts.get` gives them, gives counts, phases and sentences. Pure: no clock, no terminal.

use std::collections::BTreeMap;

use bc_protocol::id::NodeId;

use crate::{
    api::rollout::{Rollout, RolloutNode, RolloutState, RowCounts, RowState},
    cli::exit::Exit,
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
            } else {
                Phase::Soaking
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

/// What is worth telling about the step from `before`, or from nothing, to `now`: nodes first, then waves, then the
/// rollout.
pub(super) fn changes(before: Option<&Rollout>, now: &Rollout) -> Vec<String> {
    let mut told = node_changes(before, now);
    told.extend(wave_changes(before, now));
    if before.is_none_or(|before| before.state != now.state || before.reason != now.reason) {
        told.push(state_in_words(now));
    }
    told
}

/// The nodes that need somebody's eye, newly so.
pub(super) fn node_changes(before: Option<&Rollout>, now: &Rollout) -> Vec<String> {
    let known: BTreeMap<&NodeId, &RolloutNode> = before
        .and_then(|before| before.node_list.as_ref())
        .into_iter()
        .flatten()
        .map(|node| (&node.node_id, node))
        .collect();
    now.node_list
        .iter()
        .flatten()
        .filter(|node| {
            known
                .get(&node.node_id)
                .is_none_or(|known| known.state != node.state || known.error != node.error)
        })
        .filter_map(in_trouble)
        .collect()
}

fn in_trouble(node: &RolloutNode) -> Option<String> {
    let what = match node.state {
        RowState::Failed => "failed",
        RowState::Skipped => "was skipped",
        RowState::RolledBack => "is back",
        // An error on a node that is under way is one that it retries after.
        RowState::Upgrading if node.error.is_some() => "tries again",
        RowState::RollingBack if node.error.is_some() => "tries again to go back",
        RowState::Pending | RowState::Upgrading | RowState::RollingBack | RowState::Succeeded => {
            return None;
        }
    };
    Some(match &node.error {
        Some(error) => format!("{} {what}: {error}", node.node_id),
        None => format!("{} {what}", node.node_id),
    })
}

fn wave_changes(before: Option<&Rollout>, now: &Rollout) -> Vec<String> {
    let before = before.map(waves).unwrap_or_default();
    let now = waves(now);
    let of = now.len();
    now.iter()
        .filter(|wave| wave.phase != Phase::Waiting && !before.contains(wave))
        .map(|wave| {
            format!(
                "wave {} of {of}: {}{}",
                wave.number,
                in_words(&wave.counts),
                match wave.phase {
                    Phase::Soaking => "; soaking",
                    Phase::Waiting | Phase::Open | Phase::Over => "",
                }
            )
        })
        .collect()
}

/// The rollout in one line.
pub(super) fn state_in_words(rollout: &Rollout) -> String {
    let counts = in_words(&rollout.nodes);
    let version = &rollout.version;
    match (rollout.state, &rollout.reason) {
        (RolloutState::Running, _) => format!("{version} running: {counts}"),
        (RolloutState::Completed, _) => format!("{version} completed: {counts}"),
        (RolloutState::Paused, Some(reason)) => format!("{version} paused ({counts}): {reason}"),
        (RolloutState::Paused, None) => format!("{version} paused: {counts}"),
        (RolloutState::Aborted, Some(reason)) => format!("{version} aborted ({counts}): {reason}"),
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

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
            } else if Some(index) == last || rollout.state == RolloutState::Paused {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cli::{
        print::{Detail, View},
        sheet::Headers,
    };

    /// A rollout over nodes of these waves and states, and with these errors.
    fn rollout(state: &str, wave: u32, nodes: &[(u32, &str, Option<&str>)]) -> Rollout {
        let mut counts = serde_json::to_value(RowCounts::default()).unwrap();
        let list: Vec<Value> = nodes
            .iter()
            .enumerate()
            .map(|(number, (wave, state, error))| {
                counts[*state] = json!(counts[*state].as_u64().unwrap() + 1);
                json!({
                    "nodeId": format!("node_{number:026}"), "poolId": format!("pool_{:026}", 1),
                    "wave": wave, "state": state, "error": error,
                })
            })
            .collect();
        serde_json::from_value(json!({
            "id": format!("rollout_{:026}", 7), "version": "1.4.0", "state": state,
            "reason": (state == "paused").then_some("wave 1: 1 of 1 failed, more than 0.05"),
            "waves": [10, 50, 100], "wave": wave, "maxFailureRatio": 0.05,
            "soakSeconds": 600, "upgradeTimeoutSeconds": 900, "nodes": counts,
            "createdAt": "2026-11-29T21:00:00.000Z", "updatedAt": "2026-11-29T21:00:00.000Z",
            "createdBy": "alice", "nodeList": list,
        }))
        .unwrap()
    }

    fn phases(rollout: &Rollout) -> Vec<Phase> {
        waves(rollout).into_iter().map(|wave| wave.phase).collect()
    }

    #[test]
    fn a_wave_waits_opens_soaks_and_is_over() {
        use Phase::{Open, Over, Soaking, Waiting};
        for (state, wave, first, second, expected) in [
            ("running", 0, "pending", "pending", [Open, Waiting]),
            ("running", 0, "upgrading", "pending", [Open, Waiting]),
            ("running", 0, "succeeded", "pending", [Soaking, Waiting]),
            ("paused", 0, "failed", "pending", [Over, Waiting]),
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

    #[test]
    fn only_what_changed_is_told() {
        let begin = rollout("running", 0, &[(0, "pending", None), (1, "pending", None)]);
        let started = rollout(
            "running",
            0,
            &[(0, "upgrading", None), (1, "pending", None)],
        );
        let retried = rollout(
            "running",
            0,
            &[
                (0, "upgrading", Some("download: stalled")),
                (1, "pending", None),
            ],
        );
        let failed = rollout(
            "running",
            0,
            &[
                (0, "failed", Some("no-welcome: nobody")),
                (1, "pending", None),
            ],
        );
        let mut paused = failed.clone();
        paused.state = RolloutState::Paused;
        paused.reason = Some("wave 1: 1 of 1 failed".to_owned());
        let states = [begin, started.clone(), started, retried, failed, paused];
        let mut before = None;
        let mut told = Vec::new();
        for state in &states {
            told.extend(changes(before, state));
            before = Some(state);
        }
        insta::assert_snapshot!(told.join("\n"), @r"
        wave 1 of 2: 1 pending
        1.4.0 running: 2 pending
        wave 1 of 2: 1 upgrading
        node_00000000000000000000000000 tries again: download: stalled
        node_00000000000000000000000000 failed: no-welcome: nobody
        wave 1 of 2: 1 failed; soaking
        wave 1 of 2: 1 failed
        1.4.0 paused (1 failed, 1 pending): wave 1: 1 of 1 failed
        ");
    }

    #[test]
    fn people_see_the_waves_and_the_nodes_in_trouble() {
        let rollout = rollout(
            "paused",
            1,
            &[
                (0, "succeeded", None),
                (
                    1,
                    "failed",
                    Some("no-welcome: no gateway welcomed 1.4.0 within 2m"),
                ),
                (1, "succeeded", None),
                (2, "pending", None),
            ],
        );
        insta::assert_snapshot!(
            anstream::adapter::strip_str(&rollout.sheet(Detail::Brief).text(Headers::Shown)).to_string(),
            @r"
        id:               rollout_00000000000000000000000007
        version:          1.4.0
        state:            paused
        reason:           wave 1: 1 of 1 failed, more than 0.05
        wave:             2 of 3
        settled:          3 of 4
        failed:           1
        waves:            10,50,100
        may fail:         0.05
        soak:             10m
        upgrade timeout:  15m
        created:          2026-11-29T21:00:00Z by alice
        updated:          2026-11-29T21:00:00Z

        WAVE  PHASE    NODES  PENDING  UPGRADING  SUCCEEDED  FAILED  SKIPPED  BACK
        1     over     1      0        0          1          0       0        0
        2     over     2      0        0          1          1       0        0
        3     waiting  1      1        0          0          0       0        0

        NODE                             POOL                             WAVE  STATE   FROM  FINISHED  ERROR
        node_00000000000000000000000001  pool_00000000000000000000000001  2     failed  -     -         no-welcome: no gateway welcomed 1.4.0 within 2m
        "
        );
    }

    #[test]
    fn a_list_has_a_line_a_rollout() {
        let rollouts = crate::api::rollout::Rollouts {
            rollouts: vec![rollout(
                "paused",
                1,
                &[(0, "succeeded", None), (1, "failed", None)],
            )],
        };
        insta::assert_snapshot!(
            anstream::adapter::strip_str(&rollouts.sheet(Detail::Wide).text(Headers::Shown)).to_string(),
            @r"
        ID                                  VERSION  STATE   WAVE    SETTLED  FAILED  CREATED               BY     WAVES      REASON
        rollout_00000000000000000000000007  1.4.0    paused  2 of 3  2/2      1       2026-11-29T21:00:00Z  alice  10,50,100  wave 1: 1 of 1 failed, more than 0.05
        "
        );
    }
}

//! What happened to a rollout since one looked last.
//!
//! Takes two of its states, gives sentences. Pure: no clock, no terminal.

use std::collections::BTreeMap;

use bc_protocol::id::NodeId;

use super::progress::{Phase, Wave, in_words, soak_in_words, state_in_words, waves};
use crate::{
    api::rollout::{LateNode, Rollout, RolloutNode, RolloutState, RowState},
    clock::Moment,
};

/// One sentence of what happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// When it was, where control has said so; else it is as one looks.
    pub at: Option<Moment>,
    /// The sentence.
    pub text: String,
}

impl Told {
    fn now(text: String) -> Self {
        Self { at: None, text }
    }
}

/// What is worth telling about the step from `before`, or from nothing, to `now`: nodes first, then waves, then the
/// rollout.
pub(super) fn changes(before: Option<&Rollout>, now: &Rollout) -> Vec<Told> {
    let mut told = node_changes(before, now);
    told.extend(late_changes(before, now));
    told.extend(wave_changes(before, now).into_iter().map(Told::now));
    if before.is_some_and(|before| before.frozen.is_some() && now.frozen.is_none() && is_open(now))
    {
        told.push(Told::now("the fleet is frozen no more".to_owned()));
    }
    if before.is_none_or(|before| moved(before, now)) {
        told.push(Told::now(state_in_words(now)));
    }
    told
}

/// Whether the rollout itself stands otherwise than it did.
fn moved(before: &Rollout, now: &Rollout) -> bool {
    let frozen = now.frozen.is_some() && before.frozen != now.frozen;
    before.state != now.state || before.reason != now.reason || frozen
}

/// Whether nodes may still start.
fn is_open(rollout: &Rollout) -> bool {
    match rollout.state {
        RolloutState::Running | RolloutState::Paused => true,
        RolloutState::Completed | RolloutState::Aborted => false,
    }
}

/// That a wave is over says nothing which its counts have not said.
fn is_news(before: Option<&Wave>, now: &Wave) -> bool {
    let counted = before.is_none_or(|before| before.counts != now.counts);
    let moved = before.is_none_or(|before| before.phase != now.phase);
    match now.phase {
        Phase::Waiting => false,
        Phase::Open | Phase::Soaking => counted || moved,
        Phase::Settled | Phase::Over => counted,
    }
}

/// The nodes that need somebody's eye, newly so.
pub(super) fn node_changes(before: Option<&Rollout>, now: &Rollout) -> Vec<Told> {
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

fn in_trouble(node: &RolloutNode) -> Option<Told> {
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
    let text = match &node.error {
        Some(error) => format!("{} {what}: {error}", node.node_id),
        None => format!("{} {what}", node.node_id),
    };
    Some(Told {
        at: node.finished_at,
        text,
    })
}

/// Late nodes are in no count: each step of one is told.
pub(super) fn late_changes(before: Option<&Rollout>, now: &Rollout) -> Vec<Told> {
    let known = before.and_then(|before| before.late_nodes.as_deref());
    let is_known = |node: &LateNode| {
        known.unwrap_or_default().iter().any(|known| {
            (&known.node_id, known.state, &known.error) == (&node.node_id, node.state, &node.error)
        })
    };
    let news = now
        .late_nodes
        .iter()
        .flatten()
        .filter(|node| !is_known(node));
    news.map(|node| {
        let what = match node.state {
            RowState::Pending => "waits",
            RowState::Upgrading => "is being updated",
            RowState::Succeeded => "succeeded",
            RowState::Failed => "failed",
            RowState::Skipped => "was skipped",
            RowState::RollingBack => "goes back",
            RowState::RolledBack => "is back",
        };
        let error = node.error.iter().map(|error| format!(": {error}"));
        Told {
            at: node.finished_at.or(node.started_at),
            text: format!(
                "late node {} {what}{}",
                node.node_id,
                error.collect::<String>()
            ),
        }
    })
    .collect()
}

fn wave_changes(before: Option<&Rollout>, now: &Rollout) -> Vec<String> {
    let before = before.map(waves).unwrap_or_default();
    let waves = waves(now);
    let of = waves.len();
    waves
        .iter()
        .filter(|wave| {
            is_news(
                before.iter().find(|known| known.number == wave.number),
                wave,
            )
        })
        .map(|wave| {
            format!(
                "wave {} of {of}: {}{}",
                wave.number,
                in_words(&wave.counts),
                soak_in_words(now, wave.phase)
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::freeze::Frozen,
        cli::rollouts::sample::{late, rollout},
    };

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
        let mut frozen = started.clone();
        frozen.frozen = Some(Frozen {
            reason: "incident 7".to_owned(),
            by: "alice".to_owned(),
            since: started.updated_at,
        });
        let states = [
            begin,
            started.clone(),
            frozen.clone(),
            frozen,
            started,
            retried,
            failed,
            paused,
        ];
        let mut before = None;
        let mut told = Vec::new();
        for state in &states {
            told.extend(changes(before, state).into_iter().map(|told| told.text));
            before = Some(state);
        }
        insta::assert_snapshot!(told.join("\n"), @r"
        wave 1 of 2: 1 pending
        1.4.0 running: 2 pending
        wave 1 of 2: 1 upgrading
        1.4.0 running: 1 upgrading, 1 pending; alice froze the fleet at 2026-11-29T21:00:00Z, so nothing starts until `better-compute fleet unfreeze`: incident 7
        the fleet is frozen no more
        node_00000000000000000000000000 tries again: download: stalled
        node_00000000000000000000000000 failed: no-welcome: nobody
        wave 1 of 2: 1 failed; soaking
        1.4.0 paused (1 failed, 1 pending): wave 1: 1 of 1 failed
        ");
    }

    #[test]
    fn every_step_of_a_late_node_is_told_once() {
        let mut completed = rollout("completed", 0, &[(0, "failed", None)]);
        let mut before: Option<Rollout> = None;
        let mut told = Vec::new();
        for state in ["pending", "upgrading", "upgrading", "succeeded"] {
            completed.late_nodes = Some(late(&[state]));
            let new = late_changes(before.as_ref(), &completed);
            told.extend(new.into_iter().map(|told| told.text));
            before = Some(completed.clone());
        }
        insta::assert_snapshot!(told.join("\n"), @r"
        late node node_00000000000000000000000000 waits
        late node node_00000000000000000000000000 is being updated
        late node node_00000000000000000000000000 succeeded
        ");
    }

    #[test]
    fn what_was_before_one_looked_keeps_its_own_time() {
        let mut failed = rollout("running", 0, &[(0, "failed", Some("no-welcome: nobody"))]);
        let at = failed.updated_at;
        let nodes = failed.node_list.iter_mut().flatten();
        nodes.for_each(|node| node.finished_at = Some(at));
        let times: Vec<_> = changes(None, &failed).iter().map(|told| told.at).collect();
        assert_eq!(times, [Some(at), None, None]);
    }
}

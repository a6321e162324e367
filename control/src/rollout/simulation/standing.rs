//! What holds of rows at any time, and what they want of a node: told once more, by nobody's code but this.

use std::collections::{BTreeMap, BTreeSet};

use bc_protocol::{
    id::{AttemptId, NodeId, RolloutId},
    version::Version,
};

use super::{
    check::Broken,
    rows::{RolloutRow, Rows},
};
use crate::{
    api::rollout::{RolloutState, RowCounts, RowState},
    clock::Moment,
    rollout::plan::plan,
};

/// How new a word is, whether it is a late one, and what it says.
type Say<'a> = ((Moment, &'a RolloutId), u8, Option<(Version, AttemptId)>);

impl Rows {
    /// What the next passes over what runs would hold back, and why.
    pub(crate) fn held(&self, now: Moment) -> Vec<String> {
        let running = self.rollouts.values();
        let running = running.filter(|rollout| rollout.head.state == RolloutState::Running);
        running
            .filter_map(|rollout| self.snapshot(&rollout.terms.id, Moment::from_millis(0)))
            .flat_map(|snapshot| plan(&snapshot, now).held)
            .map(|held| format!("{:?}: {:?}", held.node, held.hold))
            .collect()
    }

    /// What holds at any time.
    pub(crate) fn check(&self) -> Broken {
        self.check_counts()
            .or_else(|| self.check_places())
            .or_else(|| self.check_memberships())
    }

    /// I24, I32
    fn check_counts(&self) -> Broken {
        for (id, rollout) in &self.rollouts {
            let mut counted = vec![RowCounts::default(); rollout.waves.len()];
            for row in &rollout.rows {
                let wave = usize::try_from(row.wave)
                    .ok()
                    .and_then(|wave| counted.get_mut(wave));
                if let Some(wave) = wave {
                    wave.add(row.state, 1);
                }
            }
            let kept = rollout.waves.iter().map(|wave| wave.rows);
            if !kept.eq(counted.iter().copied()) {
                return Some((
                    "I24",
                    format!(
                        "{id} counts {:?} where its rows are {counted:?}",
                        rollout.waves
                    ),
                ));
            }
            let flies = counted
                .iter()
                .any(|wave| wave.upgrading + wave.rolling_back > 0);
            let waits = counted.iter().any(|wave| wave.pending > 0);
            let over = match rollout.head.state {
                RolloutState::Completed => flies || waits,
                RolloutState::Aborted => waits,
                RolloutState::Running | RolloutState::Paused => false,
            };
            if over {
                return Some((
                    "I32",
                    format!("{id} has ended, and its rows are {counted:?}"),
                ));
            }
        }
        None
    }

    /// I21
    fn check_places(&self) -> Broken {
        for (id, pool) in &self.pools {
            let disrupted = self.disrupted_in(id).len();
            if usize::try_from(pool.disrupted) != Ok(disrupted) {
                return Some((
                    "I21",
                    format!(
                        "{id} counts {} disrupted nodes where there are {disrupted}",
                        pool.disrupted
                    ),
                ));
            }
        }
        let in_waves = self.rollouts.iter().flat_map(|(id, rollout)| {
            let flying = rollout
                .rows
                .iter()
                .filter(|row| matches!(row.state, RowState::Upgrading | RowState::RollingBack));
            flying.map(move |row| (id, &row.node))
        });
        let late = self
            .late
            .iter()
            .filter(|(_, row)| row.state == RowState::Upgrading)
            .map(|((id, node), _)| (id, node));
        for (id, node) in in_waves.chain(late) {
            let removed = self.nodes.get(node).is_none_or(|row| row.removed);
            if !removed && !self.reasons(node).any(|reason| reason == id.as_str()) {
                return Some(("I21", format!("{node} flies in {id} without a place")));
            }
        }
        None
    }

    /// I19
    fn check_memberships(&self) -> Broken {
        let mut members: BTreeMap<&NodeId, &RolloutId> = BTreeMap::new();
        for (id, rollout) in self
            .rollouts
            .iter()
            .filter(|(_, rollout)| rollout.is_under_way())
        {
            for row in &rollout.rows {
                if let Some(other) = members.insert(&row.node, id) {
                    return Some(("I19", format!("{} is in {other} and in {id}", row.node)));
                }
            }
        }
        let mut flying: BTreeSet<&NodeId> = BTreeSet::new();
        let waves = self.rollouts.values().flat_map(|rollout| &rollout.rows);
        let waves = waves
            .filter(|row| matches!(row.state, RowState::Upgrading | RowState::RollingBack))
            .map(|row| &row.node);
        let late = self
            .late
            .iter()
            .filter(|(_, row)| row.state == RowState::Upgrading)
            .map(|((_, node), _)| node);
        for node in waves.chain(late) {
            if !flying.insert(node) {
                return Some(("I19", format!("{node} flies twice")));
            }
        }
        None
    }

    /// I25: rule 7 of specs, told once more. The version and the attempt that a node is to be given.
    pub(crate) fn wanted_of(&self, node: &NodeId) -> Option<(Version, AttemptId)> {
        let mut newest: Option<Say<'_>> = None;
        let mut offer = |age, late: u8, wanted: Option<(Version, AttemptId)>| {
            if newest
                .as_ref()
                .is_none_or(|(best, turn, _)| (*best, *turn) < (age, late))
            {
                newest = Some((age, late, wanted));
            }
        };
        for rollout in self.rollouts.values() {
            let version = &rollout.terms.version;
            for row in rollout.rows.iter().filter(|row| row.node == *node) {
                let wanted = says(row.state, version, row.from.as_ref());
                if let Some(wanted) = wanted {
                    offer(rollout.age(), 0, wanted.zip(row.attempt.clone()));
                }
            }
            if let Some(row) = self.late.get(&(rollout.terms.id.clone(), node.clone()))
                && let Some(wanted) = says(row.state, version, row.from.as_ref())
            {
                offer(rollout.age(), 1, wanted.zip(Some(row.attempt.clone())));
            }
        }
        let (age, _, wanted) = newest?;
        let completed = self.newest_completed(node).map(RolloutRow::age);
        wanted.filter(|_| completed.is_none_or(|completed| completed <= age))
    }
}

/// What a row of that state says, if it has a say: a version, or that nobody knows which.
fn says(state: RowState, version: &Version, from: Option<&Version>) -> Option<Option<Version>> {
    match state {
        RowState::Upgrading | RowState::Succeeded => Some(Some(version.clone())),
        RowState::Failed | RowState::RollingBack | RowState::RolledBack => Some(from.cloned()),
        RowState::Pending | RowState::Skipped => None,
    }
}

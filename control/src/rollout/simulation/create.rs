//! `rollouts.create`, on rows.

use std::{collections::BTreeSet, time::Duration};

use bc_protocol::{
    id::{NodeId, PoolId, RolloutId},
    share::{Percent, Share},
    version::Version,
};

use super::{
    check::Broken,
    rows::{ModelRow, RolloutRow, Rows},
};
use crate::{
    api::rollout::{RolloutState, RowState},
    clock::Moment,
    rollout::{
        plan::first_attempt,
        snapshot::{Head, Scope, Tally, Terms},
        waves,
    },
};

/// What an operator wants.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) id: RolloutId,
    pub(crate) version: Version,
    pub(crate) pools: Option<BTreeSet<PoolId>>,
    pub(crate) nodes: Option<BTreeSet<NodeId>>,
    pub(crate) waves: Vec<Percent>,
    pub(crate) ratio: Share,
    pub(crate) soak: Duration,
    pub(crate) timeout: Duration,
    pub(crate) scope: Scope,
}

/// Why there is no such rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotMade {
    NoRelease,
    OtherVersion,
    Nobody,
    Busy,
}

impl Rows {
    /// Makes a rollout, or finds the one that an equal call made. Tells whose desired state it names at once.
    pub(crate) fn create(&mut self, wanted: &Wanted, at: Moment) -> Result<Vec<NodeId>, NotMade> {
        if let Some(made) = self.rollouts.get(&wanted.id) {
            let same = made.terms.version == wanted.version;
            return if same {
                Ok(Vec::new())
            } else {
                Err(NotMade::OtherVersion)
            };
        }
        let terms = self.terms(wanted)?;
        // Newer than all others, whatever clocks say.
        let newest = self.rollouts.values().map(|other| other.created_at).max();
        let next = newest.map(|newest| newest.plus(Duration::from_millis(1)));
        let at = next.map_or(at, |next| next.max(at));
        let pools = self
            .pools
            .iter()
            .filter(|(_, pool)| !pool.archived)
            .map(|(id, _)| id.clone());
        let pools: BTreeSet<PoolId> = pools
            .filter(|pool| {
                wanted
                    .pools
                    .as_ref()
                    .is_none_or(|listed| listed.contains(pool))
            })
            .collect();
        let rows = self.members(wanted, &terms, &pools, at);
        if rows.is_empty() {
            return Err(NotMade::Nobody);
        }
        let taken = |row: &ModelRow| {
            let others = self.rollouts.values().filter(|other| other.is_under_way());
            others
                .flat_map(|other| &other.rows)
                .any(|theirs| theirs.node == row.node)
        };
        if rows.iter().any(taken) {
            return Err(NotMade::Busy);
        }
        let narrowed = wanted.nodes.is_some();
        if terms.scope == Scope::NotInMaintenance && !narrowed {
            self.left_out(&pools);
        }
        let touched = rows
            .iter()
            .filter(|row| row.state.is_touched())
            .map(|row| row.node.clone())
            .collect();
        self.tell("rollout.started", &wanted.id);
        let rollout = RolloutRow {
            terms,
            revision: 0,
            head: first_head(),
            waves: tallies(&rows, wanted.waves.len()),
            rows,
            pools,
            created_at: at,
            narrowed,
        };
        self.rollouts.insert(wanted.id.clone(), rollout);
        Ok(touched)
    }

    fn terms(&self, wanted: &Wanted) -> Result<Terms, NotMade> {
        let target = self
            .releases
            .get(&wanted.version)
            .ok_or(NotMade::NoRelease)?;
        Ok(Terms {
            id: wanted.id.clone(),
            version: wanted.version.clone(),
            sequence: target.sequence(),
            max_failure_ratio: wanted.ratio,
            soak: wanted.soak,
            timeout: wanted.timeout,
            scope: wanted.scope,
        })
    }

    fn members(
        &self,
        wanted: &Wanted,
        terms: &Terms,
        pools: &BTreeSet<PoolId>,
        at: Moment,
    ) -> Vec<ModelRow> {
        let in_scope = self.nodes.iter().filter(|(id, node)| {
            let passes = terms.scope == Scope::NotInMaintenance && node.maintenance;
            let listed = wanted
                .nodes
                .as_ref()
                .is_none_or(|nodes| nodes.contains(*id));
            !node.removed && !passes && listed && pools.contains(&node.pool)
        });
        let mut nodes: Vec<_> = in_scope.collect();
        nodes.sort_by_cached_key(|(id, _)| waves::sort_key(&wanted.id, id));
        let ends = waves::ends(
            u32::try_from(nodes.len()).unwrap_or(u32::MAX),
            &wanted.waves,
        );
        let row = |(place, (id, node)): (u32, (&NodeId, &super::rows::NodeRow))| {
            let runs = self.facts.get(id).is_some_and(|row| {
                row.facts.version == terms.version
                    && row.facts.sequence == terms.sequence
                    && row.facts.trial.is_none()
            });
            ModelRow {
                node: id.clone(),
                pool: node.pool.clone(),
                wave: waves::wave_at(place, &ends),
                state: if runs {
                    RowState::Succeeded
                } else {
                    RowState::Pending
                },
                from: None,
                attempt: runs.then(|| first_attempt(&wanted.id, id)),
                deadline: None,
                finished: runs.then_some(at),
                trouble: None,
            }
        };
        (0..).zip(nodes).map(row).collect()
    }

    /// Nodes that a new rollout leaves out because they are in maintenance.
    fn left_out(&mut self, pools: &BTreeSet<PoolId>) {
        let nodes = self
            .nodes
            .iter()
            .filter(|(_, node)| node.maintenance && !node.removed && pools.contains(&node.pool));
        let nodes: Vec<NodeId> = nodes.map(|(id, _)| id.clone()).collect();
        for node in nodes {
            self.await_change(&node);
        }
    }

    /// I20, by other means than those that made it.
    pub(crate) fn check_order(&self, id: &RolloutId) -> Broken {
        let rollout = self.rollouts.get(id)?;
        let digest = |row: &ModelRow| {
            bc_protocol::digest::Sha256::of(format!("{id}{}", row.node).as_bytes())
        };
        let sorted = rollout.rows.is_sorted_by_key(|row| *digest(row).as_bytes());
        let rising = rollout.rows.is_sorted_by_key(|row| row.wave);
        let waves: BTreeSet<u32> = rollout.rows.iter().map(|row| row.wave).collect();
        let dense = (0..).zip(&waves).all(|(number, wave)| number == *wave);
        let nodes: BTreeSet<&NodeId> = rollout.rows.iter().map(|row| &row.node).collect();
        let whole = nodes.len() == rollout.rows.len();
        (!(sorted && rising && dense && whole))
            .then(|| ("I20", format!("the waves of {id} are {waves:?}")))
    }
}

fn first_head() -> Head {
    Head {
        state: RolloutState::Running,
        reason: None,
        paused_reason: None,
        wave: 0,
        wave_settled_at: None,
        accepted_failures: 0,
        accepted_untried: false,
        finished_at: None,
    }
}

fn tallies(rows: &[ModelRow], waves: usize) -> Vec<Tally> {
    let mut tallies = vec![Tally::default(); waves];
    for row in rows {
        let wave = usize::try_from(row.wave)
            .ok()
            .and_then(|wave| tallies.get_mut(wave));
        if let Some(tally) = wave {
            tally.rows.add(row.state, 1);
        }
    }
    tallies
}

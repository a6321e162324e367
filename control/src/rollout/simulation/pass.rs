//! Passes and calls on rows, with whatever mistake is planted.
//!
//! A mistake distorts what the planner sees, or what the store writes: as a planner or a store that has it would. The
//! checks look at the rows, and so see what a distorted snapshot hides.

mod planted;

use std::collections::BTreeSet;

use bc_protocol::id::{NodeId, RolloutId};

pub use planted::Planted;

use super::{check::Broken, rows::Rows, write::Refused};
use crate::{
    api::rollout::RowState,
    clock::Moment,
    rollout::{
        late::{self, Lateness},
        limits,
        operator::{self, Call},
        plan::{self, Follow, Plan, Step},
        snapshot::Freeze,
    },
};
use planted::forget_skips;

/// A pass that has been planned, and not yet written.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) plan: Plan,
    idle: bool,
}

/// What a pass left.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    pub(crate) stale: Vec<NodeId>,
    pub(crate) next: Option<Moment>,
    pub(crate) changed: bool,
    pub(crate) broken: Broken,
}

impl Rows {
    /// Plans a pass, by a process that started then.
    pub(crate) fn prepare(
        &self,
        id: &RolloutId,
        (started_at, now): (Moment, Moment),
        planted: Option<Planted>,
    ) -> Option<Prepared> {
        let mut snapshot = self.snapshot(id, started_at)?;
        self.distort(&mut snapshot, planted);
        let mut plan = plan::plan(&snapshot, now);
        let idle = plan.is_idle(&snapshot);
        if planted == Some(Planted::CountsDrift) {
            forget_skips(&mut plan);
        }
        Some(Prepared { plan, idle })
    }

    /// Writes what was planned, and tells what is broken by that.
    pub(crate) fn commit(
        &mut self,
        prepared: Prepared,
        started_at: Moment,
        planted: Option<Planted>,
    ) -> Result<Broken, Refused> {
        let mut plan = prepared.plan;
        if planted == Some(Planted::PauseSeenAtStartOnly)
            && let Some(rollout) = self
                .rollouts
                .get(&plan.rollout)
                .filter(|rollout| rollout.revision != plan.revision)
        {
            // The rows' conditions still hold; only the head is not looked at again.
            plan.revision = rollout.revision;
            plan.head = rollout.head.clone();
            plan.waves.clone_from(&rollout.waves);
            plan.rows
                .retain(|change| matches!(change.step, Step::Start { .. }));
            plan.rows.retain(|change| {
                let place = usize::try_from(change.row.place).unwrap_or(usize::MAX);
                rollout
                    .rows
                    .get(place)
                    .is_some_and(|row| row.state == RowState::Pending)
            });
            for change in &plan.rows {
                let wave = usize::try_from(change.row.wave).unwrap_or(usize::MAX);
                if let Some(tally) = plan.waves.get_mut(wave) {
                    tally.rows.shift(RowState::Pending, RowState::Upgrading, 1);
                }
            }
        }
        let before = self.check_before(&plan, started_at);
        let head = self
            .rollouts
            .get(&plan.rollout)
            .map(|rollout| rollout.head.clone());
        self.apply(&plan)?;
        Ok(before.or_else(|| self.check_after(&plan, head.as_ref())))
    }

    /// One pass over one rollout, as the controller makes it.
    pub(crate) fn pass(
        &mut self,
        id: &RolloutId,
        (started_at, now): (Moment, Moment),
        planted: Option<Planted>,
    ) -> Passed {
        let mut passed = Passed::default();
        for _ in 0..limits::PLANS_PER_PASS_MAX {
            let Some(prepared) = self.prepare(id, (started_at, now), planted) else {
                break;
            };
            let (idle, follow) = (prepared.idle, prepared.plan.follow);
            passed.next = prepared.plan.next.map(|(at, _)| at);
            if idle {
                break;
            }
            passed.stale.extend(prepared.plan.stale.iter().cloned());
            passed.changed = true;
            match self.commit(prepared, started_at, planted) {
                Ok(broken) => passed.broken = passed.broken.take().or(broken),
                Err(refused) => {
                    passed.broken = Some((
                        "I29",
                        format!("a pass in one transaction was refused: {refused:?}"),
                    ));
                    break;
                }
            }
            if follow == Follow::Rest {
                break;
            }
            passed.next = Some(now);
        }
        passed
    }

    /// One pass over one rollout's late nodes.
    pub(crate) fn pass_late(
        &mut self,
        id: &RolloutId,
        (started_at, now): (Moment, Moment),
        planted: Option<Planted>,
    ) -> Passed {
        let mut passed = Passed::default();
        for _ in 0..limits::PLANS_PER_PASS_MAX {
            let Some(mut snapshot) = self.late_snapshot(id, started_at) else {
                break;
            };
            if planted == Some(Planted::LateBesideRunning) {
                for candidate in &mut snapshot.candidates {
                    candidate.disrupted_by = None;
                    candidate.lateness = Lateness::Late;
                }
            }
            if planted == Some(Planted::FreezeIgnored) {
                snapshot.freeze = None;
            }
            let plan = late::plan(&snapshot, now);
            passed.next = plan.next.map(|(at, _)| at);
            if plan.is_idle() {
                break;
            }
            passed.next = Some(now);
            passed.changed = true;
            passed.stale.extend(plan.stale.iter().cloned());
            let before = self.check_late_before(&plan);
            let written = self.apply_late(&plan);
            let refused = written
                .err()
                .map(|refused| ("I29", format!("a late plan was refused: {refused:?}")));
            passed.broken = passed
                .broken
                .take()
                .or(before)
                .or(refused)
                .or_else(|| self.check_late_after(&plan));
            if passed.broken.is_some() {
                break;
            }
        }
        passed
    }

    /// An operator's call, under the lock of a pass. None where the rollout has ended.
    pub(crate) fn call(
        &mut self,
        id: &RolloutId,
        call: &Call,
        (started_at, now): (Moment, Moment),
        planted: Option<Planted>,
    ) -> Option<Passed> {
        let snapshot = self.snapshot(id, started_at)?;
        let plan = operator::plan(&snapshot, call, "alice", now).ok()?;
        let head = self.rollouts.get(id).map(|rollout| rollout.head.clone());
        let before = self.settled(id);
        self.apply(&plan).ok()?;
        if let (Some(Planted::SucceededRolledBack), Call::Abort { .. }) = (planted, call) {
            self.roll_back_succeeded(id, now);
        }
        let moved = before.difference(&self.settled(id)).next().cloned();
        let moved = moved.map(|(node, state)| {
            let what = format!("{node} was {state}, and a call has changed that");
            ("I33", what)
        });
        Some(Passed {
            broken: self.check_after(&plan, head.as_ref()).or(moved),
            stale: plan.stale,
            next: None,
            changed: true,
        })
    }

    /// `fleet.freeze` and `fleet.unfreeze`
    pub(crate) fn freeze(&mut self, word: Option<Freeze>) {
        self.freeze = match (word, self.freeze.take()) {
            (Some(word), Some(before)) => Some(Freeze {
                since: before.since,
                ..word
            }),
            (word, None) => word,
            (None, Some(_)) => None,
        };
    }

    /// Rows that nothing may change any more.
    fn settled(&self, id: &RolloutId) -> BTreeSet<(NodeId, &'static str)> {
        let rows = self.rollouts.get(id).into_iter();
        rows.flat_map(|rollout| &rollout.rows)
            .filter(|row| {
                matches!(
                    row.state,
                    RowState::Succeeded
                        | RowState::Failed
                        | RowState::Skipped
                        | RowState::RolledBack
                )
            })
            .map(|row| (row.node.clone(), row.state.word()))
            .collect()
    }
}

//! Plans, written to rows as the store writes them.

use bc_protocol::id::RolloutId;

use super::rows::{ModelRow, Rows, Turn};
use crate::{
    api::rollout::{RolloutState, RowState},
    clock::Moment,
    rollout::{
        plan::{PlaceMove, Plan, Step},
        snapshot::Trouble,
    },
};

/// A plan from another revision, or one that names a row as it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Stale,
    Row,
}

impl Rows {
    /// Writes a plan, or nothing.
    pub(crate) fn apply(&mut self, plan: &Plan) -> Result<(), Refused> {
        let completes = self.write_rows(plan)?;
        if completes {
            self.completed(&plan.rollout);
        }
        let reason = plan.rollout.as_str();
        for place in &plan.places {
            match place {
                PlaceMove::Occupy(node, pool) => self.occupy(node, pool, reason),
                PlaceMove::Vacate(node) => self.vacate(node, reason),
            }
        }
        for event in &plan.events {
            self.tell(event.kind, &plan.rollout);
        }
        Ok(())
    }

    /// Tells whether the rollout completes.
    fn write_rows(&mut self, plan: &Plan) -> Result<bool, Refused> {
        let rollout = self.rollouts.get_mut(&plan.rollout).ok_or(Refused::Stale)?;
        if rollout.revision != plan.revision {
            return Err(Refused::Stale);
        }
        let mut unheard = Vec::new();
        for change in &plan.rows {
            let place = usize::try_from(change.row.place).unwrap_or(usize::MAX);
            let row = rollout.rows.get_mut(place).ok_or(Refused::Row)?;
            if row.state != change.row.state {
                return Err(Refused::Row);
            }
            if let (RowState::Upgrading, Step::Skip(_)) = (row.state, &change.step) {
                unheard.push(row.node.clone());
            }
            step(row, &change.step, plan.at);
        }
        if let Some(trouble) = &plan.sweep {
            for row in rollout
                .rows
                .iter_mut()
                .filter(|row| row.state == RowState::Pending)
            {
                step(row, &Step::Skip(trouble.clone()), plan.at);
            }
        }
        let before = std::mem::replace(&mut rollout.head, plan.head.clone());
        rollout.waves.clone_from(&plan.waves);
        rollout.revision = rollout.revision.saturating_add(1);
        for node in unheard {
            self.await_change(&node);
        }
        Ok(plan.head.state == RolloutState::Completed && before.state != RolloutState::Completed)
    }

    /// Those that a completed rollout brought the release to are not late; those that it passed over are; and all others
    /// of its pools that may be are looked at again.
    fn completed(&mut self, id: &RolloutId) {
        let Some(rollout) = self.rollouts.get(id).filter(|rollout| !rollout.narrowed) else {
            return;
        };
        for row in &rollout.rows {
            let removed = self.nodes.get(&row.node).is_none_or(|node| node.removed);
            if row.state == RowState::Skipped && !removed {
                self.candidates.insert(row.node.clone(), Turn::Ready);
            }
            if row.state != RowState::Skipped {
                self.candidates.remove(&row.node);
            }
        }
        for (node, turn) in &mut self.candidates {
            let here = self
                .nodes
                .get(node)
                .is_some_and(|row| rollout.pools.contains(&row.pool));
            let online = self.facts.get(node).is_some_and(|facts| facts.online);
            if here && online {
                *turn = Turn::Ready;
            }
        }
    }
}

fn step(row: &mut ModelRow, step: &Step, at: Moment) {
    let settle = |row: &mut ModelRow, trouble: Option<&Trouble>| {
        row.deadline = None;
        row.finished = Some(at);
        row.trouble = trouble.cloned();
    };
    match step {
        Step::Start {
            from,
            attempt,
            deadline,
        } => {
            row.from = Some(from.clone());
            row.attempt = Some(attempt.clone());
            row.deadline = Some(*deadline);
            row.finished = None;
            row.trouble = None;
        }
        Step::RollBack { attempt, deadline } => {
            row.attempt = Some(attempt.clone());
            row.deadline = Some(*deadline);
            row.finished = None;
            row.trouble = None;
        }
        Step::Show(trouble) => row.trouble.clone_from(trouble),
        Step::Succeed | Step::FinishRollBack => settle(row, None),
        Step::Fail(trouble) | Step::Skip(trouble) => settle(row, Some(trouble)),
    }
    row.state = step.leads_to(row.state);
}

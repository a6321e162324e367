//! What must hold of plans for late nodes.

use bc_protocol::session::Outcome;

use super::{Broken, broken};
use crate::{
    api::rollout::RowState,
    rollout::{late::LatePlan, plan::Step, simulation::rows::Rows, snapshot::Scope},
};

impl Rows {
    /// Of a plan for late nodes, before it is written.
    pub(in crate::rollout::simulation) fn check_late_before(&self, plan: &LatePlan) -> Broken {
        let rollout = self.rollouts.get(&plan.rollout)?;
        for change in &plan.rows {
            let node = &change.row.node;
            if let Step::Start { .. } = change.step {
                let newest = self.newest_completed(node).map(|newest| &newest.terms.id);
                let newer = self
                    .touches(node)
                    .any(|(other, _)| other.age() > rollout.age());
                let found = self
                    .check_startable(node, Scope::NotInMaintenance, plan.rollout.as_str())
                    .or_else(|| {
                        broken(
                            "8.5",
                            || format!("{node} is late for {newest:?}, not for {}", plan.rollout),
                            newest != Some(&plan.rollout) || newer,
                        )
                    });
                if found.is_some() {
                    return found;
                }
            }
            let known = self.late.get(&(plan.rollout.clone(), node.clone()));
            let own = self
                .facts
                .get(node)
                .and_then(|row| row.facts.last_attempt.as_ref());
            let own = own.filter(|own| Some(&own.id) == known.map(|known| &known.attempt));
            let settles =
                matches!(change.step, Step::Succeed) && change.row.state == RowState::Upgrading;
            if settles && own.is_none_or(|own| own.outcome != Outcome::Confirmed) {
                return Some((
                    "I19",
                    format!("the late {node} settles by what is said about another attempt"),
                ));
            }
        }
        None
    }

    /// Of one, once it is written.
    pub(in crate::rollout::simulation) fn check_late_after(&self, plan: &LatePlan) -> Broken {
        let started = plan
            .rows
            .iter()
            .filter(|change| matches!(change.step, Step::Start { .. }));
        self.check_budgets(started.map(|change| &change.row.pool).collect())
    }
}

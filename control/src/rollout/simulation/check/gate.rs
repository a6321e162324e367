//! Whether a rollout that goes on may: too many failures, and a wave that nobody tried, should have paused it.

use std::collections::BTreeSet;

use bc_protocol::id::NodeId;

use super::{Broken, broken};
use crate::{
    api::rollout::{RolloutState, RowState},
    clock::Moment,
    rollout::{
        plan::{Plan, Step},
        simulation::rows::{ModelRow, RolloutRow, Rows},
    },
};

impl Rows {
    /// 8.3.2: what goes on has not failed too often, and somebody has tried it.
    pub(super) fn check_gate(
        &self,
        rollout: &RolloutRow,
        plan: &Plan,
        started_at: Moment,
    ) -> Broken {
        let starts = plan
            .rows
            .iter()
            .any(|change| matches!(change.step, Step::Start { .. }));
        let opens = plan.head.wave > rollout.head.wave
            || (plan.head.state == RolloutState::Completed
                && rollout.head.state != RolloutState::Completed);
        if !(starts || opens) || plan.head.state == RolloutState::Paused {
            return None;
        }
        let open = rollout.head.wave;
        let becomes = |row: &ModelRow, place: u32| {
            let change = plan.rows.iter().find(|change| change.row.place == place);
            let change = change
                .filter(|change| row.state != RowState::Pending || !passes_over(&change.step));
            change.map_or(row.state, |change| change.step.leads_to(row.state))
        };
        let after = (0..)
            .zip(&rollout.rows)
            .map(|(place, row)| (row, becomes(row, place)));
        let states: Vec<_> = after.collect();
        let of_wave = |wanted: RowState| {
            states
                .iter()
                .filter(|(row, state)| row.wave == open && *state == wanted)
                .count()
        };
        let nodes = states
            .iter()
            .filter(|(row, state)| row.wave == open && *state != RowState::Skipped)
            .count();
        let failed =
            of_wave(RowState::Failed) + self.regressed(rollout, (started_at, plan.at)).len();
        let counted = u64::try_from(failed)
            .unwrap_or(u64::MAX)
            .saturating_sub(rollout.head.accepted_failures.into());
        let allowed = u64::from(rollout.terms.max_failure_ratio.millionths())
            .saturating_mul(u64::try_from(nodes).unwrap_or(0));
        let shut = counted > 0 && counted.saturating_mul(1_000_000) > allowed;
        let tried = states
            .iter()
            .any(|(_, state)| *state == RowState::Succeeded)
            || rollout.head.accepted_untried;
        broken(
            "gate",
            || {
                format!(
                    "{counted} of {nodes} nodes of wave {open} have failed at {}, with links {:?}, and the rollout goes on", plan.at, self.context(started_at).links_since
                )
            },
            shut,
        )
        .or_else(|| {
            broken(
                "gate",
                || format!("nobody has tried it in wave {open}, and the rollout goes on"),
                opens && !tried,
            )
        })
    }

    /// Nodes of the open wave that succeeded and went bad.
    fn regressed(
        &self,
        rollout: &RolloutRow,
        (started_at, at): (Moment, Moment),
    ) -> BTreeSet<NodeId> {
        let context = self.context(started_at);
        let mut nodes = self.unsteady(rollout);
        for lost in self.lost(rollout) {
            let away = context.links_since.is_some_and(|links| {
                lost.since
                    .max(links)
                    .plus(std::time::Duration::from_secs(60))
                    <= at
            });
            if away {
                nodes.insert(lost.node);
            }
        }
        nodes
    }
}

/// Who is passed over by the start is passed over after the gate.
fn passes_over(step: &Step) -> bool {
    match step {
        Step::Skip(trouble) => !matches!(
            trouble.code.as_str(),
            "removed" | "archived" | "maintenance"
        ),
        Step::Start { .. }
        | Step::RollBack { .. }
        | Step::Show(_)
        | Step::Succeed
        | Step::FinishRollBack
        | Step::Fail(_) => false,
    }
}

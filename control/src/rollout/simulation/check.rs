//! What must hold of rows, worked out anew: nothing here asks the planner.

mod gate;
mod late;

use std::collections::BTreeSet;

use bc_protocol::{
    id::{NodeId, PoolId, RolloutId},
    session::{Facts, Outcome},
};

use super::rows::{ModelRow, RolloutRow, Rows};
use crate::{
    api::rollout::{RolloutState, RowState},
    clock::Moment,
    rollout::{
        plan::{PlaceMove, Plan, RowChange, Step},
        snapshot::{Head, Scope},
    },
};

/// Which promise is broken, and by what.
pub(crate) type Broken = Option<(&'static str, String)>;

fn broken(promise: &'static str, what: impl FnOnce() -> String, is: bool) -> Broken {
    is.then(|| (promise, what()))
}

impl Rows {
    /// Of a plan, before it is written.
    pub(super) fn check_before(&self, plan: &Plan, started_at: Moment) -> Broken {
        let rollout = self.rollouts.get(&plan.rollout)?;
        for change in &plan.rows {
            let place = usize::try_from(change.row.place).unwrap_or(usize::MAX);
            let row = rollout.rows.get(place)?;
            let found = self
                .check_move(row, &change.step)
                .or_else(|| self.check_facts(rollout, row, &change.step, plan.at))
                .or_else(|| self.check_start(rollout, change, plan))
                .or_else(|| self.check_skip(row, &change.step, (started_at, plan.at)));
            if found.is_some() {
                return found;
            }
        }
        self.check_vacated(plan)
            .or_else(|| self.check_gate(rollout, plan, started_at))
    }

    /// I19, I33
    fn check_move(&self, row: &ModelRow, step: &Step) -> Broken {
        let to = step.leads_to(row.state);
        let allowed = match (row.state, to) {
            (RowState::Pending, RowState::Upgrading | RowState::Skipped)
            | (
                RowState::Upgrading,
                RowState::Upgrading
                | RowState::Succeeded
                | RowState::Failed
                | RowState::Skipped
                | RowState::RollingBack,
            )
            | (
                RowState::RollingBack,
                RowState::RollingBack
                | RowState::RolledBack
                | RowState::Succeeded
                | RowState::Failed,
            ) => true,
            (_, _) => false,
        };
        broken(
            "I19",
            || {
                format!(
                    "{} goes from {} to {}",
                    row.node,
                    row.state.word(),
                    to.word()
                )
            },
            !allowed,
        )
    }

    /// I19: only facts of the row's own attempt settle it.
    fn check_facts(&self, rollout: &RolloutRow, row: &ModelRow, step: &Step, at: Moment) -> Broken {
        let facts = self.facts.get(&row.node).map(|row| &row.facts);
        let own = facts.and_then(|facts| facts.last_attempt.as_ref());
        let own = own.filter(|own| Some(&own.id) == row.attempt.as_ref());
        let confirmed = own.is_some_and(|own| own.outcome == Outcome::Confirmed)
            && facts.is_some_and(|facts| facts.trial.is_none());
        let holds = match step {
            Step::Succeed if row.state == RowState::RollingBack => {
                facts.is_some_and(|facts| facts.floor.sequence() >= rollout.terms.sequence)
            }
            Step::Succeed => {
                confirmed && facts.is_some_and(|facts| facts.version == rollout.terms.version)
            }
            Step::FinishRollBack => {
                confirmed && facts.map(|facts| &facts.version) == row.from.as_ref()
            }
            Step::Fail(trouble) => match trouble.code.as_str() {
                "aborted" => true,
                // There is nothing that it could be told: its floor has passed what it ran.
                "floor" => row.state == RowState::RollingBack,
                "removed" => self.nodes.get(&row.node).is_none_or(|node| node.removed),
                "timeout" => row.deadline.is_some_and(|deadline| deadline <= at),
                _ => own.is_some_and(|own| own.is_final),
            },
            Step::Start { .. } | Step::RollBack { .. } | Step::Show(_) | Step::Skip(_) => true,
        };
        broken(
            "I19",
            || {
                format!(
                    "{} settles by {step:?}, and said {own:?} where its row has {:?}",
                    row.node, row.attempt
                )
            },
            !holds,
        )
    }

    /// I19, I21 to I23, as far as they show before the start.
    fn check_start(&self, rollout: &RolloutRow, change: &RowChange, plan: &Plan) -> Broken {
        let Step::Start { .. } = change.step else {
            return None;
        };
        let node = &change.row.node;
        let runs =
            rollout.head.state == RolloutState::Running && plan.head.state == RolloutState::Running;
        broken(
            "I23",
            || {
                format!(
                    "{node} starts in a rollout that is {:?}",
                    rollout.head.state
                )
            },
            !runs,
        )
        .or_else(|| {
            broken(
                "I22",
                || {
                    format!(
                        "{node} of wave {} starts in wave {}",
                        change.row.wave, rollout.head.wave
                    )
                },
                change.row.wave != rollout.head.wave,
            )
        })
        .or_else(|| self.check_startable(node, rollout.terms.scope, rollout.terms.id.as_str()))
    }

    fn check_startable(&self, node: &NodeId, scope: Scope, by: &str) -> Broken {
        let row = self.nodes.get(node);
        let (removed, maintenance) =
            row.map_or((true, false), |row| (row.removed, row.maintenance));
        let facts = self.facts.get(node);
        let online = facts.is_some_and(|facts| facts.online);
        let held = facts.is_some_and(|facts| facts.facts.held.is_some());
        let elsewhere = self.reasons(node).next().map(str::to_owned);
        let flights = self.flights_of(node);
        let passes = scope == Scope::NotInMaintenance && maintenance;
        broken(
            "I23",
            || format!("{node} starts in a frozen fleet"),
            self.freeze.is_some(),
        )
        .or_else(|| {
            broken(
                "8.3",
                || format!("{node} starts for {by}, and cannot hear it"),
                removed || !online,
            )
        })
        .or_else(|| {
            broken(
                "8.1",
                || format!("{node} starts, and is in maintenance or held"),
                passes || held,
            )
        })
        .or_else(|| {
            broken(
                "I19",
                || format!("{node} starts for {by}, and {elsewhere:?} disrupts it"),
                elsewhere.is_some(),
            )
        })
        .or_else(|| {
            broken(
                "I19",
                || format!("{node} starts for {by}, and flies in {flights:?}"),
                !flights.is_empty(),
            )
        })
    }

    /// 8.3: nobody is passed over whom control could not have seen.
    fn check_skip(
        &self,
        row: &ModelRow,
        step: &Step,
        (started_at, at): (Moment, Moment),
    ) -> Broken {
        let Step::Skip(trouble) = step else {
            return None;
        };
        if trouble.code != "offline" {
            return None;
        }
        let links = self.context(started_at).links_since;
        let since = self.facts.get(&row.node).map(|facts| facts.since);
        let early = links.is_none()
            || at < started_at.plus(std::time::Duration::from_secs(300))
            || since.is_some_and(|since| at.since(since) < super::view::GRACE);
        broken(
            "8.3",
            || format!("{} is passed over, with links {links:?}", row.node),
            early,
        )
    }

    /// I21: a place is free once its node is idle, or away.
    fn check_vacated(&self, plan: &Plan) -> Broken {
        for place in &plan.places {
            let PlaceMove::Vacate(node) = place else {
                continue;
            };
            let settled = plan.rows.iter().find(|change| change.row.node == *node);
            let arrived = settled
                .is_some_and(|change| matches!(change.step, Step::Succeed | Step::FinishRollBack));
            let facts = self.facts.get(node).filter(|facts| facts.online);
            if let Some(facts) = facts.filter(|_| !arrived)
                && works(&facts.facts)
            {
                return Some((
                    "I21",
                    format!(
                        "the place of {node} is given back while it works: {:?}",
                        facts.facts.progress
                    ),
                ));
            }
        }
        None
    }

    /// Of a plan, once it is written.
    pub(super) fn check_after(&self, plan: &Plan, before: Option<&Head>) -> Broken {
        let rollout = self.rollouts.get(&plan.rollout)?;
        let started = plan
            .rows
            .iter()
            .filter(|change| matches!(change.step, Step::Start { .. }));
        let pools: BTreeSet<&PoolId> = started.map(|change| &change.row.pool).collect();
        self.check_budgets(pools)
            .or_else(|| self.check_opening(rollout, plan, before))
    }

    /// I21, with exact numbers.
    fn check_budgets(&self, pools: BTreeSet<&PoolId>) -> Broken {
        for id in pools {
            let row = self.pools.get(id)?;
            let nodes = self
                .nodes
                .values()
                .filter(|node| node.pool == *id && !node.removed)
                .count();
            let nodes = u64::try_from(nodes).unwrap_or(u64::MAX);
            let most = (nodes.saturating_mul(row.share.millionths().into()) / 1_000_000).max(1);
            let disrupted = self.disrupted_in(id).len();
            if u64::try_from(disrupted).unwrap_or(u64::MAX) > most {
                return Some((
                    "I21",
                    format!("{disrupted} nodes of {id} are disrupted where {most} may be"),
                ));
            }
        }
        None
    }

    pub(super) fn disrupted_in(&self, pool: &PoolId) -> BTreeSet<&NodeId> {
        let disrupted = self.disruptions.iter().map(|(node, _)| node);
        disrupted
            .filter(|node| self.nodes.get(*node).is_some_and(|row| row.pool == *pool))
            .collect()
    }

    /// I22
    fn check_opening(&self, rollout: &RolloutRow, plan: &Plan, before: Option<&Head>) -> Broken {
        let before = before?;
        if plan.head.wave == before.wave {
            return Self::check_settled(rollout, plan, before);
        }
        let jumps = plan.head.wave != before.wave.saturating_add(1);
        let past = || rollout.rows.iter().filter(|row| row.wave <= before.wave);
        let unsettled = past().any(|row| {
            matches!(
                row.state,
                RowState::Pending | RowState::Upgrading | RowState::RollingBack
            )
        });
        let started = usize::try_from(before.wave)
            .ok()
            .and_then(|wave| rollout.waves.get(wave))
            .is_some_and(|wave| wave.started > 0);
        // By the clock of whoever saw it settle: rows may have been settled by clocks that show more.
        let rested = match before.wave_settled_at {
            Some(since) => plan.at >= since.plus(rollout.terms.soak),
            None => rollout.terms.soak.is_zero(),
        };
        let tired = started && !rested;
        broken(
            "I22",
            || format!("wave {} opens after {}", plan.head.wave, before.wave),
            jumps || unsettled,
        )
        .or_else(|| {
            broken(
                "I22",
                || {
                    format!(
                        "wave {} opens before the soak of {:?} is over",
                        plan.head.wave, rollout.terms.soak
                    )
                },
                tired,
            )
        })
    }

    /// I22: the soak begins when the wave has settled, and not before.
    fn check_settled(rollout: &RolloutRow, plan: &Plan, before: &Head) -> Broken {
        if plan.head.wave_settled_at == before.wave_settled_at {
            return None;
        }
        let of_wave = rollout.rows.iter().filter(|row| row.wave <= before.wave);
        let settled = of_wave.into_iter().all(|row| {
            !matches!(
                row.state,
                RowState::Pending | RowState::Upgrading | RowState::RollingBack
            )
        });
        let says = plan.head.wave_settled_at;
        broken(
            "I22",
            || format!("wave {} is said to have settled at {says:?}", before.wave),
            !settled || says != Some(plan.at),
        )
    }

    /// Rollouts in which a node flies.
    fn flights_of(&self, node: &NodeId) -> Vec<&RolloutId> {
        let flies = |row: &&ModelRow| {
            row.node == *node && matches!(row.state, RowState::Upgrading | RowState::RollingBack)
        };
        let waves = self
            .rollouts
            .values()
            .filter(|rollout| rollout.rows.iter().any(|row| flies(&row)));
        let late = self
            .late
            .iter()
            .filter(|((_, late), row)| late == node && row.state == RowState::Upgrading);
        waves
            .map(|rollout| &rollout.terms.id)
            .chain(late.map(|((id, _), _)| id))
            .collect()
    }
}

/// Whether a node says that it is at work.
fn works(facts: &Facts) -> bool {
    let ended = facts
        .last_attempt
        .as_ref()
        .filter(|last| last.is_final || last.outcome == Outcome::Confirmed);
    let progress = facts.progress.as_ref().map(|progress| &progress.attempt);
    facts.trial.is_some() || (progress.is_some() && progress != ended.map(|last| &last.id))
}

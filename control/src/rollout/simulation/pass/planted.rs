//! Mistakes of a planner or a store, planted on purpose.
//!
//! Takes what would be seen or written, and distorts it as one that had the mistake would.

use std::collections::BTreeSet;

use bc_protocol::{id::RolloutId, share::Share};

use crate::{
    api::rollout::RowState,
    clock::Moment,
    rollout::{
        budget::Budget,
        plan::{Plan, Step},
        simulation::rows::Rows,
        snapshot::{Node, Presence, Snapshot},
    },
};

/// What control can do wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A pool's budget is one place too large.
    BudgetMiscounted,
    /// A node that is disrupted by something else takes no place.
    BudgetForRolloutsOnly,
    /// The gate lets everything through.
    GateOpen,
    /// The gate does not see nodes that succeeded and went bad.
    GateIgnoresRegressions,
    /// A wave that nobody has tried advances.
    UntriedAdvances,
    /// Whether the rollout runs is looked at only when a pass starts.
    PauseSeenAtStartOnly,
    /// A row settles by what is said about any attempt.
    AnyAttemptSettles,
    /// A late node starts whatever else touches it.
    LateBesideRunning,
    /// There is no soak.
    NoSoak,
    /// The next wave opens though this one has not settled.
    WaveUnsettled,
    /// Nodes start in a frozen fleet.
    FreezeIgnored,
    /// Nodes in maintenance start.
    MaintenanceIgnored,
    /// A place is free as soon as its row has settled.
    PlaceGivenBackAtOnce,
    /// The time without links counts.
    TimeWithoutLinksCounts,
    /// A skip is not counted.
    CountsDrift,
    /// Aborting with rollback takes succeeded nodes back too.
    SucceededRolledBack,
    /// Nodes start that cannot be reached.
    OfflineStarted,
}

impl Rows {
    /// What the planner sees instead.
    pub(super) fn distort(&self, snapshot: &mut Snapshot, planted: Option<Planted>) {
        let Some(planted) = planted else { return };
        match planted {
            Planted::BudgetMiscounted => {
                for (id, pool) in &mut snapshot.pools {
                    if let Some(row) = self.pools.get(id) {
                        pool.budget =
                            Budget::new(row.nodes, row.share, row.disrupted.saturating_sub(1));
                    }
                }
            }
            Planted::BudgetForRolloutsOnly => self.forget_workflows(snapshot),
            Planted::GateOpen => snapshot.terms.max_failure_ratio = Share::ONE,
            Planted::GateIgnoresRegressions => {
                snapshot.lost.clear();
                snapshot.unsteady.clear();
            }
            Planted::UntriedAdvances => snapshot.head.accepted_untried = true,
            Planted::AnyAttemptSettles => {
                for flight in &mut snapshot.flights {
                    let said = flight
                        .node
                        .said
                        .as_mut()
                        .and_then(|said| said.attempt.as_mut());
                    if let Some(said) = said {
                        said.id = flight.attempt.clone();
                    }
                }
            }
            Planted::NoSoak => snapshot.terms.soak = std::time::Duration::ZERO,
            Planted::WaveUnsettled => snapshot.head.wave_settled_at = Some(Moment::from_millis(0)),
            Planted::FreezeIgnored => snapshot.freeze = None,
            Planted::MaintenanceIgnored => {
                for waiting in &mut snapshot.pending {
                    waiting.node.maintenance = false;
                }
            }
            Planted::PlaceGivenBackAtOnce => {
                let flying = snapshot.flights.iter_mut().map(|flight| &mut flight.node);
                let lingering = snapshot
                    .lingering
                    .iter_mut()
                    .map(|lingering| &mut lingering.node);
                flying.chain(lingering).for_each(seems_at_rest);
            }
            Planted::TimeWithoutLinksCounts => {
                snapshot.context.links_since = Some(Moment::from_millis(0));
                snapshot.context.started_at = Moment::from_millis(0);
            }
            Planted::OfflineStarted => {
                for waiting in &mut snapshot.pending {
                    waiting.node.presence = Presence::Online;
                }
            }
            // These distort something else.
            Planted::PauseSeenAtStartOnly
            | Planted::LateBesideRunning
            | Planted::CountsDrift
            | Planted::SucceededRolledBack => {}
        }
    }

    fn forget_workflows(&self, snapshot: &mut Snapshot) {
        for (id, pool) in &mut snapshot.pools {
            let of_rollouts = self.disruptions.iter().filter(|(node, reason)| {
                reason.starts_with("rollout_")
                    && self.nodes.get(node).is_some_and(|row| row.pool == *id)
            });
            let nodes: BTreeSet<_> = of_rollouts.map(|(node, _)| node).collect();
            let disrupted = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
            if let Some(row) = self.pools.get(id) {
                pool.budget = Budget::new(row.nodes, row.share, disrupted);
            }
        }
    }

    /// What an abort does besides.
    pub(super) fn roll_back_succeeded(&mut self, id: &RolloutId, now: Moment) {
        let Some(rollout) = self.rollouts.get_mut(id) else {
            return;
        };
        for row in rollout
            .rows
            .iter_mut()
            .filter(|row| row.state == RowState::Succeeded && row.from.is_some())
        {
            row.state = RowState::RolledBack;
            row.finished = Some(now);
            let wave = usize::try_from(row.wave).unwrap_or(usize::MAX);
            if let Some(tally) = rollout.waves.get_mut(wave) {
                tally
                    .rows
                    .shift(RowState::Succeeded, RowState::RolledBack, 1);
            }
        }
    }
}

/// It is asked when its row has settled, and says that it does nothing.
fn seems_at_rest(node: &mut Node) {
    if let Some(said) = &mut node.said {
        said.working_on = None;
        said.trial = None;
    }
}

/// What a plan forgets to count.
pub(super) fn forget_skips(plan: &mut Plan) {
    let skipped = plan
        .rows
        .iter()
        .filter(|change| matches!(change.step, Step::Skip(_)));
    let waves: Vec<u32> = skipped.map(|change| change.row.wave).collect();
    for wave in waves {
        let wave = usize::try_from(wave).unwrap_or(usize::MAX);
        if let Some(tally) = plan.waves.get_mut(wave) {
            tally.rows.skipped = tally.rows.skipped.saturating_sub(1);
        }
    }
}

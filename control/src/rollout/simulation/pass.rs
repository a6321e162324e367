//! Passes and calls on rows, with whatever mistake is planted.
//!
//! A mistake distorts what the planner sees, or what the store writes: as a planner or a store that has it would. The
//! checks look at the rows, and so see what a distorted snapshot hides.

use std::collections::BTreeSet;

use bc_protocol::{
    id::{NodeId, RolloutId},
    share::Share,
};

use super::{check::Broken, rows::Rows, write::Refused};
use crate::{
    api::rollout::RowState,
    clock::Moment,
    rollout::{
        budget::Budget,
        late::{self, Lateness},
        limits,
        operator::{self, Call},
        plan::{self, Follow, Plan, Step},
        snapshot::{Freeze, Node, Snapshot},
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

    fn distort(&self, snapshot: &mut Snapshot, planted: Option<Planted>) {
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
                    waiting.node.presence = crate::rollout::snapshot::Presence::Online;
                }
            }
            // These distort something else.
            Planted::PauseSeenAtStartOnly
            | Planted::LateBesideRunning
            | Planted::CountsDrift
            | Planted::SucceededRolledBack => {}
        }
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

    fn roll_back_succeeded(&mut self, id: &RolloutId, now: Moment) {
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

fn forget_skips(plan: &mut Plan) {
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

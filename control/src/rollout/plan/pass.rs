//! The order of a pass, and all of it but the start.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bc_protocol::id::{NodeId, PoolId};
use serde_json::{Value, json};

use super::{Event, Follow, Held, PlaceMove, Plan, RowChange, Step, Wakeup};
use crate::{
    api::rollout::RolloutState,
    clock::Moment,
    rollout::{
        gate,
        hold::Hold,
        settle,
        snapshot::{Flight, Lingering, Place, Pool, Row, Snapshot, Tally, Trouble, taken},
    },
};

/// A plan in the making.
pub(in crate::rollout) struct Pass<'a> {
    pub(in crate::rollout) snapshot: &'a Snapshot,
    pub(in crate::rollout) now: Moment,
    pub(in crate::rollout) plan: Plan,
    actor: &'a str,
    /// The pools as this plan leaves them.
    pub(super) pools: BTreeMap<PoolId, Pool>,
    /// Failures of the open wave by code, as this plan leaves them.
    troubles: BTreeMap<String, u32>,
    /// Rows that this plan has settled or started.
    moved: BTreeSet<u32>,
    /// Pools to which this plan gives a place back.
    pub(super) relieved: BTreeSet<PoolId>,
}

impl<'a> Pass<'a> {
    pub(in crate::rollout) fn new(snapshot: &'a Snapshot, now: Moment, actor: &'a str) -> Self {
        let plan = Plan {
            rollout: snapshot.terms.id.clone(),
            revision: snapshot.revision,
            at: now,
            head: snapshot.head.clone(),
            waves: snapshot.waves.clone(),
            rows: Vec::new(),
            sweep: None,
            places: Vec::new(),
            events: Vec::new(),
            stale: Vec::new(),
            held: Vec::new(),
            next: None,
            follow: Follow::Rest,
        };
        Self {
            snapshot,
            now,
            plan,
            actor,
            pools: snapshot.pools.clone(),
            troubles: snapshot.troubles.clone(),
            moved: BTreeSet::new(),
            relieved: BTreeSet::new(),
        }
    }

    pub(super) fn settle(&mut self) {
        let snapshot = self.snapshot;
        for flight in &snapshot.flights {
            self.settle_flight(flight);
        }
        let unseen = snapshot.unseen.deadline;
        self.wake_overdue(unseen.and_then(|at| snapshot.context.overdue_from(at)));
        for lingering in &snapshot.lingering {
            self.let_go(lingering);
        }
        for waiting in &snapshot.pending {
            let pool = self.pools.get(&waiting.row.pool);
            if let Some(trouble) = settle::out_of_scope(&waiting.node, pool, snapshot.terms.scope) {
                self.change(&waiting.row, Step::Skip(trouble));
            }
        }
    }

    fn settle_flight(&mut self, flight: &Flight) {
        let overdue_at = self.snapshot.context.overdue_from(flight.deadline);
        let time = match overdue_at {
            Some(at) if at <= self.now => settle::Time::Over,
            Some(_) | None => settle::Time::Left,
        };
        match settle::judge(flight.row.state, flight, &self.snapshot.terms, time) {
            settle::Verdict::GoesOn => self.wake_overdue(overdue_at),
            settle::Verdict::Shows(trouble) => {
                self.change(&flight.row, Step::Show(trouble));
                self.wake_overdue(overdue_at);
            }
            settle::Verdict::Succeeded => {
                self.land(flight, Step::Succeed);
                self.vacate(&flight.row.node, &flight.row.pool, flight.place);
            }
            settle::Verdict::RolledBack => {
                self.land(flight, Step::FinishRollBack);
                self.vacate(&flight.row.node, &flight.row.pool, flight.place);
            }
            settle::Verdict::Failed(trouble) => {
                self.land(flight, Step::Fail(trouble));
                self.vacate_if_at_rest(flight);
            }
            settle::Verdict::Skipped(trouble) => {
                self.land(flight, Step::Skip(trouble));
                self.vacate_if_at_rest(flight);
            }
        }
    }

    fn wake_overdue(&mut self, at: Option<Moment>) {
        if let Some(at) = at {
            self.wake(at, Wakeup::Overdue);
        }
    }

    /// Ends a flight, or turns it round. Its node is told only if the row asks something else of it now.
    pub(in crate::rollout) fn land(&mut self, flight: &Flight, step: Step) {
        let before = flight.row.state;
        if step.leads_to(before).wants() != before.wants() {
            self.plan.stale.push(flight.row.node.clone());
        }
        self.change(&flight.row, step);
    }

    /// A node that is still at work keeps its place after its row has settled.
    pub(in crate::rollout) fn vacate_if_at_rest(&mut self, flight: &Flight) {
        if settle::is_at_rest(&flight.node, Some(&flight.attempt)) {
            let place = flight.node.place(flight.place);
            self.vacate(&flight.row.node, &flight.row.pool, place);
        } else {
            self.hold(&flight.row.node, Hold::StillAtWork);
        }
    }

    fn let_go(&mut self, lingering: &Lingering) {
        if settle::is_at_rest(&lingering.node, lingering.attempt.as_ref()) {
            let place = lingering.node.place(lingering.place);
            self.vacate(&lingering.node.id, &lingering.pool, place);
        } else {
            self.hold(&lingering.node.id, Hold::StillAtWork);
        }
    }

    fn vacate(&mut self, node: &NodeId, pool: &PoolId, place: Place) {
        self.plan.places.push(PlaceMove::Vacate(node.clone()));
        match place {
            Place::Alone => {
                self.relieved.insert(pool.clone());
                if let Some(pool) = self.pools.get_mut(pool) {
                    pool.budget.give_back();
                }
            }
            Place::Shared => {}
        }
    }

    /// The soak runs from the moment when the wave's last node settles, also in a rollout that is paused.
    pub(super) fn mark_settled(&mut self) {
        let settled = self.open_wave().rows.are_settled();
        if settled && self.plan.head.wave_settled_at.is_none() {
            self.plan.head.wave_settled_at = Some(self.now);
        }
    }

    pub(super) fn gate(&mut self) {
        if self.plan.head.state != RolloutState::Running {
            return;
        }
        let failed = self.failed_or_regressed();
        let shut = self.too_many(failed);
        let waves = self.count_of_waves();
        let untried = self.wave_is_untried() && !self.plan.head.accepted_untried;
        let shut = shut.or_else(|| {
            untried.then(|| gate::Shut::Untried {
                wave: self.plan.head.wave,
                waves,
                failed,
                commonest: gate::commonest(&self.troubles),
            })
        });
        if let Some(shut) = shut {
            let reason = shut.to_string();
            self.plan.head.state = RolloutState::Paused;
            self.plan.head.reason = Some(reason.clone());
            self.publish("rollout.paused", json!({ "reason": reason }));
        }
    }

    /// What the gate says of so many failures in the open wave, beyond those that somebody has accepted.
    pub(in crate::rollout) fn too_many(&self, failed: u32) -> Option<gate::Shut> {
        gate::judge(gate::Wave {
            wave: self.plan.head.wave,
            waves: self.count_of_waves(),
            nodes: self.open_wave().rows.not_skipped(),
            failed,
            accepted: self.plan.head.accepted_failures,
            max: self.snapshot.terms.max_failure_ratio,
            troubles: &self.troubles,
        })
    }

    fn count_of_waves(&self) -> u32 {
        u32::try_from(taken(&self.plan.waves)).unwrap_or(u32::MAX)
    }

    /// Nodes of the open wave that failed, or succeeded and have been away for long or restarted by themselves since.
    pub(in crate::rollout) fn failed_or_regressed(&mut self) -> u32 {
        let snapshot = self.snapshot;
        let mut regressed: BTreeMap<&NodeId, &str> = snapshot
            .unsteady
            .iter()
            .map(|node| (node, "restarted"))
            .collect();
        for lost in &snapshot.lost {
            match snapshot.context.away_from(lost.since) {
                Some(at) if at <= self.now => drop(regressed.insert(&lost.node, "offline")),
                Some(at) => self.wake(at, Wakeup::Lost),
                None => {}
            }
        }
        let mut failed = self.open_wave().rows.failed;
        for code in regressed.into_values() {
            failed = failed.saturating_add(1);
            let nodes = self.troubles.entry(code.to_owned()).or_default();
            *nodes = nodes.saturating_add(1);
        }
        failed
    }

    /// Whether the open wave has settled before anything has succeeded.
    pub(in crate::rollout) fn wave_is_untried(&self) -> bool {
        let succeeded: u32 = self.plan.waves.iter().map(|wave| wave.rows.succeeded).sum();
        self.open_wave().rows.are_settled() && succeeded == 0
    }

    pub(super) fn advance(&mut self) {
        match self.plan.head.state {
            RolloutState::Running => {}
            RolloutState::Aborted => return self.end_abort(),
            RolloutState::Paused | RolloutState::Completed => return,
        }
        let Some(settled_at) = self.plan.head.wave_settled_at else {
            return;
        };
        if self.nodes_after_open_wave() == 0 {
            return self.complete();
        }
        let soak = if self.open_wave().started == 0 {
            Duration::ZERO
        } else {
            self.snapshot.terms.soak
        };
        let until = settled_at.plus(soak);
        if self.now < until {
            self.hold_all(Hold::Soaking { until });
            return self.wake(until, Wakeup::SoakOver);
        }
        self.open_next();
    }

    fn open_next(&mut self) {
        let head = &mut self.plan.head;
        head.wave = head.wave.saturating_add(1);
        head.wave_settled_at = None;
        head.accepted_failures = 0;
        head.accepted_untried = false;
        self.plan.follow = Follow::Again;
        let nodes = self.open_wave().rows.total();
        self.publish("rollout.wave", json!({ "nodes": nodes }));
    }

    fn complete(&mut self) {
        self.plan.head.state = RolloutState::Completed;
        self.plan.head.finished_at = Some(self.now);
        let count = |of: fn(&Tally) -> u32| -> u32 { self.plan.waves.iter().map(of).sum() };
        let data = json!({
            "succeeded": count(|wave| wave.rows.succeeded),
            "failed": count(|wave| wave.rows.failed),
            "skipped": count(|wave| wave.rows.skipped),
        });
        self.publish("rollout.completed", data);
    }

    /// An aborted rollout ends when the last of its nodes is back.
    pub(in crate::rollout) fn end_abort(&mut self) {
        let in_flight: u32 = self
            .plan
            .waves
            .iter()
            .map(|wave| wave.rows.in_flight())
            .sum();
        if in_flight == 0 && self.plan.head.finished_at.is_none() {
            self.plan.head.finished_at = Some(self.now);
        }
    }

    /// Moves a row, and the counters with it.
    pub(in crate::rollout) fn change(&mut self, row: &Row, step: Step) {
        let to = step.leads_to(row.state);
        debug_assert!(to == row.state || row.state.may_become(to));
        if let Some(tally) = wave_of(&mut self.plan.waves, row.wave) {
            tally.rows.shift(row.state, to, 1);
            if let Step::Start { .. } = step {
                tally.started = tally.started.saturating_add(1);
            }
        }
        if let Step::Fail(Trouble { code, .. }) = &step
            && row.wave == self.snapshot.head.wave
        {
            let nodes = self.troubles.entry(code.clone()).or_default();
            *nodes = nodes.saturating_add(1);
        }
        if to != row.state {
            self.moved.insert(row.place);
        }
        self.plan.rows.push(RowChange {
            row: row.clone(),
            step,
        });
    }

    pub(super) fn has_moved(&self, row: &Row) -> bool {
        self.moved.contains(&row.place)
    }

    /// The open wave's counters, as this plan leaves them.
    pub(in crate::rollout) fn open_wave(&self) -> Tally {
        usize::try_from(self.plan.head.wave)
            .ok()
            .and_then(|wave| self.plan.waves.get(wave))
            .copied()
            .unwrap_or_default()
    }

    fn nodes_after_open_wave(&self) -> u32 {
        let open = usize::try_from(self.plan.head.wave).unwrap_or(usize::MAX);
        self.plan
            .waves
            .iter()
            .skip(open.saturating_add(1))
            .map(|wave| wave.rows.total())
            .sum()
    }

    pub(in crate::rollout) fn publish(&mut self, kind: &'static str, data: Value) {
        let mut data = data;
        if let Value::Object(fields) = &mut data {
            fields.insert("version".into(), json!(self.snapshot.terms.version));
            fields.insert("wave".into(), json!(self.plan.head.wave));
        }
        self.plan.events.push(Event {
            kind,
            actor: self.actor.to_owned(),
            data,
        });
    }

    pub(super) fn hold(&mut self, node: &NodeId, hold: Hold) {
        self.plan.held.push(Held {
            node: Some(node.clone()),
            hold,
        });
    }

    pub(super) fn hold_all(&mut self, hold: Hold) {
        self.plan.held.push(Held { node: None, hold });
    }

    /// Notes when time alone will change something; the earliest counts.
    pub(super) fn wake(&mut self, at: Moment, wakeup: Wakeup) {
        let new = (at, wakeup);
        self.plan.next = Some(self.plan.next.map_or(new, |old| old.min(new)));
    }

    pub(in crate::rollout) fn finish(self) -> Plan {
        self.plan
    }
}

fn wave_of(waves: &mut [Tally], wave: u32) -> Option<&mut Tally> {
    waves.get_mut(usize::try_from(wave).ok()?)
}

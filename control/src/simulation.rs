//! Control without a database, a network or a clock, for simulators.
//!
//! Takes what gateways report, what operators call and the time; gives what leaves for gateways. The planner, the
//! planner of late nodes, operators' decisions, the computation of specs and the lives of commands are the shipped ones.
//! Rows and facts are written by a model of the store, which a test holds against the store itself. After every step
//! [`Control::check`] tells what must hold and does not. Compiled for tests and with the feature `simulation`, never into
//! a service.

mod commands;
mod facts;
mod operator;
mod spec;

use bc_protocol::{
    digest::Sha256,
    id::{NodeId, PoolId, RolloutId},
    platform::Platform,
    sequence::Sequence,
    share::Share,
    version::Version,
};

pub use crate::rollout::simulation::pass::Planted as PlannerPlanted;
use crate::{
    api::rollout::RolloutState,
    clock::Moment,
    rollout::{
        simulation::{
            check::Broken,
            pass::{Passed, Prepared},
            rows::Rows,
        },
        target::Target,
    },
};

pub use facts::Followed;
pub use operator::{Order, Word};

/// What control can do wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// In a pass.
    Planner(PlannerPlanted),
    /// What a superseded session says counts.
    SupersededCounts,
    /// An older report of a session counts.
    OlderReportCounts,
    /// Facts of a link that a newer one has replaced count.
    OlderLinkCounts,
    /// The oldest rollout that touched a node decides.
    OldestRolloutDecides,
    /// A newer completed rollout that passed a node over is not looked at.
    CompletedForgotten,
    /// Several commands of a lane are under way.
    LanesIgnored,
    /// A session that is good for upgrades only gets every command.
    UpgradeOnlyGetsEverything,
    /// Equal calls make a rollout each.
    KeyIgnored,
    /// A sequence need not grow.
    OlderSequenceRegistered,
    /// A node's removal is not looked at.
    RemovedStillServed,
}

/// What must never be, and was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which promise is broken.
    pub promise: &'static str,
    /// By what.
    pub what: String,
}

/// How a rollout stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its id.
    pub rollout: RolloutId,
    /// Its state, as the API says it.
    pub state: &'static str,
    /// Whether a pass could still change it.
    pub is_over: bool,
    /// One line about it.
    pub line: String,
}

/// A pass that one process has planned, and that it may yet write.
#[derive(Clone, Debug)]
pub struct Stopped {
    prepared: Prepared,
    changes: u64,
}

/// One control process, as far as its passes depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// When it started, by its own clock, in milliseconds.
    pub started_ms: i64,
    /// What its clock says now.
    pub now_ms: i64,
}

impl Process {
    fn times(self) -> (Moment, Moment) {
        (
            Moment::from_millis(self.started_ms),
            Moment::from_millis(self.now_ms),
        )
    }
}

/// See the module's card.
#[derive(Debug, Default)]
pub struct Control {
    pub(crate) rows: Rows,
    commands: commands::Commands,
    highest: Option<Sequence>,
    /// How often anything was changed.
    changes: u64,
    planted: Option<Planted>,
    violations: Vec<Violation>,
}

/// What a pass left to do.
#[derive(Debug, Default)]
pub struct Round {
    /// Nodes whose desired state may be another now.
    pub stale: Vec<NodeId>,
    /// When time alone will change something, in milliseconds.
    pub next_ms: Option<i64>,
}

impl Control {
    /// An empty database.
    pub fn new(planted: Option<Planted>) -> Self {
        Self {
            planted,
            ..Self::default()
        }
    }

    /// `releases.register`. Tells whether the release is registered now. I18
    pub fn register(&mut self, version: Version, sequence: Sequence, digest: Sha256) -> bool {
        let grows = self.highest.is_none_or(|highest| sequence > highest);
        if !grows && self.planted != Some(Planted::OlderSequenceRegistered) {
            return false;
        }
        if !grows {
            self.note(Some((
                "I18",
                format!("sequence {sequence} follows {:?}", self.highest),
            )));
        }
        self.highest = self.highest.max(Some(sequence));
        let Some(platform) = Platform::from_arch_label("x86_64") else {
            return false;
        };
        let target = Target::new(sequence, [(platform, digest)].into());
        self.rows.releases.insert(version, target);
        true
    }

    /// `pools.create`
    pub fn add_pool(&mut self, pool: PoolId, share: Share) {
        self.rows.add_pool(pool, share);
    }

    /// `nodes.join`
    pub fn join(&mut self, node: NodeId, pool: PoolId, at_ms: i64) {
        self.rows.join(node, pool, Moment::from_millis(at_ms));
    }

    /// Passes over everything that a pass can change, as the controller does.
    pub fn pass_all(&mut self, process: Process) -> Round {
        let mut round = Round::default();
        for id in self.active() {
            let passed = self.rows.pass(&id, process.times(), self.planner_planted());
            self.take(passed, &mut round);
        }
        for id in self.rows.due_late() {
            let passed = self
                .rows
                .pass_late(&id, process.times(), self.planner_planted());
            self.take(passed, &mut round);
        }
        round
    }

    /// Rollouts that a pass can change.
    pub fn active(&self) -> Vec<RolloutId> {
        let holds = |id: &RolloutId| {
            self.rows
                .disruptions
                .iter()
                .any(|(_, reason)| reason == id.as_str())
        };
        let active = self
            .rows
            .rollouts
            .iter()
            .filter(|(id, rollout)| rollout.is_under_way() || rollout.goes_back() || holds(id));
        active.map(|(id, _)| id.clone()).collect()
    }

    /// A process plans a pass over one rollout, and is stopped before it writes.
    pub fn plan(&self, rollout: &RolloutId, process: Process) -> Option<Stopped> {
        let prepared = self
            .rows
            .prepare(rollout, process.times(), self.planner_planted())?;
        Some(Stopped {
            prepared,
            changes: self.changes,
        })
    }

    /// It goes on, and writes what it may: under its locks nothing that counts can have changed, and without them it is
    /// another revision. I29
    pub fn go_on(&mut self, stopped: Stopped, process: Process) -> Round {
        let mut round = Round::default();
        let plan = &stopped.prepared.plan;
        let stale = plan.stale.clone();
        let revision = self
            .rows
            .rollouts
            .get(&plan.rollout)
            .map(|rollout| rollout.revision);
        if revision == Some(plan.revision) && stopped.changes != self.changes {
            return round;
        }
        let planted = self.planner_planted();
        let started_at = Moment::from_millis(process.started_ms);
        if let Ok(broken) = self.rows.commit(stopped.prepared, started_at, planted) {
            let passed = Passed {
                stale,
                broken,
                changed: true,
                ..Passed::default()
            };
            self.take(passed, &mut round);
        }
        round
    }

    /// Looks at everything that must hold at any time, and gives what was broken since the last look.
    pub fn check(&mut self) -> Vec<Violation> {
        let found = self
            .rows
            .check()
            .or_else(|| self.commands.check())
            .or_else(|| self.check_specs());
        self.note(found);
        std::mem::take(&mut self.violations)
    }

    /// How its rollouts stand.
    pub fn rollouts(&self) -> Vec<Standing> {
        let standing = |rollout: &crate::rollout::simulation::rows::RolloutRow| {
            let counts = rollout
                .waves
                .iter()
                .fold(crate::api::rollout::RowCounts::default(), |sum, wave| {
                    sum.plus(wave.rows)
                });
            let is_over = match rollout.head.state {
                RolloutState::Running => false,
                RolloutState::Paused | RolloutState::Completed | RolloutState::Aborted => {
                    counts.in_flight() == 0
                }
            };
            Standing {
                rollout: rollout.terms.id.clone(),
                state: rollout.head.state.word(),
                is_over,
                line: format!(
                    "{} {} wave {} of {} {:?}{}",
                    rollout.terms.version,
                    rollout.head.state.word(),
                    rollout.head.wave.saturating_add(1),
                    rollout.waves.len(),
                    counts,
                    rollout
                        .head
                        .reason
                        .as_ref()
                        .map(|reason| format!(": {reason}"))
                        .unwrap_or_default(),
                ),
            }
        };
        self.rows.rollouts.values().map(standing).collect()
    }

    /// What the next passes over what runs would hold back, and why.
    pub fn held(&self, now_ms: i64) -> Vec<String> {
        self.rows.held(Moment::from_millis(now_ms))
    }

    /// I32: what a node that is online should run by now and does not; nothing where nobody wants anything of it.
    pub fn astray(&self, node: &NodeId) -> Option<String> {
        let facts = self.rows.facts.get(node).filter(|facts| facts.online)?;
        if self.rows.nodes.get(node).is_none_or(|row| row.removed) {
            return None;
        }
        let (version, _) = self.rows.wanted_of(node)?;
        let sequence = self.rows.releases.get(&version)?.sequence();
        let reachable = facts.facts.floor.admits(sequence) && facts.facts.held.is_none();
        let given_up = facts
            .facts
            .last_attempt
            .as_ref()
            .is_some_and(|last| last.is_final);
        (reachable && !given_up && facts.facts.version != version).then(|| {
            format!(
                "{node} runs {} where {version} is wanted of it",
                facts.facts.version
            )
        })
    }

    /// I32: nodes that are still late though nothing is in their way.
    pub fn late_for_ever(&mut self) -> Vec<RolloutId> {
        self.rows.due_late()
    }

    fn take(&mut self, passed: Passed, round: &mut Round) {
        self.changes = self.changes.saturating_add(u64::from(passed.changed));
        round.stale.extend(passed.stale);
        let next = passed.next.map(Moment::millis);
        round.next_ms = [round.next_ms, next].into_iter().flatten().min();
        self.note(passed.broken);
    }

    fn note(&mut self, broken: Broken) {
        self.violations
            .extend(broken.map(|(promise, what)| Violation { promise, what }));
    }

    fn planner_planted(&self) -> Option<PlannerPlanted> {
        match self.planted {
            Some(Planted::Planner(planted)) => Some(planted),
            Some(
                Planted::SupersededCounts
                | Planted::OlderReportCounts
                | Planted::OlderLinkCounts
                | Planted::OldestRolloutDecides
                | Planted::CompletedForgotten
                | Planted::LanesIgnored
                | Planted::UpgradeOnlyGetsEverything
                | Planted::KeyIgnored
                | Planted::OlderSequenceRegistered
                | Planted::RemovedStillServed,
            )
            | None => None,
        }
    }
}

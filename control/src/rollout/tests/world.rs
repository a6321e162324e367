//! A fleet and one rollout in memory. Applies plans as the store does, and checks after every plan what must hold.

use std::{collections::BTreeSet, time::Duration};

use bc_protocol::{
    id::{AttemptId, NodeId, PoolId, RolloutId},
    sequence::{ReleaseFloor, Sequence},
    session::Outcome,
    share::{Percent, Share},
    version::Version,
};

use crate::{
    api::rollout::{RolloutState, RowState},
    clock::Moment,
    rollout::{
        operator::{self, Call},
        plan::{Follow, PlaceMove, Plan, Step, plan},
        snapshot::{
            AttemptSaid, Context, Freeze, Head, Node, Presence, Read, Row, Said, Scope, Tally,
            Terms, Trouble,
        },
        waves,
    },
};

mod checks;
mod view;

/// The old release's sequence, and the new one's.
pub(super) const OLD: (&str, u64) = ("1.0.0", 9);
pub(super) const NEW: (&str, u64) = ("1.1.0", 11);

pub(super) fn version(text: &str) -> Version {
    text.parse().unwrap()
}

pub(super) fn floor(sequence: u64) -> ReleaseFloor {
    ReleaseFloor::starting_at(Sequence::new(sequence).unwrap())
}

/// What the tests vary of a rollout.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) waves: Vec<Percent>,
    pub(super) ratio: Share,
    pub(super) soak: Duration,
    pub(super) timeout: Duration,
}

#[derive(Clone, Debug)]
pub(super) struct ModelPool {
    pub(super) id: PoolId,
    pub(super) share: Share,
    pub(super) archived: bool,
    /// As the store keeps it: moved with the first and last reason of a node.
    pub(super) disrupted: u32,
}

#[derive(Clone, Debug)]
pub(super) struct ModelRow {
    pub(super) row: Row,
    pub(super) attempt: Option<AttemptId>,
    pub(super) from: Option<Version>,
    pub(super) deadline: Option<Moment>,
    pub(super) finished: Option<Moment>,
    pub(super) trouble: Option<Trouble>,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) now: Moment,
    pub(super) terms: Terms,
    pub(super) head: Head,
    pub(super) revision: u64,
    pub(super) tallies: Vec<Tally>,
    pub(super) rows: Vec<ModelRow>,
    pub(super) nodes: Vec<Node>,
    /// When each node last restarted by itself, and the time before.
    pub(super) restarts: Vec<(Option<Moment>, Option<Moment>)>,
    pub(super) pools: Vec<ModelPool>,
    pub(super) disruptions: BTreeSet<(NodeId, String)>,
    pub(super) context: Context,
    pub(super) freeze: Option<Freeze>,
    /// When the wave before the open one had settled and soaked, at the earliest.
    opened_not_before: Moment,
}

impl World {
    /// Pools of that many nodes each; the rollout takes them in turn.
    pub(super) fn new(pools: &[(u32, Share)], setup: &Setup) -> Self {
        let now = Moment::from_millis(1_000_000_000_000);
        let mut world = Self {
            now,
            terms: Terms {
                id: RolloutId::derived(&[b"rollout"]),
                version: version(NEW.0),
                sequence: Sequence::new(NEW.1).unwrap(),
                max_failure_ratio: setup.ratio,
                soak: setup.soak,
                timeout: setup.timeout,
                scope: Scope::NotInMaintenance,
            },
            head: Head {
                state: RolloutState::Running,
                reason: None,
                paused_reason: None,
                wave: 0,
                wave_settled_at: None,
                accepted_failures: 0,
                accepted_untried: false,
                finished_at: None,
            },
            revision: 0,
            tallies: vec![Tally::default(); setup.waves.len()],
            rows: Vec::new(),
            nodes: Vec::new(),
            restarts: Vec::new(),
            pools: Vec::new(),
            disruptions: BTreeSet::new(),
            context: Context {
                started_at: now,
                links_since: Some(now),
                offline_grace: Duration::from_secs(300),
            },
            freeze: None,
            opened_not_before: now,
        };
        for (number, (_, share)) in pools.iter().enumerate() {
            world.pools.push(ModelPool {
                id: PoolId::derived(&[&number.to_be_bytes()]),
                share: *share,
                archived: false,
                disrupted: 0,
            });
        }
        let most = pools.iter().map(|(nodes, _)| *nodes).max().unwrap();
        for turn in 0..most {
            for (pool, (nodes, _)) in pools.iter().enumerate() {
                if turn < *nodes {
                    world.join(pool);
                }
            }
        }
        world.cut(&setup.waves);
        world
    }

    fn join(&mut self, pool: usize) {
        let place = u32::try_from(self.nodes.len()).unwrap();
        let id = NodeId::derived(&[&place.to_be_bytes()]);
        self.nodes.push(Node {
            id: id.clone(),
            removed: false,
            maintenance: false,
            arch: Some("x86_64".to_owned()),
            presence: Presence::Online,
            said: Some(Said {
                version: version(OLD.0),
                floor: floor(OLD.1),
                trial: None,
                working_on: None,
                read: Read::Behind,
                attempt: None,
                held: None,
            }),
        });
        self.restarts.push((None, None));
        self.rows.push(ModelRow {
            row: Row {
                place,
                wave: 0,
                node: id,
                number: place.into(),
                pool: self.pools[pool].id.clone(),
                state: RowState::Pending,
            },
            attempt: None,
            from: None,
            deadline: None,
            finished: None,
            trouble: None,
        });
    }

    fn cut(&mut self, percents: &[Percent]) {
        let ends = waves::ends(u32::try_from(self.rows.len()).unwrap(), percents);
        for row in &mut self.rows {
            row.row.wave = waves::wave_at(row.row.place, &ends);
            self.tallies[row.row.wave as usize]
                .rows
                .add(RowState::Pending, 1);
        }
    }

    pub(super) fn place_of(&self, node: &NodeId) -> usize {
        self.nodes
            .iter()
            .position(|known| known.id == *node)
            .unwrap()
    }

    fn pool(&mut self, id: &PoolId) -> &mut ModelPool {
        self.pools.iter_mut().find(|pool| pool.id == *id).unwrap()
    }

    /// Adds a reason of somebody else, as a workflow would: it asks no budget.
    pub(super) fn disrupt(&mut self, place: usize, reason: &str) {
        let (node, pool) = (
            self.nodes[place].id.clone(),
            self.rows[place].row.pool.clone(),
        );
        self.occupy(&node, &pool, reason);
    }

    pub(super) fn leave_alone(&mut self, place: usize, reason: &str) {
        let node = self.nodes[place].id.clone();
        self.vacate(&node, reason);
    }

    /// Somebody takes the node out of the fleet: its place is given back there and then, whatever row it is in.
    pub(super) fn remove(&mut self, place: usize) {
        let node = self.nodes[place].id.clone();
        self.nodes[place].removed = true;
        let reasons: Vec<String> = self.reasons(&node).into_iter().cloned().collect();
        for reason in reasons {
            self.vacate(&node, &reason);
        }
    }

    fn occupy(&mut self, node: &NodeId, pool: &PoolId, reason: &str) {
        let added = self.disruptions.insert((node.clone(), reason.to_owned()));
        if added && self.reasons(node).len() == 1 {
            self.pool(pool).disrupted += 1;
        }
    }

    fn vacate(&mut self, node: &NodeId, reason: &str) {
        let removed = self.disruptions.remove(&(node.clone(), reason.to_owned()));
        if removed && self.reasons(node).is_empty() {
            let place = self.place_of(node);
            let pool = self.rows[place].row.pool.clone();
            self.pool(&pool).disrupted -= 1;
        }
    }

    /// One pass, as the controller makes it. Gives its plans.
    pub(super) fn pass(&mut self) -> Vec<Plan> {
        let mut plans = Vec::new();
        loop {
            let snapshot = self.snapshot();
            let made = plan(&snapshot, self.now);
            assert_eq!(
                made,
                plan(&snapshot, self.now),
                "I25: equal rows, equal plans"
            );
            let idle = made.is_idle(&snapshot);
            if !idle {
                self.apply(&made).unwrap();
            }
            let follow = made.follow;
            plans.push(made);
            if idle || follow == Follow::Rest {
                let next = plans.last().and_then(|plan| plan.next);
                assert!(
                    next.is_none_or(|(at, _)| at > self.now),
                    "a deadline that has passed is a busy loop"
                );
                return plans;
            }
            assert!(plans.len() < 32, "a pass that does not end");
        }
    }

    /// One call, as the service makes it.
    pub(super) fn call(&mut self, call: &Call) -> Result<Plan, operator::Ended> {
        let plan = operator::plan(&self.snapshot(), call, "alice", self.now)?;
        self.apply(&plan).unwrap();
        Ok(plan)
    }

    /// As the store applies it: under another revision nothing changes.
    pub(super) fn apply(&mut self, plan: &Plan) -> Result<(), Stale> {
        if plan.revision != self.revision {
            return Err(Stale);
        }
        self.check_starts(plan);
        self.revision += 1;
        for change in &plan.rows {
            let row = &mut self.rows[change.row.place as usize];
            let named = Row {
                number: row.row.number,
                ..change.row.clone()
            };
            assert_eq!(row.row, named, "a plan names rows as they are");
            let to = change.step.leads_to(row.row.state);
            let allowed = to == row.row.state || row.row.state.may_become(to);
            assert!(allowed, "I19: {:?} to {to:?}", row.row.state);
            row.row.state = to;
            step(row, &change.step, plan.at);
        }
        if let Some(trouble) = &plan.sweep {
            for row in &mut self.rows {
                if row.row.state == RowState::Pending {
                    row.row.state = RowState::Skipped;
                    row.trouble = Some(trouble.clone());
                    row.finished = Some(plan.at);
                }
            }
        }
        // Places are given back before others are taken in the plan's own order.
        let reason = self.terms.id.to_string();
        for place in &plan.places {
            match place {
                PlaceMove::Occupy(node, pool) => {
                    self.check_budget(node, pool);
                    self.occupy(node, pool, &reason);
                }
                PlaceMove::Vacate(node) => self.vacate(node, &reason),
            }
        }
        if plan.head.wave > self.head.wave {
            self.check_opening(plan);
        }
        self.head = plan.head.clone();
        self.tallies = plan.waves.clone();
        self.check();
        Ok(())
    }

    pub(super) fn restart(&mut self, place: usize) {
        let (last, before) = &mut self.restarts[place];
        *before = last.replace(self.now);
    }

    pub(super) fn said(&mut self, place: usize) -> &mut Said {
        self.nodes[place].said.as_mut().unwrap()
    }

    /// The node reports how its row's attempt stands.
    pub(super) fn report(&mut self, place: usize, outcome: Outcome, is_final: bool, code: &str) {
        let Some(attempt) = self.rows[place].attempt.clone() else {
            return;
        };
        let trouble = (!code.is_empty()).then(|| Trouble::new(code, ""));
        let said = self.said(place);
        said.working_on = (!is_final && outcome != Outcome::Confirmed).then(|| attempt.clone());
        said.attempt = Some(AttemptSaid {
            id: attempt,
            outcome,
            is_final,
            trouble,
        });
    }

    /// The node does what its row asks, and says so.
    pub(super) fn obey(&mut self, place: usize) {
        let state = self.rows[place].row.state;
        let (new_floor, runs) = match state {
            RowState::Upgrading => (floor(NEW.1), version(NEW.0)),
            RowState::RollingBack => (floor(OLD.1), self.rows[place].from.clone().unwrap()),
            RowState::Pending
            | RowState::Succeeded
            | RowState::Failed
            | RowState::Skipped
            | RowState::RolledBack => return,
        };
        let said = self.said(place);
        if said.floor > new_floor {
            return;
        }
        said.version = runs;
        said.floor = said.floor.raised_to(new_floor.sequence());
        said.trial = None;
        self.report(place, Outcome::Confirmed, true, "");
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
        }
        Step::RollBack { attempt, deadline } => {
            row.attempt = Some(attempt.clone());
            row.deadline = Some(*deadline);
            row.trouble = None;
        }
        Step::Show(trouble) => row.trouble = trouble.clone(),
        Step::Succeed | Step::FinishRollBack => settle(row, None),
        Step::Fail(trouble) | Step::Skip(trouble) => settle(row, Some(trouble)),
    }
}

/// A plan from another revision.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stale;

//! Late nodes: those that joined after a rollout, or that it passed over.
//!
//! Takes what is known of the nodes that may be late for one completed rollout, gives a plan for them that leaves its
//! executor no choices. The rollout's own waves and counts stay as they ended. Nodes that cannot go now leave the queue
//! until something happens to them, so that no pass looks at them in vain. Reads no clock and no database.

mod snapshot;

use std::collections::BTreeMap;

use bc_protocol::{
    id::{AttemptId, NodeId, PoolId, RolloutId},
    version::Version,
};

pub(crate) use snapshot::{Candidate, LateRow, LateSnapshot, Lateness, Runs};

use super::{
    budget::Taken,
    hold::Hold,
    plan::{Held, PlaceMove, Step, Wakeup, late_attempt, unstartable},
    settle,
    snapshot::{Flight, Node, Offer, Place, Pool, Presence, Said},
};
use crate::{api::rollout::RowState, clock::Moment};

/// Everything that one pass over late nodes changes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LatePlan {
    /// The rollout.
    pub rollout: RolloutId,
    /// The revision that the plan was made from. Under any other it is refused.
    pub revision: u64,
    /// When it was made.
    pub at: Moment,
    /// Rows that come or change.
    pub rows: Vec<LateChange>,
    /// Nodes that leave the queue.
    pub leave: Vec<(NodeId, Leave)>,
    /// Places that are taken and given back.
    pub places: Vec<PlaceMove>,
    /// Nodes whose desired state may be another now.
    pub stale: Vec<NodeId>,
    /// What does not happen now, and why.
    pub held: Vec<Held>,
    /// When the passing of time alone will change something.
    pub next: Option<(Moment, Wakeup)>,
}

/// A late row that comes or changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LateChange {
    /// The row as it was; one that comes was pending.
    pub row: LateRow,
    /// What reports name.
    pub attempt: AttemptId,
    /// What becomes of it.
    pub step: Step,
}

/// How a node leaves the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Until something happens to it.
    Park,
    /// It is not late, and nothing under way can make it so.
    Forget,
}

impl LatePlan {
    /// Whether it leaves everything as it is.
    pub(crate) fn is_idle(&self) -> bool {
        self.rows.is_empty() && self.leave.is_empty() && self.places.is_empty()
    }
}

/// Plans one pass over the late nodes of a completed rollout.
pub(crate) fn plan(snapshot: &LateSnapshot, now: Moment) -> LatePlan {
    let mut pass = Pass {
        snapshot,
        pools: snapshot.pools.clone(),
        plan: LatePlan {
            rollout: snapshot.terms.id.clone(),
            revision: snapshot.revision,
            at: now,
            rows: Vec::new(),
            leave: Vec::new(),
            places: Vec::new(),
            stale: Vec::new(),
            held: Vec::new(),
            next: None,
        },
    };
    for flight in &snapshot.flights {
        pass.settle(flight);
    }
    for lingering in &snapshot.lingering {
        let attempt = lingering.attempt.as_ref();
        pass.let_go(&lingering.node, attempt, (&lingering.pool, lingering.place));
    }
    pass.start();
    pass.plan
}

/// A plan in the making.
struct Pass<'a> {
    snapshot: &'a LateSnapshot,
    pools: BTreeMap<PoolId, Pool>,
    plan: LatePlan,
}

impl Pass<'_> {
    fn settle(&mut self, flight: &Flight<LateRow>) {
        let overdue_at = self.snapshot.context.overdue_from(flight.deadline);
        let time = match overdue_at {
            Some(at) if at <= self.plan.at => settle::Time::Over,
            Some(_) | None => settle::Time::Left,
        };
        let place = (&flight.row.pool, flight.place);
        let attempt = Some(&flight.attempt);
        match settle::judge(flight.row.state, flight, &self.snapshot.terms, time) {
            settle::Verdict::GoesOn => self.wake_overdue(overdue_at),
            settle::Verdict::Shows(trouble) => {
                self.change(flight, Step::Show(trouble));
                self.wake_overdue(overdue_at);
            }
            settle::Verdict::Succeeded => {
                self.change(flight, Step::Succeed);
                self.vacate(&flight.row.node, place);
            }
            // Nothing rolls a late node back, so this says that it is where it was told to go.
            settle::Verdict::RolledBack => {
                self.change(flight, Step::FinishRollBack);
                self.vacate(&flight.row.node, place);
            }
            settle::Verdict::Failed(trouble) => {
                self.plan.stale.push(flight.row.node.clone());
                self.change(flight, Step::Fail(trouble));
                self.let_go(&flight.node, attempt, place);
            }
            settle::Verdict::Skipped(trouble) => {
                self.plan.stale.push(flight.row.node.clone());
                self.change(flight, Step::Skip(trouble));
                self.let_go(&flight.node, attempt, place);
            }
        }
    }

    fn change(&mut self, flight: &Flight<LateRow>, step: Step) {
        self.plan.rows.push(LateChange {
            row: flight.row.clone(),
            attempt: flight.attempt.clone(),
            step,
        });
    }

    /// A node that is still at work keeps its place after its row has settled.
    fn let_go(
        &mut self,
        node: &Node,
        attempt: Option<&AttemptId>,
        (pool, place): (&PoolId, Place),
    ) {
        if settle::is_at_rest(node, attempt) {
            self.vacate(&node.id, (pool, node.place(place)));
        } else {
            self.hold(&node.id, Hold::StillAtWork);
        }
    }

    fn vacate(&mut self, node: &NodeId, (pool, place): (&PoolId, Place)) {
        self.plan.places.push(PlaceMove::Vacate(node.clone()));
        match place {
            Place::Alone => {
                if let Some(pool) = self.pools.get_mut(pool) {
                    pool.budget.give_back();
                }
            }
            Place::Shared => {}
        }
    }

    fn start(&mut self) {
        if let Some(freeze) = &self.snapshot.freeze {
            let hold = Hold::Frozen(freeze.clone());
            self.plan.held.push(Held { node: None, hold });
            return;
        }
        let snapshot = self.snapshot;
        for candidate in &snapshot.candidates {
            self.consider(candidate);
        }
    }

    fn consider(&mut self, candidate: &Candidate) {
        match candidate.lateness {
            Lateness::Late => {}
            Lateness::Settled => return self.leave(candidate, Leave::Park),
            Lateness::Done => return self.leave(candidate, Leave::Forget),
        }
        let archived = self
            .pools
            .get(&candidate.pool)
            .is_none_or(|pool| pool.archived);
        if candidate.node.removed || archived {
            return self.leave(candidate, Leave::Forget);
        }
        match self.obstacle(candidate) {
            Ok(said) => self.tell(candidate, said),
            Err(Obstacle { hold, stays }) => {
                self.hold(&candidate.node.id, hold);
                match stays {
                    Stays::InQueue => {}
                    Stays::Aside => self.leave(candidate, Leave::Park),
                }
            }
        }
    }

    /// Why a late node does not start now; what it said, if nothing is in its way but the budget.
    fn obstacle<'c>(&self, candidate: &'c Candidate) -> Result<&'c Said, Obstacle> {
        let aside = |hold| Obstacle {
            hold,
            stays: Stays::Aside,
        };
        let node = &candidate.node;
        let said = match (node.presence, &node.said) {
            (Presence::Online, Some(said)) => said,
            // Nobody is online who has said nothing: the next report will tell.
            (Presence::Online, None) => {
                return Err(aside(Hold::Offline {
                    since: self.plan.at,
                    skipped_at: None,
                }));
            }
            (Presence::Offline(since), _) => {
                return Err(aside(Hold::Offline {
                    since,
                    skipped_at: None,
                }));
            }
        };
        if node.maintenance {
            return Err(aside(Hold::Maintenance));
        }
        if let Some(by) = &candidate.disrupted_by {
            return Err(aside(Hold::Disrupted { by: by.clone() }));
        }
        if candidate.runs == Runs::Release {
            return Ok(said);
        }
        if let Offer::Distrusted(refusal) = &self.snapshot.offer {
            return Err(Obstacle {
                hold: Hold::Distrusted {
                    refusal: refusal.clone(),
                },
                stays: Stays::InQueue,
            });
        }
        let bringing = (&self.snapshot.terms.version, &self.snapshot.offer);
        match unstartable(node, said, bringing) {
            Some(trouble) => Err(aside(Hold::Unstartable(trouble))),
            None => Ok(said),
        }
    }

    fn tell(&mut self, candidate: &Candidate, said: &Said) {
        match candidate.runs {
            Runs::Release => self.adopt(candidate),
            Runs::Other => self.tell_to_upgrade(candidate, said.version.clone()),
        }
    }

    /// It is where it should be already: the row only gives it its say.
    fn adopt(&mut self, candidate: &Candidate) {
        self.begin(candidate, |_| Step::Succeed);
    }

    fn tell_to_upgrade(&mut self, candidate: &Candidate, from: Version) {
        let Some(pool) = self.pools.get_mut(&candidate.pool) else {
            return;
        };
        match pool.budget.take() {
            Taken::Place => {}
            Taken::Full => {
                let hold = Hold::Budget {
                    disrupted: pool.budget.disrupted(),
                    max: pool.budget.max(),
                };
                return self.hold(&candidate.node.id, hold);
            }
        }
        let deadline = self.plan.at.plus(self.snapshot.terms.timeout);
        self.begin(candidate, |attempt| Step::Start {
            from,
            attempt,
            deadline,
        });
        let (node, pool) = (candidate.node.id.clone(), candidate.pool.clone());
        self.plan.places.push(PlaceMove::Occupy(node, pool));
        self.wake(deadline, Wakeup::Overdue);
    }

    fn begin(&mut self, candidate: &Candidate, step: impl FnOnce(AttemptId) -> Step) {
        let node = &candidate.node.id;
        let attempt = late_attempt(&self.snapshot.terms.id, node, candidate.tries);
        self.plan.rows.push(LateChange {
            row: LateRow {
                node: node.clone(),
                pool: candidate.pool.clone(),
                state: RowState::Pending,
            },
            attempt: attempt.clone(),
            step: step(attempt),
        });
        self.plan.stale.push(node.clone());
        // A newer rollout may be under way that passes it over.
        self.leave(candidate, Leave::Park);
    }

    fn leave(&mut self, candidate: &Candidate, how: Leave) {
        self.plan.leave.push((candidate.node.id.clone(), how));
    }

    fn hold(&mut self, node: &NodeId, hold: Hold) {
        self.plan.held.push(Held {
            node: Some(node.clone()),
            hold,
        });
    }

    fn wake_overdue(&mut self, at: Option<Moment>) {
        if let Some(at) = at {
            self.wake(at, Wakeup::Overdue);
        }
    }

    /// Notes when time alone will change something; the earliest counts.
    fn wake(&mut self, at: Moment, wakeup: Wakeup) {
        let new = (at, wakeup);
        self.plan.next = Some(self.plan.next.map_or(new, |old| old.min(new)));
    }
}

/// What is in a late node's way.
struct Obstacle {
    hold: Hold,
    stays: Stays,
}

/// Where a late node waits.
enum Stays {
    /// It is looked at again in every pass.
    InQueue,
    /// It is looked at again when something happens to it.
    Aside,
}

#[cfg(test)]
mod tests;

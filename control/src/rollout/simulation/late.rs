//! Late nodes: snapshots of them, and plans for them written.

use bc_protocol::id::{NodeId, RolloutId};

use super::{
    rows::{LateRow, RolloutRow, Rows, Turn},
    write::Refused,
};
use crate::{
    api::rollout::{RolloutState, RowState},
    clock::Moment,
    rollout::{
        late::{self, Candidate, LatePlan, LateSnapshot, Lateness, Leave, Runs},
        limits,
        plan::{PlaceMove, Step},
        snapshot::{Flight, Lingering, Origin},
    },
};

impl Rows {
    /// Completed rollouts whose late nodes a pass can change. Pools that nothing has completed over leave the queue.
    pub(crate) fn due_late(&mut self) -> Vec<RolloutId> {
        let mut due = Vec::new();
        let ready: Vec<NodeId> = self
            .candidates
            .iter()
            .filter(|(_, turn)| **turn == Turn::Ready)
            .map(|(node, _)| node.clone())
            .collect();
        for node in ready {
            match self.newest_completed(&node) {
                Some(rollout) => due.push(rollout.terms.id.clone()),
                None => {
                    self.candidates.insert(node, Turn::Parked);
                }
            }
        }
        for ((rollout, node), row) in &self.late {
            let holds = self.reasons(node).any(|reason| reason == rollout.as_str());
            if row.state == RowState::Upgrading || holds {
                due.push(rollout.clone());
            }
        }
        due.sort();
        due.dedup();
        due
    }

    /// The rollout that a node's pool converges on.
    pub(crate) fn newest_completed(&self, node: &NodeId) -> Option<&RolloutRow> {
        let pool = &self.nodes.get(node)?.pool;
        self.rollouts
            .values()
            .filter(|rollout| {
                rollout.head.state == RolloutState::Completed
                    && !rollout.narrowed
                    && rollout.pools.contains(pool)
            })
            .max_by_key(|rollout| rollout.age())
    }

    /// What a pass over a rollout's late nodes may know.
    pub(crate) fn late_snapshot(&self, id: &RolloutId, started_at: Moment) -> Option<LateSnapshot> {
        let rollout = self.rollouts.get(id)?;
        if rollout.head.state != RolloutState::Completed || rollout.narrowed {
            return None;
        }
        let mut candidates = Vec::new();
        if self.freeze.is_none() {
            for pool in &rollout.pools {
                let room = self.pools.get(pool).map_or(0, |pool| {
                    pool.share
                        .of(pool.nodes)
                        .max(1)
                        .saturating_sub(pool.disrupted)
                });
                let most =
                    usize::try_from(room.saturating_add(limits::LATE_SPARE)).unwrap_or(usize::MAX);
                let ready = self
                    .candidates
                    .iter()
                    .filter(|(_, turn)| **turn == Turn::Ready)
                    .map(|(node, _)| node);
                let here =
                    ready.filter(|node| self.nodes.get(*node).is_some_and(|row| row.pool == *pool));
                let ours = here.filter(|node| {
                    self.newest_completed(node)
                        .is_some_and(|newest| newest.terms.id == *id)
                });
                candidates.extend(
                    ours.take(most)
                        .filter_map(|node| self.candidate(rollout, node)),
                );
            }
        }
        Some(LateSnapshot {
            terms: rollout.terms.clone(),
            revision: rollout.revision,
            pools: self.pools_of(rollout),
            flights: self.late_flights(id),
            lingering: self.late_lingering(id),
            candidates,
            offer: self.offer(rollout),
            freeze: self.freeze.clone(),
            context: self.context(started_at),
        })
    }

    fn candidate(&self, rollout: &RolloutRow, node: &NodeId) -> Option<Candidate> {
        let row = self.nodes.get(node)?;
        let facts = self.facts.get(node);
        let late = self.late.get(&(rollout.terms.id.clone(), node.clone()));
        let runs = facts.is_some_and(|row| {
            row.facts.version == rollout.terms.version
                && row.facts.sequence == rollout.terms.sequence
                && row.facts.trial.is_none()
        });
        Some(Candidate {
            pool: row.pool.clone(),
            lateness: self.lateness(rollout, node),
            tries: late.map_or(0, |late| late.tries),
            disrupted_by: self.reasons(node).next().map(str::to_owned),
            runs: if runs { Runs::Release } else { Runs::Other },
            node: self.node(node)?,
        })
    }

    fn lateness(&self, rollout: &RolloutRow, node: &NodeId) -> Lateness {
        let own = (rollout.terms.id.clone(), node.clone());
        let late = self.late.get(&own).map(|late| late.state);
        let newer = self
            .touches(node)
            .any(|(other, _)| other.age() > rollout.age());
        let same = self
            .touches(node)
            .any(|(other, _)| other.age() == rollout.age());
        let pool = self.nodes.get(node).map(|row| &row.pool);
        let unended = self.rollouts.values().any(|other| {
            other.is_under_way()
                && !other.narrowed
                && pool.is_some_and(|pool| other.pools.contains(pool))
        });
        if !newer && (late == Some(RowState::Pending) || !same) {
            Lateness::Late
        } else if unended {
            Lateness::Settled
        } else {
            Lateness::Done
        }
    }

    /// Rollouts whose row of this node has a say, and that row's state.
    pub(crate) fn touches(&self, node: &NodeId) -> impl Iterator<Item = (&RolloutRow, RowState)> {
        let in_waves = self.rollouts.values().flat_map(move |rollout| {
            let rows = rollout.rows.iter().filter(move |row| row.node == *node);
            rows.map(move |row| (rollout, row.state))
        });
        let late = self.late.iter().filter(move |((_, late), _)| late == node);
        let late =
            late.filter_map(|((rollout, _), row)| Some((self.rollouts.get(rollout)?, row.state)));
        in_waves.chain(late).filter(|(_, state)| state.is_touched())
    }

    fn late_rows(&self, id: &RolloutId) -> impl Iterator<Item = (&NodeId, &LateRow)> {
        let id = id.clone();
        let of_rollout = self
            .late
            .iter()
            .filter(move |((rollout, _), _)| *rollout == id);
        of_rollout.map(|((_, node), row)| (node, row))
    }

    fn late_flights(&self, id: &RolloutId) -> Vec<Flight<late::LateRow>> {
        let flying = self
            .late_rows(id)
            .filter(|(_, row)| row.state == RowState::Upgrading);
        let flight = |(node, row): (&NodeId, &LateRow)| {
            Some(Flight {
                row: late::LateRow {
                    node: node.clone(),
                    pool: row.pool.clone(),
                    state: row.state,
                },
                attempt: row.attempt.clone(),
                from: row.from.clone().map(|version| Origin {
                    version,
                    sequence: None,
                }),
                deadline: row.deadline?,
                shown: row.trouble.clone(),
                place: self.place_of(node, id),
                node: self.node(node)?,
            })
        };
        flying.filter_map(flight).collect()
    }

    fn late_lingering(&self, id: &RolloutId) -> Vec<Lingering> {
        let lingers = |(node, row): &(&NodeId, &LateRow)| {
            row.state != RowState::Upgrading
                && self.reasons(node).any(|reason| reason == id.as_str())
        };
        let lingering = |(node, row): (&NodeId, &LateRow)| {
            Some(Lingering {
                pool: row.pool.clone(),
                attempt: Some(row.attempt.clone()),
                place: self.place_of(node, id),
                node: self.node(node)?,
            })
        };
        self.late_rows(id)
            .filter(lingers)
            .filter_map(lingering)
            .collect()
    }

    /// Writes a plan for late nodes, or nothing.
    pub(crate) fn apply_late(&mut self, plan: &LatePlan) -> Result<(), Refused> {
        let rollout = self.rollouts.get_mut(&plan.rollout).ok_or(Refused::Stale)?;
        if rollout.revision != plan.revision {
            return Err(Refused::Stale);
        }
        rollout.revision = rollout.revision.saturating_add(1);
        for change in &plan.rows {
            self.write_late(plan, change)?;
        }
        for (node, leave) in &plan.leave {
            match leave {
                Leave::Park => {
                    if let Some(turn) = self.candidates.get_mut(node) {
                        *turn = Turn::Parked;
                    }
                }
                Leave::Forget => drop(self.candidates.remove(node)),
            }
        }
        let reason = plan.rollout.as_str();
        for place in &plan.places {
            match place {
                PlaceMove::Occupy(node, pool) => self.occupy(node, pool, reason),
                PlaceMove::Vacate(node) => self.vacate(node, reason),
            }
        }
        Ok(())
    }

    fn write_late(&mut self, plan: &LatePlan, change: &late::LateChange) -> Result<(), Refused> {
        let key = (plan.rollout.clone(), change.row.node.clone());
        let known = self.late.get_mut(&key);
        let state = change.step.leads_to(change.row.state);
        if change.row.state == RowState::Pending {
            let tries = known.as_ref().map_or(0, |known| known.tries);
            if known.is_some_and(|known| known.state.is_touched()) {
                return Err(Refused::Row);
            }
            let (from, deadline) = match &change.step {
                Step::Start { from, deadline, .. } => (Some(from.clone()), Some(*deadline)),
                Step::RollBack { .. }
                | Step::Show(_)
                | Step::Succeed
                | Step::FinishRollBack
                | Step::Fail(_)
                | Step::Skip(_) => (None, None),
            };
            let row = LateRow {
                pool: change.row.pool.clone(),
                state,
                tries: tries.saturating_add(1),
                from,
                attempt: change.attempt.clone(),
                finished: deadline.is_none().then_some(plan.at),
                deadline,
                trouble: None,
            };
            self.late.insert(key, row);
            return Ok(());
        }
        let known = known
            .filter(|known| known.state == change.row.state)
            .ok_or(Refused::Row)?;
        match &change.step {
            Step::Show(trouble) => known.trouble.clone_from(trouble),
            Step::Fail(trouble) | Step::Skip(trouble) => {
                (known.deadline, known.finished) = (None, Some(plan.at));
                known.trouble = Some(trouble.clone());
            }
            Step::Start { .. } | Step::RollBack { .. } | Step::Succeed | Step::FinishRollBack => {
                (known.deadline, known.finished) = (None, Some(plan.at));
                known.trouble = None;
            }
        }
        known.state = state;
        if let Step::Skip(_) = change.step {
            self.await_change(&change.row.node);
        }
        Ok(())
    }
}

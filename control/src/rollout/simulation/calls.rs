//! What operators and the rest of the world do, on rows.

use bc_protocol::{
    id::{NodeId, PoolId, RolloutId},
    share::Share,
};

use super::rows::{LateRow, NodeRow, PoolRow, Rows, Turn};
use crate::{
    api::rollout::{RolloutState, RowState},
    clock::Moment,
    rollout::plan::late_attempt,
};

impl Rows {
    /// A pool that nobody is in yet.
    pub(crate) fn add_pool(&mut self, pool: PoolId, share: Share) {
        let row = PoolRow {
            share,
            nodes: 0,
            disrupted: 0,
            archived: false,
        };
        self.pools.insert(pool, row);
    }

    /// A node joins.
    pub(crate) fn join(&mut self, node: NodeId, pool: PoolId, at: Moment) {
        if let Some(pool) = self.pools.get_mut(&pool) {
            pool.nodes = pool.nodes.saturating_add(1);
        }
        let row = NodeRow {
            pool,
            joined_at: at,
            removed: false,
            maintenance: false,
            arch: None,
            ended_seq: 0,
            generation: 1,
            spec: None,
        };
        self.nodes.insert(node.clone(), row);
        self.await_change(&node);
    }

    /// `nodes.remove`
    pub(crate) fn remove(&mut self, node: &NodeId, at: Moment) {
        let Some(row) = self.nodes.get_mut(node).filter(|row| !row.removed) else {
            return;
        };
        row.removed = true;
        let pool = row.pool.clone();
        if let Some(facts) = self.facts.get_mut(node).filter(|facts| facts.online) {
            (facts.online, facts.since) = (false, at);
        }
        self.candidates.remove(node);
        let had = self.reasons(node).next().is_some();
        self.disruptions.retain(|(held, _)| held != node);
        if let Some(pool) = self.pools.get_mut(&pool) {
            pool.nodes = pool.nodes.saturating_sub(1);
            pool.disrupted = pool.disrupted.saturating_sub(u32::from(had));
        }
    }

    /// `nodes.update`
    pub(crate) fn maintain(&mut self, node: &NodeId, maintenance: bool) {
        if let Some(row) = self.nodes.get_mut(node).filter(|row| !row.removed) {
            row.maintenance = maintenance;
            self.look_again(node);
        }
    }

    /// `workflows.create` and its end: the place of one node.
    pub(crate) fn workflow(&mut self, node: &NodeId, id: &str, runs: bool) {
        let Some(row) = self.nodes.get(node).filter(|row| !row.removed) else {
            return;
        };
        let pool = row.pool.clone();
        if runs {
            self.occupy(node, &pool, id);
        } else {
            self.vacate(node, id);
        }
    }

    /// `rollouts.retry`: its failed nodes are tried again, as late ones.
    pub(crate) fn retry(&mut self, id: &RolloutId) -> bool {
        let Some(rollout) = self.rollouts.get(id) else {
            return false;
        };
        if rollout.head.state != RolloutState::Completed || rollout.narrowed {
            return false;
        }
        let key = |node: &NodeId| (id.clone(), node.clone());
        let in_waves = rollout
            .rows
            .iter()
            .filter(|row| row.state == RowState::Failed);
        let in_waves = in_waves.filter(|row| !self.late.contains_key(&key(&row.node)));
        let mut failed: Vec<(NodeId, PoolId)> = in_waves
            .map(|row| (row.node.clone(), row.pool.clone()))
            .collect();
        for ((_, node), row) in self.late.iter().filter(|((late, _), _)| late == id) {
            if row.state == RowState::Failed {
                failed.push((node.clone(), row.pool.clone()));
            }
        }
        for (node, pool) in failed {
            let fresh = LateRow {
                pool,
                state: RowState::Pending,
                tries: 0,
                from: None,
                attempt: late_attempt(id, &node, 0),
                deadline: None,
                finished: None,
                trouble: None,
            };
            let row = self.late.entry((id.clone(), node.clone())).or_insert(fresh);
            row.state = RowState::Pending;
            row.finished = None;
            row.trouble = None;
            self.candidates.insert(node, Turn::Ready);
        }
        true
    }
}

//! What must hold: of a plan before it is applied, and of the rows after it.

use std::collections::BTreeSet;

use bc_protocol::id::{NodeId, PoolId};

use super::World;
use crate::{
    api::rollout::{RolloutState, RowCounts, RowState},
    rollout::plan::{Plan, Step},
};

impl World {
    pub(super) fn check_starts(&self, plan: &Plan) {
        for change in &plan.rows {
            if let Step::Start { .. } = change.step {
                assert_eq!(self.head.state, RolloutState::Running, "I23");
                assert_eq!(self.freeze, None, "I23: frozen");
                assert_eq!(
                    plan.head.state,
                    RolloutState::Running,
                    "I23: nor in the plan that pauses"
                );
                assert_eq!(change.row.wave, self.head.wave, "I22");
                assert!(
                    plan.at >= self.opened_not_before,
                    "I22: before the soak was over"
                );
                let node = &self.nodes[change.row.place as usize];
                assert!(node.is_online() && !node.removed, "nobody hears this");
                assert!(self.reasons(&node.id).is_empty(), "I19: disrupted already");
            }
            if let Step::RollBack { .. } = change.step {
                assert_eq!(change.row.state, RowState::Upgrading, "I33");
            }
        }
    }

    pub(super) fn check_budget(&self, node: &NodeId, pool: &PoolId) {
        let pool = self.pools.iter().find(|known| known.id == *pool).unwrap();
        let nodes = self
            .rows
            .iter()
            .zip(&self.nodes)
            .filter(|(row, node)| row.row.pool == pool.id && !node.removed)
            .count();
        let max = (nodes as u64 * u64::from(pool.share.millionths()) / 1_000_000).max(1);
        let disrupted: BTreeSet<&NodeId> = self
            .disruptions
            .iter()
            .map(|(node, _)| node)
            .filter(|node| self.rows[self.place_of(node)].row.pool == pool.id)
            .collect();
        assert!(
            (disrupted.len() as u64) < max,
            "I21: {node} as one more than {max}"
        );
    }

    pub(super) fn check_opening(&mut self, plan: &Plan) {
        assert_eq!(
            plan.head.wave,
            self.head.wave + 1,
            "I22: one wave after the other"
        );
        let wave = self.head.wave;
        let rows = || self.rows.iter().filter(|row| row.row.wave == wave);
        assert!(
            rows().all(|row| !row.row.state.is_in_flight() && row.row.state != RowState::Pending),
            "I22"
        );
        if self.tallies[wave as usize].started > 0 {
            let settled = rows().filter_map(|row| row.finished).max().unwrap();
            assert!(
                plan.at >= settled.plus(self.terms.soak),
                "I22: the soak was not over"
            );
        }
        self.opened_not_before = plan.at;
    }

    /// What holds whenever a plan has been applied.
    pub(in super::super) fn check(&self) {
        for (wave, tally) in self.tallies.iter().enumerate() {
            let mut counted = RowCounts::default();
            for row in self.rows.iter().filter(|row| row.row.wave as usize == wave) {
                counted.add(row.row.state, 1);
            }
            assert_eq!(tally.rows, counted, "I24: wave {wave}");
        }
        for pool in &self.pools {
            let disrupted: BTreeSet<&NodeId> = self
                .disruptions
                .iter()
                .map(|(node, _)| node)
                .filter(|node| self.rows[self.place_of(node)].row.pool == pool.id)
                .collect();
            assert_eq!(
                pool.disrupted as usize,
                disrupted.len(),
                "I21: one place a node"
            );
        }
        for (row, node) in self.rows.iter().zip(&self.nodes) {
            let flies = row.row.state.is_in_flight();
            assert!(
                !flies || node.removed || self.holds_place(&row.row.node),
                "I21: in flight without a place"
            );
            assert_eq!(
                flies,
                row.deadline.is_some() && row.finished.is_none(),
                "a flight has a deadline"
            );
        }
        if self.head.state == RolloutState::Completed {
            assert!(
                self.rows.iter().all(|row| !row.row.state.is_in_flight()),
                "I32"
            );
            assert!(
                self.rows
                    .iter()
                    .all(|row| row.row.state != RowState::Pending),
                "I32"
            );
        }
    }
}

//! The rows that decide, and the few moves that several writers share.

use std::collections::{BTreeMap, BTreeSet};

use bc_protocol::{
    id::{AttemptId, GatewayId, NodeId, PoolId, RolloutId, SessionId},
    session::{Facts, StartId},
    share::Share,
    version::Version,
};

use crate::{
    api::rollout::RowState,
    clock::Moment,
    rollout::{
        snapshot::{Freeze, Head, Tally, Terms, Trouble},
        target::Target,
    },
};

/// The database.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    pub(crate) pools: BTreeMap<PoolId, PoolRow>,
    pub(crate) nodes: BTreeMap<NodeId, NodeRow>,
    pub(crate) facts: BTreeMap<NodeId, FactsRow>,
    pub(crate) gateways: BTreeMap<GatewayId, GatewayRow>,
    pub(crate) releases: BTreeMap<Version, Target>,
    pub(crate) rollouts: BTreeMap<RolloutId, RolloutRow>,
    pub(crate) late: BTreeMap<(RolloutId, NodeId), LateRow>,
    pub(crate) candidates: BTreeMap<NodeId, Turn>,
    pub(crate) disruptions: BTreeSet<(NodeId, String)>,
    pub(crate) freeze: Option<Freeze>,
    /// Types and subjects, in order.
    pub(crate) events: Vec<(&'static str, String)>,
}

#[derive(Clone, Debug)]
pub(crate) struct PoolRow {
    pub(crate) share: Share,
    pub(crate) nodes: u32,
    pub(crate) disrupted: u32,
    pub(crate) archived: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct NodeRow {
    pub(crate) pool: PoolId,
    pub(crate) joined_at: Moment,
    pub(crate) removed: bool,
    pub(crate) maintenance: bool,
    pub(crate) arch: Option<String>,
    pub(crate) ended_seq: u64,
    pub(crate) generation: u64,
    /// What the newest spec names: version, digest, attempt.
    pub(crate) spec: Option<(Version, String, AttemptId)>,
}

#[derive(Clone, Debug)]
pub(crate) struct FactsRow {
    pub(crate) connect_seq: u64,
    pub(crate) report: u64,
    pub(crate) session: SessionId,
    pub(crate) gateway: GatewayId,
    pub(crate) link: u64,
    pub(crate) upgrade_only: bool,
    pub(crate) online: bool,
    pub(crate) since: Moment,
    pub(crate) facts: Facts,
    pub(crate) started: Option<StartId>,
    pub(crate) restarted_at: Option<Moment>,
    pub(crate) restarted_before_at: Option<Moment>,
}

#[derive(Clone, Debug)]
pub(crate) struct GatewayRow {
    pub(crate) link: u64,
    pub(crate) linked: bool,
    pub(crate) linked_since: Moment,
}

#[derive(Clone, Debug)]
pub(crate) struct RolloutRow {
    pub(crate) terms: Terms,
    pub(crate) revision: u64,
    pub(crate) head: Head,
    pub(crate) waves: Vec<Tally>,
    pub(crate) rows: Vec<ModelRow>,
    pub(crate) pools: BTreeSet<PoolId>,
    pub(crate) created_at: Moment,
    pub(crate) narrowed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelRow {
    pub(crate) node: NodeId,
    pub(crate) pool: PoolId,
    pub(crate) wave: u32,
    pub(crate) state: RowState,
    pub(crate) from: Option<Version>,
    pub(crate) attempt: Option<AttemptId>,
    pub(crate) deadline: Option<Moment>,
    pub(crate) finished: Option<Moment>,
    pub(crate) trouble: Option<Trouble>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LateRow {
    pub(crate) pool: PoolId,
    pub(crate) state: RowState,
    pub(crate) tries: u32,
    pub(crate) from: Option<Version>,
    pub(crate) attempt: AttemptId,
    pub(crate) deadline: Option<Moment>,
    pub(crate) finished: Option<Moment>,
    pub(crate) trouble: Option<Trouble>,
}

/// Whether a node that may be late is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Ready,
    Parked,
}

impl RolloutRow {
    /// Which of two is newer: the id tells two of one millisecond apart.
    pub(crate) fn age(&self) -> (Moment, &RolloutId) {
        (self.created_at, &self.terms.id)
    }

    /// Whether it was aborted, and nodes of it are not back yet.
    pub(crate) fn goes_back(&self) -> bool {
        use crate::api::rollout::RolloutState;
        self.head.state == RolloutState::Aborted && self.head.finished_at.is_none()
    }

    pub(crate) fn is_under_way(&self) -> bool {
        use crate::api::rollout::RolloutState;
        match self.head.state {
            RolloutState::Running | RolloutState::Paused => true,
            RolloutState::Completed | RolloutState::Aborted => false,
        }
    }
}

impl Rows {
    pub(crate) fn reasons(&self, node: &NodeId) -> impl Iterator<Item = &str> {
        let from = (node.clone(), String::new());
        let of_node = self
            .disruptions
            .range(from..)
            .take_while(move |(held, _)| held == node);
        of_node.map(|(_, reason)| reason.as_str())
    }

    pub(crate) fn occupy(&mut self, node: &NodeId, pool: &PoolId, reason: &str) {
        let added = self.disruptions.insert((node.clone(), reason.to_owned()));
        if added
            && self.reasons(node).count() == 1
            && let Some(pool) = self.pools.get_mut(pool)
        {
            pool.disrupted = pool.disrupted.saturating_add(1);
        }
    }

    pub(crate) fn vacate(&mut self, node: &NodeId, reason: &str) {
        let had = self.disruptions.remove(&(node.clone(), reason.to_owned()));
        if had && self.reasons(node).count() == 0 {
            let pool = self.nodes.get(node).map(|row| row.pool.clone());
            if let Some(pool) = pool.and_then(|pool| self.pools.get_mut(&pool)) {
                pool.disrupted = pool.disrupted.saturating_sub(1);
            }
            self.look_again(node);
        }
    }

    /// A node that may be late, and that nothing can be done for yet.
    pub(crate) fn await_change(&mut self, node: &NodeId) {
        self.candidates.entry(node.clone()).or_insert(Turn::Parked);
    }

    /// Something has happened to a node that may be late.
    pub(crate) fn look_again(&mut self, node: &NodeId) {
        if let Some(turn) = self.candidates.get_mut(node) {
            *turn = Turn::Ready;
        }
    }

    pub(crate) fn tell(&mut self, kind: &'static str, subject: impl ToString) {
        self.events.push((kind, subject.to_string()));
    }

    /// Whether anything that this rollout did not start disrupts the node too.
    pub(crate) fn place_of(
        &self,
        node: &NodeId,
        rollout: &RolloutId,
    ) -> crate::rollout::snapshot::Place {
        use crate::rollout::snapshot::Place;
        if self.reasons(node).any(|reason| reason != rollout.as_str()) {
            Place::Shared
        } else {
            Place::Alone
        }
    }
}

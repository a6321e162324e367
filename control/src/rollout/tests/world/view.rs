//! The world as a snapshot: the same rows that the store would load.

use std::collections::{BTreeMap, BTreeSet};

use bc_protocol::{
    digest::Sha256,
    id::{NodeId, PoolId},
    platform::Platform,
    sequence::Sequence,
};

use super::{ModelPool, ModelRow, NEW, OLD, World};
use crate::{
    api::rollout::RowState,
    rollout::{
        budget::Budget,
        snapshot::{
            Extent, Flight, Lingering, Lost, Node, Offer, Origin, Place, Pool, Presence, Snapshot,
            Unseen, Waiting,
        },
        target::Target,
    },
};

impl World {
    /// As the store loads it.
    pub(in super::super) fn snapshot(&self) -> Snapshot {
        let target = Target::new(
            self.terms.sequence,
            BTreeMap::from([(
                Platform::from_arch_label("x86_64").unwrap(),
                Sha256::of(NEW.0.as_bytes()),
            )]),
        );
        Snapshot {
            terms: self.terms.clone(),
            revision: self.revision,
            head: self.head.clone(),
            waves: self.tallies.clone(),
            pools: self.pool_views(),
            flights: self.flights(),
            unseen: Unseen::default(),
            pending: self.pending(),
            extent: Extent::Whole,
            lingering: self.lingering(),
            troubles: self.troubles(),
            lost: self.lost(),
            unsteady: self.unsteady(),
            offer: Offer::Good(target),
            freeze: self.freeze.clone(),
            context: self.context,
        }
    }

    fn pool_views(&self) -> BTreeMap<PoolId, Pool> {
        let view = |pool: &ModelPool| {
            let nodes = self
                .rows
                .iter()
                .zip(&self.nodes)
                .filter(|(row, node)| row.row.pool == pool.id && !node.removed)
                .count();
            let budget = Budget::new(u32::try_from(nodes).unwrap(), pool.share, pool.disrupted);
            let archived = pool.archived;
            (pool.id.clone(), Pool { budget, archived })
        };
        self.pools.iter().map(view).collect()
    }

    pub(super) fn reasons(&self, node: &NodeId) -> Vec<&String> {
        self.disruptions
            .iter()
            .filter(|(held, _)| held == node)
            .map(|(_, reason)| reason)
            .collect()
    }

    fn place(&self, node: &NodeId) -> Place {
        let others = |reason: &&String| reason.as_str() != self.terms.id.as_str();
        if self.reasons(node).into_iter().any(|reason| others(&reason)) {
            Place::Shared
        } else {
            Place::Alone
        }
    }

    fn flights(&self) -> Vec<Flight> {
        self.rows
            .iter()
            .zip(&self.nodes)
            .filter(|(row, _)| row.row.state.is_in_flight())
            .map(|(row, node)| Flight {
                row: row.row.clone(),
                attempt: row.attempt.clone().unwrap(),
                from: row.from.clone().map(|version| Origin {
                    sequence: (version == super::version(OLD.0))
                        .then(|| Sequence::new(OLD.1).unwrap()),
                    version,
                }),
                deadline: row.deadline.unwrap(),
                shown: row.trouble.clone(),
                place: self.place(&node.id),
                node: node.clone(),
            })
            .collect()
    }

    fn pending(&self) -> Vec<Waiting> {
        let archived = |pool: &PoolId| {
            self.pools
                .iter()
                .any(|known| known.id == *pool && known.archived)
        };
        let open = |row: &ModelRow| row.row.wave == self.head.wave;
        let leaves = |row: &ModelRow, node: &Node| {
            row.row.wave > self.head.wave
                && (node.removed || node.maintenance || archived(&row.row.pool))
        };
        self.rows
            .iter()
            .zip(&self.nodes)
            .filter(|(row, _)| row.row.state == RowState::Pending)
            .filter(|(row, node)| open(row) || leaves(row, node))
            .map(|(row, node)| Waiting {
                row: row.row.clone(),
                packed: false,
                disrupted_by: self
                    .reasons(&node.id)
                    .first()
                    .map(|reason| (*reason).clone()),
                node: node.clone(),
            })
            .collect()
    }

    fn lingering(&self) -> Vec<Lingering> {
        self.rows
            .iter()
            .zip(&self.nodes)
            .filter(|(row, node)| !row.row.state.is_in_flight() && self.holds_place(&node.id))
            .map(|(row, node)| Lingering {
                pool: row.row.pool.clone(),
                attempt: row.attempt.clone(),
                place: self.place(&node.id),
                node: node.clone(),
            })
            .collect()
    }

    pub(in super::super) fn holds_place(&self, node: &NodeId) -> bool {
        self.disruptions
            .contains(&(node.clone(), self.terms.id.to_string()))
    }

    fn troubles(&self) -> BTreeMap<String, u32> {
        let mut troubles = BTreeMap::new();
        for row in &self.rows {
            if row.row.state == RowState::Failed && row.row.wave == self.head.wave {
                *troubles
                    .entry(row.trouble.clone().unwrap().code)
                    .or_default() += 1;
            }
        }
        troubles
    }

    fn unsteady(&self) -> BTreeSet<NodeId> {
        let mut unsteady = BTreeSet::new();
        for (row, (_, before)) in self.rows.iter().zip(&self.restarts) {
            let since = *before >= row.finished && before.is_some();
            let wave = row.row.wave == self.head.wave;
            if since && wave && row.row.state == RowState::Succeeded {
                unsteady.insert(row.row.node.clone());
            }
        }
        unsteady
    }

    fn lost(&self) -> Vec<Lost> {
        let lost = |(row, node): (&ModelRow, &Node)| match node.presence {
            Presence::Offline(since)
                if row.row.state == RowState::Succeeded
                    && row.row.wave == self.head.wave
                    && Some(since) >= row.finished =>
            {
                Some(Lost {
                    node: node.id.clone(),
                    since,
                })
            }
            Presence::Offline(_) | Presence::Online => None,
        };
        self.rows.iter().zip(&self.nodes).filter_map(lost).collect()
    }
}

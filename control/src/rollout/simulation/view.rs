//! Snapshots, read from rows as the store reads them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bc_protocol::id::{NodeId, PoolId, RolloutId};

use super::rows::{FactsRow, ModelRow, RolloutRow, Rows};
use crate::{
    api::rollout::RowState,
    clock::Moment,
    rollout::{
        budget::Budget,
        snapshot::{
            AttemptSaid, Context, Extent, Flight, Lingering, Lost, Node, Offer, Origin, Pool,
            Presence, Read, Row, Said, Scope, Snapshot, Trouble, Unseen, Waiting,
        },
    },
};

/// How long a node may be offline before its wave goes on without it.
pub(crate) const GRACE: Duration = Duration::from_secs(300);

impl Rows {
    /// What a pass of a process that started then may know.
    pub(crate) fn snapshot(&self, id: &RolloutId, started_at: Moment) -> Option<Snapshot> {
        let rollout = self.rollouts.get(id)?;
        Some(Snapshot {
            terms: rollout.terms.clone(),
            revision: rollout.revision,
            head: rollout.head.clone(),
            waves: rollout.waves.clone(),
            pools: self.pools_of(rollout),
            flights: self.flights(rollout),
            unseen: Unseen::default(),
            pending: self.pending(rollout),
            extent: Extent::Whole,
            lingering: self.lingering(rollout),
            troubles: troubles(rollout),
            lost: self.lost(rollout),
            unsteady: self.unsteady(rollout),
            offer: self.offer(rollout),
            freeze: self.freeze.clone(),
            context: self.context(started_at),
        })
    }

    pub(super) fn offer(&self, rollout: &RolloutRow) -> Offer {
        let target = self.releases.get(&rollout.terms.version);
        target.map_or(Offer::NotRegistered, |target| Offer::Good(target.clone()))
    }

    pub(super) fn context(&self, started_at: Moment) -> Context {
        let linked = self.gateways.values().filter(|gateway| gateway.linked);
        let since = linked.map(|gateway| gateway.linked_since).min();
        Context {
            started_at,
            links_since: since.map(|since| since.max(started_at)),
            offline_grace: GRACE,
        }
    }

    pub(super) fn pools_of(&self, rollout: &RolloutRow) -> BTreeMap<PoolId, Pool> {
        let view = |id: &PoolId| {
            let row = self.pools.get(id)?;
            let budget = Budget::new(row.nodes, row.share, row.disrupted);
            let archived = row.archived;
            Some((id.clone(), Pool { budget, archived }))
        };
        rollout.pools.iter().filter_map(view).collect()
    }

    pub(crate) fn node(&self, id: &NodeId) -> Option<Node> {
        let row = self.nodes.get(id)?;
        let facts = self.facts.get(id);
        let presence = match facts {
            Some(facts) if facts.online => Presence::Online,
            Some(facts) => Presence::Offline(facts.since),
            None => Presence::Offline(row.joined_at),
        };
        Some(Node {
            id: id.clone(),
            removed: row.removed,
            maintenance: row.maintenance,
            arch: row.arch.clone(),
            presence,
            said: facts.map(|facts| self.said(id, facts)),
        })
    }

    fn said(&self, id: &NodeId, row: &FactsRow) -> Said {
        let facts = &row.facts;
        let node = self.nodes.get(id);
        let has_read = node.is_some_and(|node| facts.observed_generation >= node.generation);
        let newest = node
            .and_then(|node| node.spec.as_ref())
            .map(|(_, _, attempt)| attempt.clone());
        let attempt = facts.last_attempt.as_ref().map(|attempt| AttemptSaid {
            id: attempt.id.clone(),
            outcome: attempt.outcome,
            is_final: attempt.is_final,
            trouble: (!attempt.code.is_empty())
                .then(|| Trouble::new(attempt.code.clone(), attempt.message.clone())),
        });
        Said {
            version: facts.version.clone(),
            floor: facts.floor,
            trial: facts.trial.as_ref().map(|trial| trial.attempt.clone()),
            working_on: facts
                .progress
                .as_ref()
                .map(|progress| progress.attempt.clone()),
            read: match (has_read, row.upgrade_only) {
                (false, _) => Read::Behind,
                (true, false) => Read::Newest(newest),
                (true, true) => Read::Commanded(newest),
            },
            attempt,
            held: facts.held.clone(),
        }
    }

    fn flights(&self, rollout: &RolloutRow) -> Vec<Flight> {
        let flight = |(place, row): (u32, &ModelRow)| {
            let flies = matches!(row.state, RowState::Upgrading | RowState::RollingBack);
            Some(Flight {
                row: address(place, row),
                attempt: row.attempt.clone()?,
                from: row.from.clone().map(|version| Origin {
                    sequence: self.releases.get(&version).map(|target| target.sequence()),
                    version,
                }),
                deadline: row.deadline?,
                shown: row.trouble.clone(),
                place: self.place_of(&row.node, &rollout.terms.id),
                node: self.node(&row.node)?,
            })
            .filter(|_| flies)
        };
        (0..).zip(&rollout.rows).filter_map(flight).collect()
    }

    fn pending(&self, rollout: &RolloutRow) -> Vec<Waiting> {
        let passes_maintenance = match rollout.terms.scope {
            Scope::NotInMaintenance => true,
            Scope::MaintenanceToo => false,
        };
        let waiting = |(place, row): (u32, &ModelRow)| {
            if row.state != RowState::Pending {
                return None;
            }
            let node = self.node(&row.node)?;
            let archived = self.pools.get(&row.pool).is_none_or(|pool| pool.archived);
            let leaves = node.removed || archived || (node.maintenance && passes_maintenance);
            let open = row.wave == rollout.head.wave;
            (open || (leaves && row.wave > rollout.head.wave)).then(|| Waiting {
                row: address(place, row),
                packed: false,
                disrupted_by: self.reasons(&row.node).next().map(str::to_owned),
                node,
            })
        };
        (0..).zip(&rollout.rows).filter_map(waiting).collect()
    }

    fn lingering(&self, rollout: &RolloutRow) -> Vec<Lingering> {
        let id = &rollout.terms.id;
        let lingering = |row: &ModelRow| {
            let flies = matches!(row.state, RowState::Upgrading | RowState::RollingBack);
            let holds = self.reasons(&row.node).any(|reason| reason == id.as_str());
            let late = self.late.contains_key(&(id.clone(), row.node.clone()));
            if flies || !holds || late {
                return None;
            }
            Some(Lingering {
                pool: row.pool.clone(),
                attempt: row.attempt.clone(),
                place: self.place_of(&row.node, id),
                node: self.node(&row.node)?,
            })
        };
        rollout.rows.iter().filter_map(lingering).collect()
    }

    /// Succeeded rows of the open wave, with what their nodes say.
    fn arrived<'a>(
        &'a self,
        rollout: &'a RolloutRow,
    ) -> impl Iterator<Item = (&'a ModelRow, &'a FactsRow)> {
        rollout
            .rows
            .iter()
            .filter(|row| row.wave == rollout.head.wave && row.state == RowState::Succeeded)
            .filter_map(|row| Some((row, self.facts.get(&row.node)?)))
    }

    pub(super) fn lost(&self, rollout: &RolloutRow) -> Vec<Lost> {
        self.arrived(rollout)
            .filter(|(row, facts)| {
                !facts.online
                    && facts.since >= rollout.created_at
                    && Some(facts.since) >= row.finished
            })
            .map(|(row, facts)| Lost {
                node: row.node.clone(),
                since: facts.since,
            })
            .collect()
    }

    pub(super) fn unsteady(&self, rollout: &RolloutRow) -> BTreeSet<NodeId> {
        self.arrived(rollout)
            .filter(|(row, facts)| {
                let before = facts.restarted_before_at;
                before.is_some_and(|at| at >= rollout.created_at) && before >= row.finished
            })
            .map(|(row, _)| row.node.clone())
            .collect()
    }
}

fn troubles(rollout: &RolloutRow) -> BTreeMap<String, u32> {
    let mut troubles = BTreeMap::new();
    for row in &rollout.rows {
        if row.state == RowState::Failed && row.wave == rollout.head.wave {
            let code = row
                .trouble
                .as_ref()
                .map_or("failed", |trouble| &trouble.code);
            *troubles.entry(code.to_owned()).or_insert(0_u32) += 1;
        }
    }
    troubles
}

fn address(place: u32, row: &ModelRow) -> Row {
    Row {
        place,
        wave: row.wave,
        node: row.node.clone(),
        number: place.into(),
        pool: row.pool.clone(),
        state: row.state,
    }
}

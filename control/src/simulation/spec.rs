//! Specs, computed from rows by the shipped rule. I25

use bc_protocol::{
    id::NodeId,
    sequence::ReleaseFloor,
    spec::{DaemonSection, NodeSpec},
};

use super::{Control, Planted};
use crate::{
    rollout::simulation::{check::Broken, rows::RolloutRow},
    spec::compute::{Age, Origin, Rows as SpecRows, Touched, Turn, choose},
};

impl Control {
    /// The node's desired state now; none for a node that is removed or unknown.
    pub fn spec(&mut self, node: &NodeId) -> Option<NodeSpec> {
        self.rows.nodes.get(node).filter(|row| !row.removed)?;
        let daemon = self.section(node).map(|(section, _)| section);
        let names = daemon.as_ref().map(|section| {
            (
                section.version.clone(),
                section.sha256.to_string(),
                section.attempt.clone(),
            )
        });
        let observed = self
            .rows
            .facts
            .get(node)
            .map_or(0, |row| row.facts.observed_generation);
        let row = self.rows.nodes.get_mut(node)?;
        if row.spec != names {
            row.generation = row.generation.max(observed).saturating_add(1);
            row.spec = names;
        }
        Some(NodeSpec {
            generation: row.generation,
            daemon,
        })
    }

    /// Nodes that are online and have not read what they are to run.
    pub fn unread(&mut self) -> Vec<NodeId> {
        let online = self.rows.facts.iter().filter(|(_, row)| row.online);
        let online: Vec<(NodeId, u64)> = online
            .map(|(node, row)| (node.clone(), row.facts.observed_generation))
            .collect();
        let unread = online.into_iter().filter(|(node, observed)| {
            self.spec(node)
                .is_some_and(|spec| spec.generation > *observed)
        });
        unread.map(|(node, _)| node).collect()
    }

    /// The section that the node is to have, and what it follows from.
    pub(super) fn section(&self, node: &NodeId) -> Option<(DaemonSection, Origin)> {
        let choice = choose(&self.spec_rows(node)).ok()?;
        let target = self.rows.releases.get(&choice.version)?;
        let floor = self
            .rows
            .facts
            .get(node)
            .map_or(ReleaseFloor::NONE, |row| row.facts.floor);
        let arch = self.rows.nodes.get(node)?.arch.as_deref();
        let (platform, sha256) = target.binary_for(arch, floor).ok()?;
        let section = DaemonSection {
            url: format!("http://downloads/bcd/{}/{platform}", choice.version),
            version: choice.version,
            sha256,
            signature: Vec::new(),
            attempt: choice.attempt,
        };
        Some((section, choice.origin))
    }

    fn spec_rows(&self, node: &NodeId) -> SpecRows {
        let age = |rollout: &RolloutRow| Age {
            created_at: rollout.created_at,
            rollout: rollout.terms.id.clone(),
        };
        let in_waves = self.rows.rollouts.values().flat_map(|rollout| {
            let rows = rollout
                .rows
                .iter()
                .filter(|row| row.node == *node && row.state.is_touched());
            rows.map(move |row| Touched {
                age: age(rollout),
                version: rollout.terms.version.clone(),
                state: row.state,
                from: row.from.clone(),
                attempt: row.attempt.clone(),
                turn: Turn::Wave,
            })
        });
        let late = self
            .rows
            .late
            .iter()
            .filter(|((_, late), row)| late == node && row.state.is_touched());
        let late = late.filter_map(|((rollout, _), row)| {
            let rollout = self.rows.rollouts.get(rollout)?;
            Some(Touched {
                age: age(rollout),
                version: rollout.terms.version.clone(),
                state: row.state,
                from: row.from.clone(),
                attempt: Some(row.attempt.clone()),
                turn: Turn::Late,
            })
        });
        let key = |touched: &Touched| (touched.age.clone(), touched.turn == Turn::Late);
        let touches = in_waves.chain(late);
        let touched = match self.planted {
            Some(Planted::OldestRolloutDecides) => touches.min_by_key(key),
            Some(_) | None => touches.max_by_key(key),
        };
        let completed = self.rows.newest_completed(node).map(age);
        SpecRows {
            touched,
            completed: completed.filter(|_| self.planted != Some(Planted::CompletedForgotten)),
        }
    }

    /// I25: whatever computes it, rows alone decide.
    pub(super) fn check_specs(&self) -> Broken {
        for (node, row) in &self.rows.nodes {
            if row.removed {
                continue;
            }
            let chosen = choose(&self.spec_rows(node))
                .ok()
                .map(|choice| (choice.version, choice.attempt));
            let wanted = self.rows.wanted_of(node);
            if chosen != wanted {
                return Some((
                    "I25",
                    format!("{node} is to run {chosen:?}, and its rows say {wanted:?}"),
                ));
            }
        }
        None
    }
}

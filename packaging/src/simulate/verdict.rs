//! Whether everybody has arrived, once nothing interferes any more.

use std::time::Duration;

use super::world::World;

/// How long everybody may take: as many soaks, time-outs and absences as one rollout can have, one after the other.
const PATIENCE: Duration = Duration::from_secs(4 * 3600);

/// How often somebody looks.
const LOOKS: u64 = 64;

impl World {
    /// Looked at now and then: it costs more than a step.
    pub(super) fn is_over(&mut self) -> bool {
        if self.now > self.scenario.rests_at + PATIENCE {
            return true;
        }
        self.steps.is_multiple_of(LOOKS)
            && self.now > self.scenario.rests_at + Duration::from_secs(120)
            && self.unfinished().is_empty()
    }

    /// I6, I32, and that who is out is out.
    pub(super) fn check_the_end(&mut self) {
        let unfinished = self.unfinished();
        if !unfinished.is_empty() {
            self.broken.push(format!(
                "I32: after {PATIENCE:?} of peace: {}",
                unfinished.join("; ")
            ));
        }
        let asked: Vec<_> = self
            .control
            .asked()
            .map(|(id, node, _, _)| (id.clone(), node.clone()))
            .collect();
        for (command, node) in asked {
            let machine = self.nodes.iter().find(|known| known.id == node);
            let effects = machine.map_or(0, |known| known.machine.effects_of(&command));
            if effects > 1 {
                self.broken.push(format!(
                    "I26: {command} had its effect {effects} times on {node}"
                ));
            }
        }
    }

    /// What is not as it should be in the end.
    pub(super) fn unfinished(&mut self) -> Vec<String> {
        let mut unfinished: Vec<String> = self
            .control
            .rollouts()
            .into_iter()
            .filter(|standing| !standing.is_over)
            .map(|standing| standing.line)
            .collect();
        for (number, node) in self.nodes.iter().enumerate() {
            let welcomed = node.machine.is_settled();
            if self.removed.contains(&number) {
                if welcomed {
                    unfinished.push(format!("node {number} is removed, and holds a session"));
                }
                continue;
            }
            if !welcomed {
                unfinished.push(format!(
                    "node {number} has no session, or is on trial: {:?}",
                    node.machine.runs()
                ));
            }
            let astray = self.control.astray(&node.id);
            unfinished.extend(astray.map(|astray| format!("node {number}: {astray}")));
        }
        if !unfinished.is_empty() {
            let held = self.control.held(self.unix_ms(0));
            unfinished.extend(held);
        }
        let waiting = self.control.late_for_ever();
        if !waiting.is_empty() {
            unfinished.push(format!("late nodes of {waiting:?} wait"));
        }
        unfinished
    }
}

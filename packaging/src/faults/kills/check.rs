//! What must hold while a rollout runs, and when everybody is at rest.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Rows;
use crate::fleet::{Fleet, Node};

/// Follows one rollout from look to look.
#[derive(Debug)]
pub(super) struct Watcher {
    nodes: usize,
    budget: usize,
    rows: Rows,
}

impl Watcher {
    pub(super) fn new(nodes: usize, budget: usize) -> Self {
        Self {
            nodes,
            budget,
            rows: Rows::new(),
        }
    }

    /// Compares what is seen now with what was seen before; gives what must not be.
    pub(super) fn look(&mut self, rollout: &Value) -> Vec<String> {
        let mut wrong = Vec::new();
        let list = rollout.get("nodeList").and_then(Value::as_array);
        for row in list.into_iter().flatten() {
            let (Some(node), Some(state)) = (text(row, "nodeId"), text(row, "state")) else {
                wrong.push(format!("a row without node or state: {row}"));
                continue;
            };
            let before = self.rows.insert(node.clone(), state.clone());
            if before.as_deref().is_some_and(|b| stage(b) > stage(&state)) {
                wrong.push(format!("{node} went from {before:?} to {state}"));
            }
        }
        let in_flight = self.rows.values().filter(|state| stage(state) == 1).count();
        if in_flight > self.budget {
            wrong.push(format!("{in_flight} nodes in flight, over the budget"));
        }
        let counts = rollout.get("nodes").and_then(Value::as_object);
        let counted: u64 = counts
            .into_iter()
            .flat_map(serde_json::Map::values)
            .filter_map(Value::as_u64)
            .sum();
        if usize::try_from(counted) != Ok(self.nodes) || self.rows.len() != self.nodes {
            wrong.push(format!(
                "{} nodes, {counted} counted, {} listed",
                self.nodes,
                self.rows.len()
            ));
        }
        wrong
    }
}

/// Rows only ever move on.
fn stage(state: &str) -> u8 {
    match state {
        "pending" => 0,
        "upgrading" | "rolling-back" => 1,
        _ => 2,
    }
}

/// Waits until everybody is back and agrees; gives what does not hold after `patience`.
pub(super) async fn at_rest(
    fleet: &Fleet,
    sequence: u64,
    version: &str,
    patience: Duration,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let rested = fleet
        .operator
        .until("everybody is at rest", patience, |_| {
            wrong = match look(fleet, sequence, version) {
                Ok(wrong) => wrong,
                Err(error) => vec![format!("{error:#}")],
            };
            Ok(wrong.is_empty().then_some(()))
        })
        .await;
    match rested {
        Ok(()) => Vec::new(),
        Err(_) => wrong,
    }
}

fn look(fleet: &Fleet, sequence: u64, version: &str) -> Result<Vec<String>> {
    let list = fleet.operator.json(&["nodes", "list"])?;
    let list = list.get("nodes").and_then(Value::as_array);
    let list = list.context("expected a list of nodes")?;
    let mut wrong = Vec::new();
    for node in &fleet.nodes {
        let known = list
            .iter()
            .find(|known| text(known, "id").as_deref() == Some(&node.id))
            .with_context(|| format!("control does not list {}", node.id))?;
        wrong.extend(compare(fleet, node, known, (sequence, version))?);
    }
    Ok(wrong)
}

/// Compares the release, control's word and the node's own word.
fn compare(
    fleet: &Fleet,
    node: &Node,
    known: &Value,
    (sequence, version): (u64, &str),
) -> Result<Vec<String>> {
    let own = fleet.status(node)?;
    let at = |value: &Value, pointer: &str| value.pointer(pointer).cloned().unwrap_or(Value::Null);
    let expected = json!({
        "version": version,
        "floor": sequence,
        "slot": at(&own, "/running/slot"),
        "trial": null,
        "attempt": at(&own, "/lastAttempt/id"),
        "online": true,
        "notice": null,
    });
    let controls = json!({
        "version": at(known, "/version"),
        "floor": at(known, "/floor"),
        "slot": at(known, "/slot"),
        "trial": at(known, "/trial"),
        "attempt": at(known, "/lastAttempt/id"),
        "online": at(known, "/online"),
        "notice": null,
    });
    let nodes = json!({
        "version": at(&own, "/version"),
        "floor": at(&own, "/floor"),
        "slot": at(&own, "/running/slot"),
        "trial": at(&own, "/trial"),
        "attempt": at(&own, "/lastAttempt/id"),
        "online": at(&own, "/session/connected"),
        "notice": at(&own, "/notice"),
    });
    let mut wrong = Vec::new();
    for (who, said) in [("control", controls), ("the node", nodes)] {
        if said != expected {
            let id = &node.id;
            wrong.push(format!("{who} says of {id}: {said}, expected {expected}"));
        }
    }
    let running = processes(&node.dir)?;
    if running != 1 {
        wrong.push(format!("{running} processes run {}, expected 1", node.id));
    }
    Ok(wrong)
}

/// How many processes run the node in that folder, whoever their parent is.
fn processes(dir: &Path) -> Result<usize> {
    let state = dir.join("state");
    let state = state.to_str().context("the folder's name is not UTF-8")?;
    let mut running = 0;
    for entry in std::fs::read_dir("/proc")? {
        // A process may end between being listed and being read.
        let Ok(line) = std::fs::read(entry?.path().join("cmdline")) else {
            continue;
        };
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        let is_node = words.contains(&b"node".as_slice());
        running += usize::from(is_node && words.contains(&state.as_bytes()));
    }
    Ok(running)
}

fn text(object: &Value, key: &str) -> Option<String> {
    Some(object.get(key)?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at the rows of two nodes one after the other, with a budget of one; gives what the last look found.
    fn looks(looks: &[[&str; 2]]) -> Vec<String> {
        let mut watcher = Watcher::new(2, 1);
        let mut wrong = Vec::new();
        for [one, other] in looks {
            wrong = watcher.look(&json!({
                "nodes": {"pending": 1, "succeeded": 1},
                "nodeList": [{"nodeId": "n1", "state": one}, {"nodeId": "n2", "state": other}],
            }));
        }
        wrong
    }

    fn check(seen: &[[&str; 2]], complaint: &str) {
        let wrong = looks(seen);
        let complains = wrong.iter().any(|wrong| wrong.contains(complaint));
        assert!(complains, "{seen:?}: {wrong:?}");
    }

    #[test]
    fn a_rollout_that_moves_on_is_no_violation() {
        let seen = [
            ["pending", "pending"],
            ["upgrading", "pending"],
            ["succeeded", "upgrading"],
            ["succeeded", "succeeded"],
        ];
        for end in 1..=seen.len() {
            assert!(looks(seen.get(..end).unwrap_or_default()).is_empty());
        }
    }

    #[test]
    fn a_row_that_goes_back_is_a_violation() {
        check(&[["succeeded", "pending"], ["upgrading", "pending"]], "n1");
        check(&[["pending", "upgrading"], ["pending", "pending"]], "n2");
    }

    #[test]
    fn more_in_flight_than_the_budget_is_a_violation() {
        check(&[["upgrading", "rolling-back"]], "budget");
    }

    #[test]
    fn nodes_that_are_lost_are_a_violation() {
        let mut watcher = Watcher::new(2, 1);
        let row = json!({"nodeId": "n1", "state": "pending"});
        let seen = json!({"nodes": {"pending": 1}, "nodeList": [row]});
        assert_eq!(watcher.look(&seen).len(), 1);
    }
}

//! Rollouts for tests.

use serde_json::{Value, json};

use crate::api::rollout::{LateNode, Rollout, RowCounts};

/// A rollout over nodes of these waves and states, and with these errors.
pub(super) fn rollout(state: &str, wave: u32, nodes: &[(u32, &str, Option<&str>)]) -> Rollout {
    let mut counts = serde_json::to_value(RowCounts::default()).unwrap();
    let list: Vec<Value> = nodes
        .iter()
        .enumerate()
        .map(|(number, (wave, state, error))| {
            counts[*state] = json!(counts[*state].as_u64().unwrap() + 1);
            json!({
                "nodeId": format!("node_{number:026}"), "poolId": format!("pool_{:026}", 1),
                "wave": wave, "state": state, "error": error,
            })
        })
        .collect();
    serde_json::from_value(json!({
        "id": format!("rollout_{:026}", 7), "version": "1.4.0", "state": state,
        "reason": (state == "paused").then_some("wave 1: 1 of 1 failed, more than 0.05"),
        "waves": [10, 50, 100], "wave": wave, "maxFailureRatio": 0.05,
        "soakSeconds": 600, "upgradeTimeoutSeconds": 900, "nodes": counts,
        "createdAt": "2026-11-29T21:00:00.000Z", "updatedAt": "2026-11-29T21:00:00.000Z",
        "createdBy": "alice", "nodeList": list,
    }))
    .unwrap()
}

/// Late nodes of these states.
pub(super) fn late(states: &[&str]) -> Vec<LateNode> {
    let nodes = states.iter().enumerate().map(|(number, state)| {
        json!({
            "nodeId": format!("node_{number:026}"), "poolId": format!("pool_{:026}", 1), "state": state,
        })
    });
    serde_json::from_value(nodes.collect()).unwrap()
}

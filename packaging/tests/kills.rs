//! `kill -9` of every process in turn, in the middle of a rollout: after its restart the rollout ends as it should.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::{path::PathBuf, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use packaging::{
    build::{self, AgentBuild},
    fleet::{Fleet, Patience, Plan, PoolPlan, Release, Verdict},
};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

/// What is killed.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Control,
    Gateway,
    /// The supervisor of the node that is being upgraded; the node dies with it.
    Supervisor,
    /// The node that is being upgraded; its supervisor starts it again.
    Node,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_process_is_killed_while_a_node_upgrades() {
    let victims = [
        Victim::Control,
        Victim::Gateway,
        Victim::Supervisor,
        Victim::Node,
    ];
    let mut fleet = fleet_of(victims.len() + 1).await;
    let nodes = fleet.nodes.len();
    fleet.online(nodes, PATIENCE).await.unwrap();
    let made = fleet
        .operator
        .json(&[
            "rollouts",
            "create",
            "--version",
            "1.1.0",
            "--waves",
            "100",
            "--soak",
            "0s",
            "--upgrade-timeout",
            "5m",
            "--yes",
        ])
        .unwrap();
    let id = made["id"].as_str().unwrap().to_owned();

    for victim in victims {
        let node = upgrading(&fleet, &id).await;
        strike(&mut fleet, victim, &node).unwrap();
        settled(&fleet, &id, &node).await;
    }
    let watch = ["rollouts", "watch", &id];
    let verdict = fleet
        .operator
        .follow(&watch, std::process::Stdio::null())
        .await;
    assert_eq!(verdict.unwrap(), Verdict::Completed, "{}", fleet.logs());

    let list = fleet.operator.json(&["nodes", "list"]).unwrap();
    for node in list["nodes"].as_array().unwrap() {
        assert_eq!(node["version"], "1.1.0", "{node:#}");
        assert_eq!(node["floor"], 2, "{node:#}");
        assert_eq!(node["trial"], Value::Null, "{node:#}");
    }
}

/// A fleet with one pool that takes one node at a time, so that the node that is being upgraded is the one to hit.
async fn fleet_of(nodes: usize) -> Fleet {
    let binaries = tempfile::tempdir().unwrap();
    let programs = build::programs().await.unwrap();
    let versions = ["1.0.0", "1.1.0"];
    for version in versions {
        let to = binaries.path().join(version);
        build::agent(
            AgentBuild {
                version,
                fault: None,
            },
            &to,
        )
        .await
        .unwrap();
    }
    let plan = Plan {
        pools: vec![PoolPlan {
            name: "pool",
            nodes,
            budget: "0",
        }],
        patience: Patience {
            watchdog: Duration::from_secs(20),
            stable: Duration::from_secs(1),
        },
    };
    let package = binaries.path().join("1.0.0");
    let fleet = Fleet::start(programs, &package, &plan).await.unwrap();
    for (sequence, version) in (1..).zip(versions) {
        let binary: PathBuf = binaries.path().join(version);
        fleet
            .publish(&Release {
                version: version.to_owned(),
                sequence,
                binary,
            })
            .unwrap();
    }
    fleet
}

/// Waits until some node is being upgraded.
async fn upgrading(fleet: &Fleet, id: &str) -> String {
    fleet
        .operator
        .until("a node is being upgraded", PATIENCE, |operator| {
            let rollout = operator.json(&["rollouts", "get", id])?;
            let rows = rollout["nodeList"].as_array().cloned().unwrap_or_default();
            let row = rows.iter().find(|row| row["state"] == "upgrading").cloned();
            Ok(row.and_then(|row| row["nodeId"].as_str().map(ToOwned::to_owned)))
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", fleet.logs()))
}

/// Waits until that node has settled, and well.
async fn settled(fleet: &Fleet, id: &str, node: &str) {
    let state = fleet
        .operator
        .until("the node has settled", PATIENCE, |operator| {
            // Control itself may be on its way back: then there is no answer yet.
            let output = operator.try_run(&["rollouts", "get", id, "--output", "json"])?;
            let Ok(rollout) = serde_json::from_slice::<Value>(&output.stdout) else {
                return Ok(None);
            };
            let rows = rollout["nodeList"].as_array().cloned().unwrap_or_default();
            let state = rows
                .iter()
                .find(|row| row["nodeId"] == node)
                .and_then(|row| row["state"].as_str().map(ToOwned::to_owned));
            Ok(state.filter(|state| state != "upgrading"))
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", fleet.logs()));
    assert_eq!(state, "succeeded", "{}", fleet.logs());
}

fn strike(fleet: &mut Fleet, victim: Victim, node: &str) -> anyhow::Result<()> {
    match victim {
        Victim::Control => {
            fleet.control.kill()?;
            fleet.control.start()
        }
        Victim::Gateway => {
            fleet.gateway.kill()?;
            fleet.gateway.start()
        }
        Victim::Supervisor => {
            let supervisor = fleet.supervisor_of(node)?;
            supervisor.kill()?;
            supervisor.start()
        }
        Victim::Node => {
            for child in fleet.supervisor_of(node)?.children()? {
                // It may have ended just now to restart into its new slot.
                kill(Pid::from_raw(child), Signal::SIGKILL).ok();
            }
            Ok(())
        }
    }
}

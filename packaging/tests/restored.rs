//! A control that goes on from a copy, before a fleet that has gone on without it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::{path::Path, process::Command, time::Duration};

use packaging::{
    build::{self, AgentBuild},
    fleet::{Fleet, Patience, Plan, PoolPlan, Release},
};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(180);

const NODES: usize = 2;

/// A fleet of package 1.0.0, and binaries of later versions.
async fn fleet(folder: &Path) -> Fleet {
    for version in ["1.0.0", "1.1.0", "1.2.0"] {
        let build = AgentBuild {
            version,
            fault: None,
        };
        build::agent(build, &folder.join(version)).await.unwrap();
    }
    let plan = Plan {
        pools: vec![PoolPlan {
            name: "restored",
            nodes: NODES,
            budget: "1",
        }],
        patience: Patience {
            watchdog: Duration::from_secs(60),
            stable: Duration::from_secs(1),
        },
    };
    let programs = build::programs().await.unwrap();
    let fleet = Fleet::start(programs, &folder.join("1.0.0"), &plan).await;
    fleet.unwrap()
}

fn publish(fleet: &Fleet, folder: &Path, version: &str, sequence: u64) {
    // The binary that is inside says its version, so that an older one stands in for a release that nobody installs.
    let binary = folder.join(version);
    let binary = if binary.exists() {
        binary
    } else {
        folder.join("1.0.0")
    };
    fleet
        .publish(&Release {
            version: version.to_owned(),
            sequence,
            binary,
        })
        .unwrap();
}

/// Creates a rollout and waits until it ends or pauses.
async fn rolled_out(fleet: &Fleet, version: &str) -> Value {
    let args = ["rollouts", "create", "--version", version, "--waves", "100"];
    let more = ["--soak", "0s", "--yes"];
    let created = fleet.operator.json(&[&args[..], &more[..]].concat());
    let id = created.unwrap()["id"].as_str().unwrap().to_owned();
    fleet
        .operator
        .until("the rollout has come to an end", PATIENCE, |operator| {
            let rollout = operator.json(&["rollouts", "get", &id])?;
            Ok((rollout["state"] != "running").then_some(rollout))
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", fleet.logs()))
}

/// Runs a command of control's own machine, which must succeed.
fn local(fleet: &Fleet, args: &[&str]) {
    let done = Command::new(&fleet.programs().control)
        .args(args)
        .arg("--config")
        .arg(fleet.dir().join("control.toml"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{args:?}: {said}");
}

/// Control loses its data and goes on from the copy. Whoever has the token keeps it.
async fn lose_and_restore(fleet: &mut Fleet, copy: &Path) {
    fleet.control.kill().unwrap();
    let (data, lost) = (fleet.dir().join("control"), fleet.dir().join("lost"));
    std::fs::rename(&data, &lost).unwrap();
    local(fleet, &["restore", "--from", copy.to_str().unwrap()]);
    std::fs::copy(lost.join("admin.token"), data.join("admin.token")).unwrap();
    fleet.control.start().unwrap();
    let operator = fleet.operator.clone();
    operator.ready(&mut fleet.control).await.unwrap();
    fleet.online(NODES, PATIENCE).await.unwrap();
}

/// What nodes report to the control that there is.
fn nodes(fleet: &Fleet) -> Vec<(Value, Value)> {
    let listed = fleet.operator.json(&["nodes", "list"]).unwrap();
    let listed = listed["nodes"].as_array().unwrap();
    listed
        .iter()
        .map(|node| (node["version"].clone(), node["floor"].clone()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_are_ahead_of_a_restored_control_are_left_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let mut fleet = fleet(folder.path()).await;
    fleet.online(NODES, PATIENCE).await.unwrap();
    let copy = folder.path().join("copy");
    local(&fleet, &["backup", "--out", copy.to_str().unwrap()]);
    publish(&fleet, folder.path(), "1.1.0", 5);
    let done = rolled_out(&fleet, "1.1.0").await;
    assert_eq!(done["nodes"]["succeeded"], NODES, "{done:#}");

    lose_and_restore(&mut fleet, &copy).await;
    // It knows neither the rollout nor the release, and shows what its nodes say all the same.
    let rollouts = fleet.operator.json(&["rollouts", "list"]).unwrap();
    assert_eq!(rollouts["rollouts"], Value::Array(vec![]));
    let ahead = (Value::from("1.1.0"), Value::from(5));
    // Until its gateway is linked again, it shows what the copy had.
    fleet
        .operator
        .until("nodes are shown as they are", PATIENCE, |_| {
            Ok((nodes(&fleet) == vec![ahead.clone(); NODES]).then_some(()))
        })
        .await
        .unwrap();

    // A release below their floor passes all of them over, by that reason, and pauses since nobody has tried it.
    publish(&fleet, folder.path(), "1.0.5", 4);
    let paused = rolled_out(&fleet, "1.0.5").await;
    assert_eq!(paused["state"], "paused", "{paused:#}");
    assert_eq!(paused["nodes"]["skipped"], NODES, "{paused:#}");
    for row in paused["nodeList"].as_array().unwrap() {
        let error = row["error"].as_str().unwrap();
        assert!(error.contains("floor 5"), "{row:#}");
    }
    let id = paused["id"].as_str().unwrap();
    fleet
        .operator
        .run(&["rollouts", "abort", id, "--yes"])
        .unwrap();
    assert_eq!(nodes(&fleet), vec![ahead; NODES]);

    // What they run is registered again and is there already; and from there on the fleet goes on as ever.
    publish(&fleet, folder.path(), "1.1.0", 5);
    let there = rolled_out(&fleet, "1.1.0").await;
    assert_eq!(there["state"], "completed", "{there:#}");
    assert_eq!(there["nodes"]["succeeded"], NODES, "{there:#}");
    publish(&fleet, folder.path(), "1.2.0", 6);
    let done = rolled_out(&fleet, "1.2.0").await;
    assert_eq!(done["state"], "completed", "{done:#}");
    let newest = (Value::from("1.2.0"), Value::from(6));
    assert_eq!(nodes(&fleet), vec![newest; NODES]);
}

//! New binaries that are no good, each against a real supervisor and a real gateway: the node ends on the old one, says
//! why, has gone back once, and its floor is where it was.
//!
//! One that is welcomed, holds and crashes minutes later is none of them: no hold is as long as that. It is confirmed,
//! and is the rollout's to notice.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use packaging::{
    build::{self, AgentBuild, Fault},
    fleet::{Fleet, Node, Patience, Plan, PoolPlan, Release},
};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(180);

/// How long a trial may take here.
const DEADLINE: Duration = Duration::from_secs(15);

/// What the new binary does, by the word that it is told; what comes of it.
const STUBS: [(&str, &str); 9] = [
    ("exits-at-once", "crashed"),
    ("crashes-at-once", "crashed"),
    ("hangs-at-once", "hung"),
    ("never-connects", "no-welcome"),
    ("crashes-welcomed", "crashed"),
    ("eats-memory", "crashed"),
    ("eats-descriptors", "crashed"),
    ("writes-newer-state", "crashed"),
    // The same as above, and somebody interferes.
    ("never-connects", "no-welcome"),
];

/// The node whose supervisor is killed and started again in the middle of the trial, and whose package is replaced.
const DISTURBED: usize = STUBS.len() - 1;

#[tokio::test(flavor = "multi_thread")]
async fn every_binary_that_is_no_good_is_gone_again() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let mut fleet = fleet(&old, &new).await;
    fleet.online(STUBS.len(), PATIENCE).await.unwrap();
    release(&fleet, "1.1.0", 2, &new);
    roll_out(&fleet, 0, "1.1.0");
    disturb(&mut fleet).await;
    for (number, (word, outcome)) in STUBS.iter().enumerate() {
        let status = ended(&fleet, number).await;
        check(&status, outcome, &format!("{word}: {}", fleet.logs()));
        if *outcome == "crashed" {
            let attempt = &status["lastAttempt"];
            let how = [&attempt["exitStatus"], &attempt["signal"]];
            assert!(how.iter().any(|how| how.is_number()), "{word}: {status:#}");
        }
    }
    fleet.online(STUBS.len(), PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_file_that_does_not_run_is_refused_before_its_trial() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let fleet = fleet_of(1, &old, &new).await;
    fleet.online(1, PATIENCE).await.unwrap();
    for (number, (what, code, bytes)) in files(&fs::read(&new).unwrap()).into_iter().enumerate() {
        let (path, version) = (folder.path().join(what), format!("1.2.{number}"));
        put(&path, &bytes);
        release(&fleet, &version, 2 + number as u64, &path);
        roll_out(&fleet, 0, &version);
        let status = fleet
            .operator
            .until("the attempt has ended", PATIENCE, |_| {
                let status = fleet.status(&fleet.nodes[0])?;
                let attempt = &status["lastAttempt"];
                let is_it = attempt["target"] == version.as_str() && attempt["final"] == true;
                Ok(is_it.then_some(status))
            })
            .await
            .unwrap_or_else(|error| panic!("{what}: {error:#}\n{}", fleet.logs()));
        check(&status, "refused", what);
        assert_eq!(status["lastAttempt"]["code"], code, "{what}: {status:#}");
        let id = current(&fleet);
        fleet
            .operator
            .run(&["rollouts", "abort", &id, "--yes"])
            .unwrap();
    }
}

/// What is wrong with a file, the code that a node refuses it with, and the file.
fn files(good: &[u8]) -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let mut other_machine = good.to_vec();
    other_machine[18] ^= 0x7f;
    let mut no_loader = good.to_vec();
    let loader = good
        .windows(8)
        .position(|bytes| bytes == b"/lib64/l" || bytes == b"/lib/ld-");
    no_loader[loader.unwrap() + 1] = b'X';
    // The header of an executable, and nothing behind it that could be run.
    let no_program = good[..64].to_vec();
    let script = b"#!/bin/sh\nexit 0\n".to_vec();
    let says_nothing = fs::read("/bin/true").unwrap();
    let fails = fs::read("/bin/false").unwrap();
    vec![
        ("another machine's", "platform", other_machine),
        ("a script", "platform", script),
        ("a missing loader", "preflight", no_loader),
        ("no program", "preflight", no_program),
        ("one that says nothing", "preflight", says_nothing),
        ("one that fails its preflight", "preflight", fails),
    ]
}

/// Whether the node is back where it was.
fn check(status: &Value, outcome: &str, what: &str) {
    let attempt = &status["lastAttempt"];
    assert_eq!(attempt["outcome"], outcome, "{what}\n{status:#}");
    assert_eq!(attempt["tries"], 1, "{what}\n{status:#}");
    assert_eq!(attempt["final"], true, "{what}\n{status:#}");
    assert_eq!(status["trial"], Value::Null, "{what}\n{status:#}");
    assert_eq!(status["floor"], 0, "{what}\n{status:#}");
    assert_eq!(status["running"]["sequence"], 0, "{what}\n{status:#}");
}

/// Waits until the attempt of that node has ended for good, and the node has its session again.
async fn ended(fleet: &Fleet, number: usize) -> Value {
    let node = &fleet.nodes[number];
    fleet
        .operator
        .until("the attempt has ended", PATIENCE, |_| {
            let Ok(status) = fleet.status(node) else {
                return Ok(None);
            };
            let is_final = status["lastAttempt"]["final"] == true;
            let is_back = status["session"]["state"] == "connected" || is_online(fleet, node);
            Ok((is_final && is_back).then_some(status))
        })
        .await
        .unwrap_or_else(|error| {
            panic!("{}: {error:#}\n{}", STUBS[number].0, fleet.logs());
        })
}

fn is_online(fleet: &Fleet, node: &Node) -> bool {
    let seen = fleet.operator.json(&["nodes", "get", &node.id]);
    seen.is_ok_and(|seen| seen["online"] == true)
}

/// In the middle of the last node's trial its package is replaced, and its supervisor killed and started again.
async fn disturb(fleet: &mut Fleet) {
    let package = fleet.package().to_owned();
    fleet
        .operator
        .until("the last node tries", PATIENCE, |_| {
            let status = fleet.status(&fleet.nodes[DISTURBED])?;
            Ok(status["trial"]["starts"]
                .as_u64()
                .filter(|starts| *starts > 0))
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", fleet.logs()));
    let replaced = package.with_extension("new");
    fs::copy(&package, &replaced).unwrap();
    fs::rename(&replaced, &package).unwrap();
    let supervisor = &mut fleet.nodes[DISTURBED].supervisor;
    supervisor.kill().unwrap();
    supervisor.start().unwrap();
}

async fn fleet(old: &Path, new: &Path) -> Fleet {
    let mut fleet = fleet_of(0, old, new).await;
    for (word, _) in STUBS {
        fleet.join_told(0, word).unwrap();
    }
    fleet
}

async fn fleet_of(nodes: usize, old: &Path, new: &Path) -> Fleet {
    let programs = build::programs().await.unwrap();
    for (version, fault, to) in [("1.0.0", None, old), ("1.1.0", Some(Fault::AsTold), new)] {
        build::agent(AgentBuild { version, fault }, to)
            .await
            .unwrap();
    }
    let plan = Plan {
        pools: vec![PoolPlan {
            name: "stubs",
            nodes,
            budget: "1",
        }],
        patience: Patience {
            watchdog: DEADLINE,
            stable: Duration::from_secs(3),
        },
    };
    Fleet::start(programs, old, &plan).await.unwrap()
}

fn release(fleet: &Fleet, version: &str, sequence: u64, binary: &Path) {
    let binary: PathBuf = binary.to_owned();
    let version = version.to_owned();
    fleet
        .publish(&Release {
            version,
            sequence,
            binary,
        })
        .unwrap();
}

fn roll_out(fleet: &Fleet, pool: usize, version: &str) {
    let pool = fleet.pools[pool].clone();
    fleet
        .operator
        .run(&[
            "rollouts",
            "create",
            "--version",
            version,
            "--pool",
            &pool,
            "--waves",
            "100",
            "--max-failure-ratio",
            "1",
            "--soak",
            "0s",
            "--upgrade-timeout",
            "10m",
            "--yes",
        ])
        .unwrap();
}

/// The rollout that was made last.
fn current(fleet: &Fleet) -> String {
    let list = fleet.operator.json(&["rollouts", "list"]).unwrap();
    list["rollouts"][0]["id"].as_str().unwrap().to_owned()
}

fn put(path: &Path, bytes: &[u8]) {
    let mut file = fs::File::create(path).unwrap();
    file.write_all(bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

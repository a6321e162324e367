//! A node that is stopped where it hurts: in the middle of its download, and right behind a word that it has given.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use packaging::{
    build::{self, AgentBuild, Fault},
    faults::ext4::{self, Disk},
    fleet::{Fleet, Patience, Plan, PoolPlan, Release},
};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(180);

/// At which writes of the download a node is killed.
const WRITES: [u32; 6] = [1, 2, 7, 50, 300, 900];

/// Room for a download and two slots of unstripped agents.
const DISK_BYTES: u64 = 2 << 30;

/// The file that a download fills, where slot a runs.
const PARTIAL: &str = "state/slots/b/bcd.partial";

/// Killed anywhere in its download, a node goes on with it: the same attempt, one try, the signed bytes.
#[tokio::test(flavor = "multi_thread")]
async fn a_download_goes_on_after_a_kill() {
    let strace = Command::new("strace").arg("--version").output();
    if strace.is_err() && !is_required() {
        eprintln!("passed over: no strace");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let fleet = fleet(WRITES.len(), folder.path(), None).await;
    fleet.online(WRITES.len(), PATIENCE).await.unwrap();
    let mut killers: Vec<_> = (0..WRITES.len())
        .map(|number| kill_at(&fleet, number))
        .collect();
    roll_out(&fleet);
    for (number, killer) in killers.iter_mut().enumerate() {
        let status = ended(&fleet, number).await;
        let what = format!("write {}: {}", WRITES[number], fleet.logs());
        assert_eq!(
            status["lastAttempt"]["outcome"], "confirmed",
            "{what}\n{status:#}"
        );
        assert_eq!(status["floor"], 2, "{what}\n{status:#}");
        // It follows the node that it was started for, and ends with that one alone.
        assert!(killer.try_wait().unwrap().is_some(), "{what}");
    }
}

/// I10: what control has heard of a node is true after a power cut right behind it.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_reported_is_on_the_disk() {
    if !ext4::is_possible().unwrap() {
        return;
    }
    for (word, outcome, floor) in [
        (None, "confirmed", 2),
        (Some("exits-at-once"), "crashed", 0),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut fleet = fleet(0, folder.path(), word).await;
        let state = fleet.dir().join("node-1/state");
        let image = folder.path().join("disk");
        let disk = Disk::of(&image, &state, DISK_BYTES).unwrap();
        disk.mount().unwrap();
        match word {
            None => fleet.join(0, 1).unwrap(),
            Some(word) => fleet.join_told(0, word).unwrap(),
        }
        fleet.online(1, PATIENCE).await.unwrap();
        roll_out(&fleet);
        reported(&fleet, outcome).await;
        disk.shut_down().unwrap();
        fleet.nodes[0].supervisor.kill().unwrap();
        // The node dies with its supervisor, a moment later.
        fleet
            .operator
            .until("nobody has the disk open", PATIENCE, |_| {
                Ok(disk.come_back().ok())
            })
            .await
            .unwrap();
        let status = fleet.status(&fleet.nodes[0]).unwrap();
        assert_eq!(status["lastAttempt"]["outcome"], outcome, "{status:#}");
        assert_eq!(status["lastAttempt"]["final"], true, "{status:#}");
        assert_eq!(status["floor"], floor, "{status:#}");
        assert_eq!(status["trial"], Value::Null, "{status:#}");
        // And the node begins where it was.
        fleet.nodes[0].supervisor.start().unwrap();
        fleet.online(1, PATIENCE).await.unwrap();
        fleet.nodes[0].supervisor.kill().unwrap();
    }
}

fn is_required() -> bool {
    std::env::var_os("BCD_TESTS_REQUIRE_EVERYTHING").is_some()
}

/// Kills a node at a write to its download, whichever thread writes.
fn kill_at(fleet: &Fleet, number: usize) -> Child {
    let node = &fleet.nodes[number];
    let children = node.supervisor.children().unwrap();
    let partial = node.dir.join(PARTIAL);
    let killer = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=write", "-P"])
        .arg(&partial)
        .arg("-e")
        .arg(format!("inject=write:signal=KILL:when={}", WRITES[number]))
        .args(["-p", &children[0].to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", children[0]);
    while !std::fs::read_to_string(&status)
        .unwrap()
        .contains(&format!("TracerPid:\t{}", killer.id()))
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    killer
}

/// Waits until the attempt of that node has ended for good.
async fn ended(fleet: &Fleet, number: usize) -> Value {
    fleet
        .operator
        .until("the attempt has ended", PATIENCE, |_| {
            let status = fleet.status(&fleet.nodes[number])?;
            Ok((status["lastAttempt"]["final"] == true).then_some(status))
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", fleet.logs()))
}

/// Waits until control has heard how the node's attempt ended.
async fn reported(fleet: &Fleet, outcome: &str) {
    let id = &fleet.nodes[0].id;
    fleet
        .operator
        .until("control has heard of it", PATIENCE, |operator| {
            let node = operator.json(&["nodes", "get", id])?;
            let attempt = &node["lastAttempt"];
            let is_heard = attempt["outcome"] == outcome && attempt["final"] == true;
            Ok(is_heard.then_some(()))
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", fleet.logs()));
}

/// A fleet, and a release for it that is good unless it is told otherwise.
async fn fleet(nodes: usize, folder: &Path, word: Option<&str>) -> Fleet {
    let (old, new) = (folder.join("old"), folder.join("new"));
    let programs = build::programs().await.unwrap();
    let fault = word.map(|_| Fault::AsTold);
    for (version, fault, to) in [("1.0.0", None, &old), ("1.1.0", fault, &new)] {
        build::agent(AgentBuild { version, fault }, to)
            .await
            .unwrap();
    }
    let plan = Plan {
        pools: vec![PoolPlan {
            name: "interrupted",
            nodes,
            budget: "1",
        }],
        patience: Patience {
            watchdog: Duration::from_secs(30),
            stable: Duration::from_secs(1),
        },
    };
    let fleet = Fleet::start(programs, &old, &plan).await.unwrap();
    fleet
        .publish(&Release {
            version: "1.1.0".to_owned(),
            sequence: 2,
            binary: new,
        })
        .unwrap();
    fleet
}

fn roll_out(fleet: &Fleet) {
    fleet
        .operator
        .run(&[
            "rollouts",
            "create",
            "--version",
            "1.1.0",
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

//! Commands through real processes: done once each whatever is killed in between, late ones not at all, and a daemon too
//! old for everything else upgraded first.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::{io::Write as _, path::Path, time::Duration};

use packaging::{
    build::{self, AgentBuild, Fault},
    fleet::{Fleet, Patience, Plan, PoolPlan, Release},
};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(120);

fn plan(nodes: usize) -> Plan {
    Plan {
        pools: vec![PoolPlan {
            name: "pool",
            nodes,
            budget: "1",
        }],
        patience: Patience {
            watchdog: Duration::from_secs(30),
            stable: Duration::from_secs(1),
        },
    }
}

async fn agent(version: &'static str, fault: Option<Fault>, to: &Path) {
    build::agent(AgentBuild { version, fault }, to)
        .await
        .unwrap();
}

fn create(fleet: &Fleet, kind: &str, more: &[&str]) -> Value {
    let mut args = vec![
        "commands",
        "create",
        "--node",
        &fleet.nodes[0].id,
        "--kind",
        kind,
    ];
    args.extend(more);
    fleet.operator.json(&args).unwrap()
}

fn id(command: &Value) -> &str {
    command["id"].as_str().unwrap()
}

fn get(fleet: &Fleet, id: &str) -> Value {
    fleet.operator.json(&["commands", "get", id]).unwrap()
}

/// Waits until a command has come to this state.
async fn comes_to(fleet: &Fleet, id: &str, state: &str) -> Value {
    fleet
        .operator
        .until("the command has ended", PATIENCE, |operator| {
            let command = operator.json(&["commands", "get", id])?;
            Ok((command["state"] == state).then_some(command))
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}: {:#}\n{}", get(fleet, id), fleet.logs()))
}

/// How often the first node has started.
fn starts(fleet: &Fleet) -> usize {
    let log = fleet.nodes[0].supervisor.log();
    log.matches("the node starts").count()
}

/// I26
#[tokio::test(flavor = "multi_thread")]
async fn commands_are_done_once_whatever_is_killed_in_between() {
    let binaries = tempfile::tempdir().unwrap();
    let package = binaries.path().join("1.0.0");
    let programs = build::programs().await.unwrap();
    agent("1.0.0", None, &package).await;
    let mut fleet = Fleet::start(programs, &package, &plan(1)).await.unwrap();
    fleet.online(1, PATIENCE).await.unwrap();

    let report = create(
        &fleet,
        "diagnostics.collect",
        &["--watch", "--timeout", "60s"],
    );
    assert_eq!(report["state"], "succeeded", "{report:#}");
    let text = report["report"].as_str().unwrap();
    for part in [
        "versions", "status", "doctor", "record", "config", "disk", "log",
    ] {
        assert!(text.contains(&format!("== {part}\n")), "{part}: {text}");
    }
    let key = fleet.nodes[0].dir.join("state/identity/node.key");
    let key = std::fs::read_to_string(key).unwrap();
    assert!(key.lines().all(|line| !text.contains(line)), "{text}");

    let restart = create(&fleet, "daemon.restart", &["--key", "once", "--watch"]);
    assert_eq!(
        restart["state"],
        "succeeded",
        "{restart:#}\n{}",
        fleet.logs()
    );
    assert_eq!(starts(&fleet), 2);
    let again = create(&fleet, "daemon.restart", &["--key", "once"]);
    assert_eq!(id(&again), id(&restart));

    // The gateway is killed with the command somewhere on its way: each has its effect, and no second one.
    for round in 0..3 {
        let key = format!("killed-{round}");
        let command = create(&fleet, "daemon.restart", &["--key", &key]);
        fleet.gateway.kill().unwrap();
        fleet.gateway.start().unwrap();
        comes_to(&fleet, id(&command), "succeeded").await;
        assert_eq!(starts(&fleet), 3 + round, "{}", fleet.logs());
    }
    // So is control.
    let command = create(&fleet, "daemon.restart", &["--key", "control"]);
    fleet.control.kill().unwrap();
    fleet.control.start().unwrap();
    let answers = |operator: &packaging::fleet::Operator| {
        let up = operator.try_run(&["pools", "list"])?.status.success();
        Ok(up.then_some(()))
    };
    let back = fleet.operator.until("control is back", PATIENCE, answers);
    back.await.unwrap();
    comes_to(&fleet, id(&command), "succeeded").await;
    assert_eq!(starts(&fleet), 6, "{}", fleet.logs());

    // What comes too late for an absent node does not come at all.
    fleet.nodes[0].supervisor.kill().unwrap();
    fleet.online(0, PATIENCE).await.unwrap();
    let late = create(&fleet, "daemon.restart", &["--expires", "1s"]);
    let waits = create(
        &fleet,
        "diagnostics.collect",
        &["--collect", "disk,versions"],
    );
    let late = comes_to(&fleet, id(&late), "expired").await;
    assert_eq!(late["code"], "expired", "{late:#}");
    fleet.nodes[0].supervisor.start().unwrap();
    let waits = comes_to(&fleet, id(&waits), "succeeded").await;
    let text = waits["report"].as_str().unwrap();
    assert!(
        text.starts_with("== versions\n") && !text.contains("== log"),
        "{text}"
    );
    assert_eq!(starts(&fleet), 7, "{}", fleet.logs());
}

/// I27: a daemon that turns too old while it is linked is upgraded by a command, and gets the others after that.
#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_too_old_for_everything_else_is_upgraded_first() {
    let binaries = tempfile::tempdir().unwrap();
    let (old, new) = (binaries.path().join("1.0.0"), binaries.path().join("1.1.0"));
    let programs = build::programs().await.unwrap();
    agent("1.0.0", Some(Fault::OldProtocol), &old).await;
    agent("1.1.0", None, &new).await;
    let mut fleet = Fleet::start(programs, &old, &plan(1)).await.unwrap();
    fleet
        .publish(&Release {
            version: "1.1.0".to_owned(),
            sequence: 2,
            binary: new,
        })
        .unwrap();
    fleet.online(1, PATIENCE).await.unwrap();
    raise_minimum(&mut fleet).await;

    let work = create(&fleet, "diagnostics.collect", &["--collect", "versions"]);
    let more = create(&fleet, "diagnostics.collect", &["--collect", "config"]);
    let restart = create(&fleet, "daemon.restart", &[]);
    let rollout = ["rollouts", "create", "--version", "1.1.0", "--waves", "100"];
    let more_flags = ["--soak", "0s", "--yes"];
    let rollout = fleet
        .operator
        .json(&[&rollout[..], &more_flags[..]].concat())
        .unwrap();
    let rollout = rollout["id"].as_str().unwrap();
    let completed = |operator: &packaging::fleet::Operator| {
        let found = operator.json(&["rollouts", "get", rollout])?;
        Ok((found["state"] == "completed").then_some(found))
    };
    let done = fleet
        .operator
        .until("the rollout is done", PATIENCE, completed);
    let done = done
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", fleet.logs()));
    assert_eq!(done["nodes"]["succeeded"], 1, "{done:#}\n{}", fleet.logs());

    let mut ended = Vec::new();
    for command in [&work, &more, &restart] {
        ended.push(comes_to(&fleet, id(command), "succeeded").await);
    }
    let dispatched = |command: &Value| command["dispatchedAt"].as_str().unwrap().to_owned();
    assert!(dispatched(&ended[0]) < dispatched(&ended[1]), "{ended:#?}");
    let report = ended[0]["report"].as_str().unwrap();
    assert!(report.contains("bcd 1.1.0"), "{report}");

    let list = fleet.operator.json(&["commands", "list"]).unwrap();
    let upgrades: Vec<_> = list["commands"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|command| command["kind"] == "daemon.upgrade")
        .collect();
    let [upgrade] = upgrades.as_slice() else {
        panic!("one upgrade: {list:#}")
    };
    let key = format!("rollout:{rollout}:{}", fleet.nodes[0].id);
    assert_eq!(upgrade["idempotencyKey"], key.as_str(), "{upgrade:#}");
    assert_eq!(upgrade["state"], "succeeded", "{upgrade:#}");
    // Nothing went before it.
    assert!(dispatched(upgrade) < dispatched(&ended[0]), "{list:#}");
    let status = fleet.status(&fleet.nodes[0]).unwrap();
    assert_eq!(status["version"], "1.1.0", "{status:#}");
    assert_eq!(status["floor"], 2, "{status:#}");
}

/// Has control start again with a higher minimum, and waits until the session of the node has turned.
async fn raise_minimum(fleet: &mut Fleet) {
    fleet.control.stop(Duration::from_secs(20)).unwrap();
    let config = fleet.dir().join("control.toml");
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(config)
        .unwrap();
    file.write_all(b"\n[protocol]\nminimum = 2\n").unwrap();
    fleet.control.start().unwrap();
    let turned = |operator: &packaging::fleet::Operator| {
        let up = operator.try_run(&["pools", "list"])?.status.success();
        let log = fleet.gateway.log();
        Ok((up && log.contains("good for something else")).then_some(()))
    };
    fleet
        .operator
        .until("the session has turned", PATIENCE, turned)
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", fleet.logs()));
}

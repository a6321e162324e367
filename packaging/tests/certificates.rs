//! Certificates that live for seconds: nodes and gateway renew them over the links that they hold, a node that was away
//! for too long renews at control, and a removed node does neither. Where gateways are is told with them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use packaging::{
    build::{self, AgentBuild},
    fleet::{Fleet, Patience, Plan, PoolPlan, Service},
};

const PATIENCE: Duration = Duration::from_secs(60);

/// For one step of a move: it is a matter of seconds, and other tests may be building beside.
const MOVED_WITHIN: Duration = Duration::from_secs(180);

const LIFE: Duration = Duration::from_secs(12);

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_renewed_while_linked_and_after_an_absence() {
    let mut fleet = fleet().await;
    fleet.online(2, PATIENCE).await.unwrap();
    let seen = fleet.operator.json(&["nodes", "list"]).unwrap();
    let node = fleet.nodes[0].dir.join("state/identity/node.pem");
    let key = fleet.nodes[0].dir.join("state/identity/node.key");
    let gateway = fleet.dir().join("gateway/gateway.pem");
    let first_key = std::fs::read(&key).unwrap();
    for _ in 0..2 {
        changed(&fleet, &node).await;
        changed(&fleet, &gateway).await;
    }
    assert_eq!(std::fs::read(&key).unwrap(), first_key);
    // Two lives later the sessions are the same ones.
    let now = fleet.operator.json(&["nodes", "list"]).unwrap();
    for (before, after) in [0, 1].map(|n| (&seen["nodes"][n], &now["nodes"][n])) {
        assert_eq!(
            (&after["online"], &after["since"]),
            (&before["online"], &before["since"])
        );
    }

    fleet.nodes[0].supervisor.kill().unwrap();
    fleet.online(1, PATIENCE).await.unwrap();
    // Nobody can hurry a certificate's end.
    tokio::time::sleep(LIFE).await;
    let before = std::fs::read(&node).unwrap();
    fleet.nodes[0].supervisor.start().unwrap();
    fleet.online(2, PATIENCE).await.unwrap();
    assert_ne!(std::fs::read(&node).unwrap(), before);
    let log = fleet.nodes[0].supervisor.log();
    assert!(log.contains("the certificate has ended"), "{log}");
}

/// While control was away the certificates of everybody have ended, the gateway's own among them.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_whose_certificate_has_ended_comes_back() {
    let mut fleet = fleet().await;
    fleet.online(2, PATIENCE).await.unwrap();
    fleet.control.kill().unwrap();
    // Nobody can hurry a certificate's end.
    tokio::time::sleep(LIFE).await;
    fleet.control.start().unwrap();
    fleet.operator.ready(&mut fleet.control).await.unwrap();
    let gateway = &fleet.gateway;
    fleet
        .operator
        .until("the gateway is enrolled again", MOVED_WITHIN, |_| {
            Ok(gateway.log().contains("enrolled again").then_some(()))
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", fleet.logs()));
    fleet.online(2, MOVED_WITHIN).await.unwrap();
    let linked = fleet.operator.json(&["gateways", "list"]).unwrap();
    assert_eq!(linked["gateways"][0]["linked"], true, "{linked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_node_is_put_out_and_stays_out() {
    let fleet = fleet().await;
    fleet.online(2, PATIENCE).await.unwrap();
    let gone = &fleet.nodes[0];
    let removed = fleet
        .operator
        .json(&["nodes", "remove", &gone.id, "--yes"])
        .unwrap();
    assert_eq!(removed["id"], gone.id.as_str());
    let put_out = |_: &packaging::fleet::Operator| {
        let status = fleet.status(gone)?;
        Ok((status["session"]["connected"] == false).then_some(()))
    };
    // The gateway hears of it within a second; the rest is this machine's load.
    let soon = Duration::from_secs(10);
    fleet
        .operator
        .until("it is put out", soon, put_out)
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", fleet.logs()));
    let pool = fleet.operator.json(&["pools", "get", "pool"]).unwrap();
    assert_eq!(pool["nodes"], 1);
    // Not by the gateways, nor by control when its certificate has ended.
    fleet
        .operator
        .until("control refuses it", PATIENCE, |_| {
            let log = gone.supervisor.log();
            Ok(log.contains("one that was removed").then_some(()))
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", fleet.logs()));
    fleet.online(1, PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_in_two_places_is_told_of() {
    let fleet = fleet().await;
    fleet.online(2, PATIENCE).await.unwrap();
    let original = &fleet.nodes[0];
    let copy = fleet.dir().join("copy");
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([&original.dir, &copy])
        .status();
    assert!(copied.unwrap().success());
    let (from, to) = (original.dir.to_str().unwrap(), copy.to_str().unwrap());
    let config = std::fs::read_to_string(copy.join("bcd.toml")).unwrap();
    let made = std::process::Command::new("sed")
        .arg("-i")
        .arg(format!("s#{from}#{to}#g"))
        .arg(copy.join("bcd.toml"))
        .status();
    assert!(made.unwrap().success() && config.contains(from));
    let mut clone = Service::new("copy", fleet.package(), &fleet.dir().join("logs"));
    clone
        .args(["supervise", "--config"])
        .arg(copy.join("bcd.toml"));
    clone.start().unwrap();
    let told = |operator: &packaging::fleet::Operator| {
        let events = operator.json(&["events", "list"])?;
        let events = events["events"].as_array().into_iter().flatten();
        let kinds = events.filter(|event| event["type"] == "node.duplicate");
        let subjects: Vec<_> = kinds.map(|event| event["subject"].clone()).collect();
        Ok((!subjects.is_empty()).then_some(subjects))
    };
    let subjects = fleet
        .operator
        .until("the duplicate is told of", PATIENCE, told)
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}\n{}", clone.log(), fleet.logs()));
    // Once, however often they take the session from each other.
    assert_eq!(subjects, [format!("node/{}", original.id)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_in_two_places_keeps_its_nodes_and_comes_back() {
    let mut fleet = fleet_with("").await;
    fleet.online(2, MOVED_WITHIN).await.unwrap();
    let before = seen(&fleet);
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([fleet.dir().join("gateway"), fleet.dir().join("twin")])
        .status();
    assert!(copied.unwrap().success());
    let (_, port) = fleet.session_address();
    let config = std::fs::read_to_string(fleet.dir().join("gateway.toml")).unwrap();
    let elsewhere = config.replace(&format!("127.0.0.1:{port}"), "127.0.0.1:0");
    let elsewhere = elsewhere.replace("/gateway\"", "/twin\"");
    assert!(elsewhere != config && elsewhere.contains("/twin\""));
    let twin_config = fleet.dir().join("twin.toml");
    #[expect(
        clippy::disallowed_methods,
        reason = "a test's folder does not outlive a power cut"
    )]
    std::fs::write(&twin_config, elsewhere).unwrap();
    let gateway = &fleet.programs().gateway;
    let mut twin = Service::new("twin", gateway, &fleet.dir().join("logs"));
    twin.arg("--config").arg(&twin_config);
    twin.start().unwrap();
    // It hears why, more than once, and nobody else is the worse.
    fleet
        .operator
        .until("the copy is refused", PATIENCE, |_| {
            let refusals = twin.log().matches("is state_dir a copy").count();
            Ok((refusals >= 3).then_some(()))
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}\n{}", twin.log(), fleet.logs()));
    let kinds = |kind: &str| {
        let events = fleet.operator.json(&["events", "list", "--type", kind]);
        let events = events.unwrap();
        events["events"].as_array().map_or(0, Vec::len)
    };
    assert_eq!((kinds("gateway.duplicate"), kinds("node.offline")), (1, 0));
    assert_eq!(seen(&fleet), before);
    // The first is killed: the other has the link at once, and gives it back when it is killed too.
    fleet.gateway.kill().unwrap();
    fleet
        .operator
        .until("the copy is linked", PATIENCE, |_| {
            Ok(twin.log().contains("linked control=").then_some(()))
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}\n{}", twin.log(), fleet.logs()));
    twin.kill().unwrap();
    fleet.gateway.start().unwrap();
    fleet.online(2, MOVED_WITHIN).await.unwrap();
}

/// Which nodes are online, and since when.
fn seen(fleet: &Fleet) -> Vec<(serde_json::Value, serde_json::Value)> {
    let nodes = fleet.operator.json(&["nodes", "list"]).unwrap();
    let nodes = nodes["nodes"].as_array().unwrap().iter();
    nodes
        .map(|node| (node["online"].clone(), node["since"].clone()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_moves_to_a_gateway_that_came_after_it() {
    // Certificates of the usual life, which nobody renews today.
    let mut fleet = fleet_with("").await;
    fleet.online(2, MOVED_WITHIN).await.unwrap();
    let identities = [0, 1].map(|n: usize| fleet.nodes[n].dir.join("state/identity/node.json"));
    let told = |wanted: usize| {
        let identities = &identities;
        move |_: &packaging::fleet::Operator| {
            for file in identities {
                let json: serde_json::Value = serde_json::from_slice(&std::fs::read(file)?)?;
                if json["gateways"].as_array().map(Vec::len) != Some(wanted) {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        }
    };
    let mut second = fleet.add_gateway("second").unwrap();
    fleet
        .operator
        .until("every node knows both gateways", MOVED_WITHIN, told(2))
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}\n{}", second.log(), fleet.logs()));
    fleet.gateway.stop(MOVED_WITHIN).unwrap();
    fleet
        .operator
        .run(&["gateways", "remove", "gateway", "--yes"])
        .unwrap();
    fleet.online(2, MOVED_WITHIN).await.unwrap();
    fleet
        .operator
        .until("every node has forgotten the first", MOVED_WITHIN, told(1))
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}\n{}", second.log(), fleet.logs()));
    second.check().unwrap();
}

/// Waits until a file holds something else.
async fn changed(fleet: &Fleet, file: &Path) {
    let before = std::fs::read(file).unwrap();
    fleet
        .operator
        .until("the certificate is renewed", PATIENCE, |_| {
            Ok((std::fs::read(file)? != before).then_some(()))
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}: {}\n{}", file.display(), fleet.logs()));
}

/// One whose certificates end soon.
async fn fleet() -> Fleet {
    let life = humantime::format_duration(LIFE);
    fleet_with(&format!(
        "\n[nodes]\ncertificate_lifetime = \"{life}\"\n\n[gateways]\ncertificate_lifetime = \"{life}\"\n"
    ))
    .await
}

async fn fleet_with(tables: &str) -> Fleet {
    let binaries = tempfile::tempdir().unwrap();
    let package: PathBuf = binaries.path().join("1.0.0");
    let programs = build::programs().await.unwrap();
    let version = AgentBuild {
        version: "1.0.0",
        fault: None,
    };
    build::agent(version, &package).await.unwrap();
    let plan = Plan {
        pools: vec![PoolPlan {
            name: "pool",
            nodes: 2,
            budget: "0.5",
        }],
        patience: Patience {
            watchdog: Duration::from_secs(20),
            stable: Duration::from_secs(1),
        },
    };
    Fleet::start_with(programs, &package, &plan, tables)
        .await
        .unwrap()
}

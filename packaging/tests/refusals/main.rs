//! A release that is wrong is refused by everybody who meets it: by the command line before it is published, by
//! control when it is registered, and by a node that is sent it anyway.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod hostile;
mod releases;

use std::time::Duration;

use bc_protocol::session::Outcome;
use hostile::Hostile;
use packaging::{
    build::{self, AgentBuild},
    fleet::{Fleet, Patience, Plan},
};
use releases::{Bad, Forge, Signed};

/// A node under a control that sends whatever it is told to.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_refuses_what_a_hostile_control_sends() {
    let dir = tempfile::tempdir().unwrap();
    let programs = build::programs().await.unwrap();
    let package = dir.path().join("1.0.0");
    let good = dir.path().join("1.1.0");
    build::agent(
        AgentBuild {
            version: "1.0.0",
            fault: None,
        },
        &package,
    )
    .await
    .unwrap();
    build::agent(
        AgentBuild {
            version: "1.1.0",
            fault: None,
        },
        &good,
    )
    .await
    .unwrap();
    let forge = Forge::new(&programs.control, dir.path());
    let hostile = Hostile::start(&good).await;
    let _node = hostile.join(&package, &forge, dir.path());

    // The hostile control brings one good release first, so that there is a floor to go below.
    let release = forge.sign(
        &good,
        Signed {
            version: "1.1.0",
            ..Signed::well(5)
        },
    );
    let answer = hostile.send(&release, &release).await;
    assert_eq!(answer.outcome, Outcome::Confirmed, "{answer:?}");

    for bad in Bad::ALL {
        let before = hostile.facts();
        let (section, manifest) = forge.bad(bad, &good);
        let answer = hostile.send(&section, &manifest).await;
        assert_eq!(
            (answer.outcome, answer.code.as_str()),
            (Outcome::Refused, bad.code_of_node()),
            "{bad:?}: {answer:?}"
        );
        let after = hostile.facts();
        assert_eq!(
            (after.sequence, after.digest),
            (before.sequence, before.digest),
            "{bad:?}"
        );
        assert_eq!(
            (after.floor, after.slot),
            (before.floor, before.slot),
            "{bad:?}"
        );
    }
}

/// The same releases, where an honest operator would try to publish them.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_and_control_refuse_what_is_wrong() {
    let programs = build::programs().await.unwrap();
    let plan = Plan {
        pools: Vec::new(),
        patience: Patience {
            watchdog: Duration::from_secs(9),
            stable: Duration::from_secs(1),
        },
    };
    let fleet = Fleet::start(programs.clone(), &programs.gateway, &plan)
        .await
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let forge = Forge::with_keys(&programs.control, dir.path(), fleet.keys.clone());
    // Any file is a binary to those who do not run it.
    let binary = programs.gateway;
    let registered = forge.sign(
        &binary,
        Signed {
            version: "1.1.0",
            ..Signed::well(5)
        },
    );
    fleet
        .operator
        .run(&["releases", "register", registered.path()])
        .unwrap();

    for bad in Bad::ALL {
        let (_, manifest) = forge.bad(bad, &binary);
        let verified = forge.verify(&manifest);
        assert_eq!(verified.status.code(), Some(1), "{bad:?}: {verified:?}");
        let told = String::from_utf8_lossy(&verified.stderr).into_owned();
        assert!(told.contains(bad.code_of_command_line()), "{bad:?}: {told}");

        let Some(code) = bad.code_of_control() else {
            continue;
        };
        let refused = fleet
            .operator
            .try_run(&["releases", "register", manifest.path(), "--output", "json"])
            .unwrap();
        assert_eq!(refused.status.code(), Some(1), "{bad:?}: {refused:?}");
        let error: serde_json::Value = serde_json::from_slice(&refused.stderr).unwrap();
        let error = error.get("error").unwrap_or(&error);
        assert_eq!(error["code"], "INVALID_INPUT", "{bad:?}: {error:#}");
        assert_eq!(error["details"]["reason"], code, "{bad:?}: {error:#}");
    }
    let list = fleet.operator.json(&["releases", "list"]).unwrap();
    assert_eq!(list["releases"].as_array().unwrap().len(), 1, "{list:#}");
}

//! Pictures for the README, of a fleet that runs: the console here, a rollout at a terminal in `terminal`.
//!
//! Takes a folder, leaves pictures there. What they show is a real fleet at work, as the quickstart starts it: nothing on
//! them is drawn.

pub mod stage;
pub mod terminal;

use std::{path::Path, process::Stdio, time::Duration};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{
    browser::{Browser, ENTER, Scheme, keep},
    build::{self, AgentBuild, Fault},
    fleet::{Fleet, Patience, Plan, PoolPlan, Release},
};

const RELEASES: [AgentBuild; 3] = [
    AgentBuild {
        version: "1.0.0",
        fault: None,
    },
    AgentBuild {
        version: "1.1.0",
        fault: None,
    },
    AgentBuild {
        version: "1.2.0",
        fault: Some(Fault::NeverConnects),
    },
];

/// Pages are cut off below this: a picture in a text is no poster.
const HEIGHT_MAX: u32 = 1000;

/// Takes them.
pub async fn take(into: &Path, tell: fn(&str)) -> Result<()> {
    tell("building control, gateway and three agents");
    let programs = build::programs().await?;
    let binaries = tempfile::Builder::new().prefix("bcd-builds-").tempdir()?;
    for agent in RELEASES.into_iter().rev() {
        build::agent(agent, &binaries.path().join(agent.version)).await?;
    }
    tell("starting a fleet of ten nodes");
    let fleet = fleet(programs, binaries.path()).await?;
    tell("bringing out a good release, then a bad one");
    let good = roll_out(&fleet, "1.1.0").await?;
    tell(&format!("{good} is over"));
    let bad = roll_out(&fleet, "1.2.0").await?;
    let browser = Browser::start().await?;
    browser.resize(1280, 900).await?;
    browser.prefer(Scheme::Light).await?;
    let url = fleet.operator.url();
    browser.open(&format!("{url}/console")).await?;
    let token = std::fs::read_to_string(fleet.operator.token_file())?;
    browser
        .write("#token", &(token.trim().to_owned() + ENTER))
        .await?;
    browser
        .until(
            "somebody is signed in",
            "document.querySelector('li.rollout')",
        )
        .await?;
    let base = format!("{url}/console/t/root");
    for (name, path) in [
        ("console-rollouts.png", "rollouts".to_owned()),
        ("console-rollout.png", format!("rollouts/{bad}")),
        ("console-fleet.png", "fleet".to_owned()),
    ] {
        browser.open(&format!("{base}/{path}")).await?;
        browser
            .until(
                "the page is live",
                "document.querySelector('#live-state[data-state=on]')",
            )
            .await?;
        let file = into.join(name);
        keep(&file, &browser.picture(HEIGHT_MAX).await?)?;
        tell(&format!("took {}", file.display()));
    }
    browser.quit().await
}

async fn fleet(programs: build::Programs, binaries: &Path) -> Result<Fleet> {
    let pool = |name, nodes, budget| PoolPlan {
        name,
        nodes,
        budget,
    };
    let plan = Plan {
        pools: vec![pool("compute", 6, "0.5"), pool("storage", 4, "0.34")],
        patience: Patience {
            watchdog: Duration::from_secs(6),
            stable: Duration::from_secs(1),
        },
    };
    let fleet = Fleet::start(programs, &binaries.join("1.0.0"), &plan).await?;
    for (sequence, agent) in (1..).zip(RELEASES) {
        fleet.publish(&Release {
            version: agent.version.to_owned(),
            sequence,
            binary: binaries.join(agent.version),
        })?;
    }
    fleet.online(10, Duration::from_secs(90)).await?;
    Ok(fleet)
}

/// Brings a release out and waits until nothing moves any more; gives the rollout's id.
async fn roll_out(fleet: &Fleet, version: &str) -> Result<String> {
    let made = fleet.operator.json(&[
        "rollouts",
        "create",
        "--version",
        version,
        "--waves",
        "10,50,100",
        "--soak",
        "2s",
        "--upgrade-timeout",
        "60s",
        "--yes",
    ])?;
    let id = made.get("id").and_then(Value::as_str);
    let id = id.context("the rollout has no id")?.to_owned();
    let watch = ["rollouts", "watch", &id];
    fleet.operator.follow(&watch, Stdio::null()).await?;
    Ok(id)
}

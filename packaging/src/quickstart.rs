//! The main job, shown on one machine: a good release goes through a fleet, a bad one stops at its canary.
//!
//! Everything in it is real: processes, TLS, signatures, databases. Only patience is short: soak, watchdog and
//! stability hold take seconds, so that the whole show does.

mod story;

pub use story::{Audience, Story};

use std::{process::Stdio, time::Duration};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::Value;

use crate::{
    build::{self, AgentBuild, Fault, Programs},
    fleet::{Fleet, Patience, Plan, PoolPlan, Three, Verdict},
};

/// What to show.
#[derive(Clone, Copy, Debug)]
pub struct Quickstart {
    /// Nodes, at least 2; they are spread over two pools.
    pub nodes: usize,
    /// What is to happen afterwards.
    pub ending: Ending,
    /// Who looks on.
    pub audience: Audience,
}

/// What happens when the show is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Everything is ended and removed.
    Leave,
    /// The fleet runs on until Ctrl-C.
    Stay,
}

/// What the show ended with.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Both rollouts, as `rollouts get` gives them.
    pub rollouts: Vec<Value>,
    /// Every node, as control knows it.
    pub nodes: Vec<NodeOutcome>,
}

/// How one node ended.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeOutcome {
    /// Its id.
    pub id: Value,
    /// Its pool.
    pub pool: Value,
    /// The version that it runs.
    pub version: Value,
    /// The oldest release that it accepts.
    pub floor: Value,
    /// The slot that runs.
    pub slot: Value,
    /// Its newest attempt.
    pub last_attempt: Value,
}

const PATIENCE: Patience = Patience {
    watchdog: Duration::from_secs(6),
    stable: Duration::from_secs(1),
};

/// Runs the show.
pub async fn run(quickstart: Quickstart) -> Result<Outcome> {
    ensure!(
        quickstart.nodes >= 2,
        "--nodes: expected at least 2, found {}",
        quickstart.nodes
    );
    let story = Story::new(quickstart.audience);
    story.chapter("Build control, gateway and three agents");
    let programs = build::programs().await?;
    let three = Three::build(|agent| story.line(&built(agent))).await?;
    let fleet = start(&story, quickstart.nodes, programs, &three).await?;

    story.chapter("1.1.0 goes out in waves: a canary, half, everybody");
    let good = roll_out(&story, &fleet, Three::GOOD.version).await?;
    ensure!(
        good.verdict == Verdict::Completed,
        "the rollout of 1.1.0 did not complete"
    );

    story.chapter("1.2.0 starts and never connects: its canary goes back, the rollout stops");
    let bad = roll_out(&story, &fleet, Three::BAD.version).await?;
    ensure!(
        bad.verdict == Verdict::Stopped,
        "the rollout of 1.2.0 was not stopped"
    );
    tell_why(&story, &fleet, &bad.id)?;
    fleet.operator.run(&[
        "rollouts",
        "abort",
        &bad.id,
        "--yes",
        "--reason",
        "1.2.0 never connects",
    ])?;
    story.line("aborted; nobody else was touched");

    let outcome = outcome(&fleet, &[&good.id, &bad.id])?;
    story.nodes(&outcome.nodes);
    if quickstart.ending == Ending::Stay {
        story.how_to_go_on(&fleet);
        std::future::pending::<()>().await;
    }
    Ok(outcome)
}

/// Which agent was built, and what is wrong with it on purpose.
fn built(agent: AgentBuild) -> String {
    let version = agent.version;
    match agent.fault {
        None => format!("bcd {version}"),
        Some(Fault::NeverConnects) => format!("bcd {version}, which never connects, on purpose"),
        Some(Fault::OldProtocol) => format!("bcd {version}, which speaks the oldest protocol"),
        Some(Fault::AsTold) => format!("bcd {version}, which does as it is told"),
    }
}

async fn start(story: &Story, nodes: usize, programs: Programs, three: &Three) -> Result<Fleet> {
    story.chapter("Start control, a gateway and nodes");
    let half = nodes / 2;
    let plan = Plan {
        pools: vec![
            PoolPlan {
                name: "compute",
                nodes: nodes - half,
                budget: "0.5",
            },
            PoolPlan {
                name: "storage",
                nodes: half,
                budget: "0.34",
            },
        ],
        patience: PATIENCE,
    };
    let fleet = three.fleet(programs, &plan).await?;
    story.line(&format!("everything is in {}", fleet.dir().display()));
    story.line(&format!("the API listens at {}", fleet.operator.url()));
    for agent in Three::ALL {
        story.line(&format!(
            "{} signed by two keys and registered",
            agent.version
        ));
    }
    fleet.online(nodes, Duration::from_secs(60)).await?;
    story.line(&format!(
        "{nodes} nodes in two pools run {}; short patience: soak 2s, watchdog {:?}, stability hold {:?}",
        Three::PACKAGED.version, PATIENCE.watchdog, PATIENCE.stable
    ));
    Ok(fleet)
}

/// A rollout that was followed to its end.
struct Followed {
    id: String,
    verdict: Verdict,
}

async fn roll_out(story: &Story, fleet: &Fleet, version: &str) -> Result<Followed> {
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
    let id = made
        .get("id")
        .and_then(Value::as_str)
        .context("the rollout has no id")?
        .to_owned();
    let shown = story.progress();
    let verdict = fleet
        .operator
        .follow(&["rollouts", "watch", &id], shown)
        .await?;
    Ok(Followed { id, verdict })
}

fn tell_why(story: &Story, fleet: &Fleet, id: &str) -> Result<()> {
    let rollout = fleet.operator.json(&["rollouts", "get", id])?;
    if let Some(reason) = field(&rollout, "reason").as_str() {
        story.line(&format!("paused by itself: {reason}"));
    }
    for row in each(&rollout, "nodeList").filter(|row| field(row, "state") == "failed") {
        let (Some(node), Some(error)) =
            (field(row, "nodeId").as_str(), field(row, "error").as_str())
        else {
            continue;
        };
        story.line(&format!("{node}: {error}"));
    }
    Ok(())
}

fn outcome(fleet: &Fleet, rollouts: &[&str]) -> Result<Outcome> {
    let rollouts = rollouts
        .iter()
        .map(|id| fleet.operator.json(&["rollouts", "get", id]))
        .collect::<Result<_>>()?;
    let list = fleet.operator.json(&["nodes", "list"])?;
    let nodes = each(&list, "nodes")
        .map(|node| NodeOutcome {
            id: field(node, "id").clone(),
            pool: field(node, "poolId").clone(),
            version: field(node, "version").clone(),
            floor: field(node, "floor").clone(),
            slot: field(node, "slot").clone(),
            last_attempt: field(node, "lastAttempt").clone(),
        })
        .collect();
    Ok(Outcome { rollouts, nodes })
}

/// The list under a key; empty where there is none.
fn each<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    object
        .get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// The value under a key; null where there is none.
fn field<'a>(object: &'a Value, key: &str) -> &'a Value {
    object.get(key).unwrap_or(&Value::Null)
}

/// Where a program's progress is shown.
fn inherit_stderr() -> Stdio {
    std::io::stderr().into()
}

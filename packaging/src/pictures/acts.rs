//! What a fleet goes through before pictures of it are taken.
//!
//! Takes the programs and how many nodes there are, gives a fleet in which there is something to see: a rollout that has
//! completed, one that paused by itself, one that soaks and one whose nodes are at work; nodes that are away, held, late.

use std::{process::Stdio, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::sync::watch;

use super::stage::{Crowd, Stage};
use crate::{
    build::Programs,
    fleet::{Operator, Verdict},
    simulated::{Habits, Telling},
};

/// Of a hundred attempts of the bad release so many fail: a wave of fifty does not get by with that.
const FAILING: u8 = 20;

/// Long enough to be looked at.
const AT_WORK: Duration = Duration::from_secs(300);

/// A fleet that has gone through all that.
pub(super) struct Acts {
    pub(super) stage: Stage,
    /// The rollout that paused by itself.
    pub(super) paused: String,
    soaking: String,
    moving: String,
    /// A node that failed, and one at work.
    nodes: [String; 2],
}

impl Acts {
    /// Plays everything. Of the nodes a tenth is in the second pool, and three more are in a third.
    pub(super) async fn play(programs: &Programs, nodes: usize, tell: fn(&str)) -> Result<Self> {
        let (fails, failing) = watch::channel(0);
        let stage = Stage::with(programs, &crowds(nodes, &failing)).await?;
        let operator = &stage.fleet.operator;
        tell("bringing 1.1.0 to everybody");
        let everybody = ["--pool", "compute", "--pool", "storage", "--soak", "0s"];
        let good = create(operator, "1.1.0", &everybody)?;
        ensure!(
            watched(operator, &good).await? == Verdict::Completed,
            "1.1.0 did not complete"
        );
        stage.lose(0, nodes / 50);
        tell("bringing out 1.2.0, which a fifth of the nodes do not keep");
        fails.send_replace(FAILING);
        let bad = ["--pool", "compute", "--soak", "10m", "--waves", "5,25,100"];
        let paused = create(operator, "1.2.0", &bad)?;
        ensure!(
            watched(operator, &paused).await? == Verdict::Stopped,
            "1.2.0 did not pause"
        );
        fails.send_replace(0);
        let storage = ["--pool", "storage", "--soak", "6h"];
        let soaking = create(operator, "1.2.0", &storage)?;
        let moving = create(
            operator,
            "1.2.0",
            &["--pool", "lab", "--soak", "10m", "--upgrade-timeout", "1h"],
        )?;
        let failed = node(operator, (&paused, "failed")).await?;
        let at_work = node(operator, (&moving, "upgrading")).await?;
        node(operator, (&soaking, "succeeded")).await?;
        Ok(Self {
            stage,
            paused,
            soaking,
            moving,
            nodes: [failed, at_work],
        })
    }

    /// The administrator's token.
    pub(super) fn token(&self) -> Result<String> {
        let token = std::fs::read_to_string(self.stage.fleet.operator.token_file())?;
        Ok(token.trim().to_owned())
    }

    /// Every page by a name for its picture.
    pub(super) fn pages(&self) -> Vec<(&'static str, String)> {
        let Self {
            paused,
            soaking,
            moving,
            nodes: [failed, at_work],
            ..
        } = self;
        vec![
            ("rollouts", "rollouts".to_owned()),
            ("rollout-paused", format!("rollouts/{paused}?said=paused")),
            ("rollout-soaking", format!("rollouts/{soaking}")),
            ("rollout-moving", format!("rollouts/{moving}")),
            ("rows", format!("rollouts/{paused}/nodes?state=failed")),
            ("rows-none", format!("rollouts/{paused}/nodes?q=nobody")),
            ("fleet", "fleet".to_owned()),
            ("nodes", "nodes".to_owned()),
            ("nodes-held", "nodes?standing=held".to_owned()),
            ("node-failed", format!("nodes/{failed}")),
            ("node-moving", format!("nodes/{at_work}")),
            ("releases", "releases".to_owned()),
            ("events", "events".to_owned()),
            ("empty-rollouts", "/console/t/new/rollouts".to_owned()),
            ("empty-fleet", "/console/t/new/fleet".to_owned()),
            ("empty-nodes", "/console/t/new/nodes".to_owned()),
            ("empty-events", "/console/t/new/events".to_owned()),
            ("sign-in", "/console/sign-in".to_owned()),
            ("nothing", "nothing".to_owned()),
            ("docs", "/docs".to_owned()),
            ("docs-paused", "/docs/paused.html".to_owned()),
            ("docs-api", "/docs/api.html".to_owned()),
        ]
    }
}

fn crowds(nodes: usize, failing: &watch::Receiver<u8>) -> [Crowd; 3] {
    let habits = |slow, telling| Habits {
        slow,
        telling,
        failing: failing.clone(),
        ..Habits::default()
    };
    let quick = habits(Duration::from_millis(300), Telling::Result);
    let crowd = |pool, nodes, budget, habits| Crowd {
        pool,
        nodes,
        budget,
        held: 1,
        habits,
    };
    [
        crowd("compute", nodes - nodes / 10, "0.1", quick.clone()),
        crowd("storage", nodes / 10, "0.05", quick),
        crowd("lab", 3, "0.7", habits(AT_WORK, Telling::Progress)),
    ]
}

fn create(operator: &Operator, version: &str, more: &[&str]) -> Result<String> {
    let mut args = vec!["rollouts", "create", "--version", version, "--yes"];
    args.extend(more);
    let made = operator.json(&args)?;
    let id = made.get("id").and_then(Value::as_str);
    Ok(id.context("the rollout has no id")?.to_owned())
}

async fn watched(operator: &Operator, id: &str) -> Result<Verdict> {
    let watch = ["rollouts", "watch", id];
    operator.follow(&watch, Stdio::null()).await
}

/// A node of a rollout in that state, as soon as there is one.
async fn node(operator: &Operator, (rollout, state): (&str, &str)) -> Result<String> {
    let what = format!("a node is {state}");
    let patience = Duration::from_secs(60);
    let found = operator.until(&what, patience, |operator| {
        let rollout = operator.json(&["rollouts", "get", rollout])?;
        let rows = rollout.get("nodeList").and_then(Value::as_array);
        let mut rows = rows.into_iter().flatten();
        let row = rows.find(|row| row.get("state").and_then(Value::as_str) == Some(state));
        let id = row.and_then(|row| row.get("nodeId")?.as_str());
        Ok(id.map(ToOwned::to_owned))
    });
    found.await
}

//! Random kills of a real fleet, in the middle of its rollouts.
//!
//! Takes a number of rollouts and a seed, gives what was broken. Whatever is killed or frozen comes back within a
//! second or two, so every rollout has to complete, every node has to run its release, and node and control have to
//! say the same about it. The seed decides who is struck, how and when; what that meets is the machine's affair.

mod blow;
mod check;

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Write},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    build::{self, AgentBuild},
    fleet::{Fleet, Patience, Plan, PoolPlan, Release, now},
};

use blow::Blows;
use check::Watcher;

/// Nodes of the fleet. The pool's budget lets half of them be in flight.
const NODES: usize = 4;

/// How long a rollout is struck at. A quiet one takes some ten seconds.
const STRUCK: Duration = Duration::from_secs(120);

/// How long it may take from then on: a node that found its gateway gone time and again may wait for a minute.
const UNSTRUCK: Duration = Duration::from_secs(120);

/// How long everybody may take to be back and to agree, after the last blow of a rollout.
const REST: Duration = Duration::from_secs(60);

/// What to do to a fleet.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// Rollouts, at least 1.
    pub rounds: u64,
    /// Decides who is struck, how and when.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Blows that were dealt, freezes among them.
    pub kills: usize,
    /// Rollouts that were seen to their end.
    pub rollouts: u64,
    /// What must never be, and was.
    pub violations: Vec<String>,
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "kills={} rollouts={} violations={}",
            self.kills,
            self.rollouts,
            self.violations.len()
        )
    }
}

/// Strikes at a fleet through that many rollouts.
pub async fn run(campaign: Campaign) -> Result<Findings> {
    ensure!(campaign.rounds >= 1, "--rounds: expected at least 1");
    tell(&format!("seed {}", campaign.seed));
    let mut rng = StdRng::seed_from_u64(campaign.seed);
    let agents = Agents::build(campaign.rounds).await?;
    let mut fleet = agents.fleet().await?;
    let mut findings = Findings::default();
    for round in 1..=campaign.rounds {
        let began = now();
        let before = (findings.kills, findings.violations.len());
        roll_out(&mut fleet, &agents.version(round), &mut rng, &mut findings).await?;
        findings
            .violations
            .extend(check::at_rest(&fleet, round + 1, &agents.version(round), REST).await);
        findings.rollouts += 1;
        tell(&format!(
            "{}: {} blows in {:.0?}",
            agents.version(round),
            findings.kills - before.0,
            now() - began
        ));
        for violation in findings.violations.iter().skip(before.1) {
            tell(&format!("VIOLATION {violation}"));
        }
        if findings.violations.len() > before.1 {
            tell(&fleet.logs());
        }
    }
    Ok(findings)
}

/// One rollout under blows, from its creation to its end.
async fn roll_out(
    fleet: &mut Fleet,
    version: &str,
    rng: &mut StdRng,
    findings: &mut Findings,
) -> Result<()> {
    // Blows restart nodes that have the release already, which the gate rightly takes for a fault of the release. Nobody is
    // let off by this: where every node ends is looked at below.
    let made = fleet.operator.json(&[
        "rollouts",
        "create",
        "--version",
        version,
        "--waves",
        "25,50,100",
        "--soak",
        "500ms",
        "--upgrade-timeout",
        "5m",
        "--max-failure-ratio",
        "1",
        "--yes",
    ])?;
    let id = made.get("id").and_then(Value::as_str);
    let id = id.context("the rollout has no id")?.to_owned();
    let mut blows = Blows::default();
    let mut watcher = Watcher::new(NODES, NODES / 2);
    let begun = now();
    let ended = loop {
        if let Some(rollout) = look(fleet, &id)? {
            findings.violations.extend(watcher.look(&rollout));
            let state = rollout.get("state").and_then(Value::as_str);
            if let Some(state) = state.filter(|state| *state != "running") {
                break state.to_owned();
            }
        }
        if now() - begun > STRUCK + UNSTRUCK {
            break format!("still running {UNSTRUCK:?} after the last blow");
        }
        let pause = Duration::from_millis(rng.random_range(0..400));
        tokio::time::sleep(pause).await;
        if now() - begun < STRUCK {
            findings.kills += blows.strike(fleet, rng).await?;
        }
    };
    if ended != "completed" {
        let violation = format!("the rollout of {version} was to complete, and is {ended}");
        findings.violations.push(violation);
    }
    Ok(())
}

/// The rollout now; None while control does not answer.
fn look(fleet: &Fleet, id: &str) -> Result<Option<Value>> {
    let args = ["rollouts", "get", id, "--output", "json"];
    let output = fleet.operator.try_run(&args)?;
    Ok(serde_json::from_slice(&output.stdout).ok())
}

/// The agents of a campaign: the package's one, and one for every rollout.
#[derive(Debug)]
struct Agents {
    dir: TempDir,
    programs: build::Programs,
    rounds: u64,
}

impl Agents {
    async fn build(rounds: u64) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("bcd-builds-").tempdir()?;
        let programs = build::programs().await?;
        let agents = Self {
            dir,
            programs,
            rounds,
        };
        for round in 0..=rounds {
            let version = agents.version(round);
            let to = agents.dir.path().join(&version);
            // A build's version lives as long as the program; there is one for every rollout.
            let version = version.leak();
            let fault = None;
            build::agent(AgentBuild { version, fault }, &to).await?;
        }
        Ok(agents)
    }

    /// The version that a round rolls out; the package's before the first.
    fn version(&self, round: u64) -> String {
        match round.checked_sub(1) {
            None => "1.0.0".to_owned(),
            Some(patch) => format!("1.1.{patch}"),
        }
    }

    async fn fleet(&self) -> Result<Fleet> {
        let plan = Plan {
            pools: vec![PoolPlan {
                name: "struck",
                nodes: NODES,
                budget: "0.5",
            }],
            // Longer than two restarts and a frozen gateway, also on a machine that is busy with something else, so that
            // no good release is ever blamed for them.
            patience: Patience {
                watchdog: Duration::from_secs(60),
                stable: Duration::from_secs(1),
            },
        };
        let package = self.dir.path().join(self.version(0));
        let fleet = Fleet::start(self.programs.clone(), &package, &plan).await?;
        for round in 0..=self.rounds {
            let version = self.version(round);
            let binary = self.dir.path().join(&version);
            fleet.publish(&Release {
                version,
                sequence: round + 1,
                binary,
            })?;
        }
        fleet.online(NODES, REST).await?;
        Ok(fleet)
    }
}

/// The states of a rollout's rows, by node.
type Rows = BTreeMap<String, String>;

fn tell(line: &str) {
    // Nobody is left to tell if standard error is closed.
    drop(writeln!(io::stderr(), "{line}"));
}

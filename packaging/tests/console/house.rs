//! A small fleet with a good release and a bad one.

use std::{path::Path, time::Duration};

use packaging::{
    build::{self, AgentBuild, Fault},
    fleet::{Fleet, Patience, Plan, PoolPlan, Release},
};
use serde_json::Value;
use tempfile::TempDir;

/// A fleet that runs.
pub(crate) struct House {
    pub(crate) fleet: Fleet,
    pub(crate) token: String,
    _binaries: TempDir,
}

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

impl House {
    pub(crate) async fn start() -> Self {
        let programs = build::programs().await.unwrap();
        let binaries = tempfile::tempdir().unwrap();
        for agent in RELEASES.into_iter().rev() {
            let to = binaries.path().join(agent.version);
            build::agent(agent, &to).await.unwrap();
        }
        let fleet = start(programs, binaries.path()).await;
        let token = std::fs::read_to_string(fleet.operator.token_file()).unwrap();
        Self {
            fleet,
            token: token.trim().to_owned(),
            _binaries: binaries,
        }
    }

    /// The address of a page.
    pub(crate) fn page(&self, path: &str) -> String {
        format!("{}/console/t/root/{path}", self.fleet.operator.url())
    }

    /// What the API says.
    pub(crate) fn api(&self, args: &[&str]) -> Value {
        self.fleet.operator.json(args).unwrap()
    }

    /// Begins a rollout that soaks long after its canary; gives its id.
    pub(crate) fn roll_out(&self, version: &str) -> String {
        let made = self.api(&[
            "rollouts",
            "create",
            "--version",
            version,
            "--waves",
            "20,100",
            "--soak",
            "1h",
            "--upgrade-timeout",
            "5m",
            "--yes",
        ]);
        made["id"].as_str().unwrap().to_owned()
    }
}

async fn start(programs: build::Programs, binaries: &Path) -> Fleet {
    let plan = Plan {
        pools: vec![
            PoolPlan {
                name: "<b>compute</b>",
                nodes: 3,
                budget: "0.5",
            },
            PoolPlan {
                name: "storage",
                nodes: 2,
                budget: "0.5",
            },
        ],
        patience: Patience {
            watchdog: Duration::from_secs(8),
            stable: Duration::from_secs(1),
        },
    };
    let package = binaries.join("1.0.0");
    let fleet = Fleet::start(programs, &package, &plan).await.unwrap();
    for (sequence, agent) in (1..).zip(RELEASES) {
        let release = Release {
            version: agent.version.to_owned(),
            sequence,
            binary: binaries.join(agent.version),
        };
        fleet.publish(&release).unwrap();
    }
    fleet.online(5, Duration::from_secs(120)).await.unwrap();
    fleet
}

impl Drop for House {
    #[expect(
        clippy::print_stderr,
        reason = "a page that failed says only that control's log tells more"
    )]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.fleet.logs());
        }
    }
}

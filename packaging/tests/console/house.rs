//! A small fleet with a good release and a bad one.

use std::time::Duration;

use packaging::simulated::{Habits, SimulatedNode, Telling};
use packaging::{
    build,
    fleet::{Fleet, Patience, Plan, PoolPlan, Three},
};
use serde_json::Value;
use tokio::sync::mpsc;

/// A fleet that runs.
pub(crate) struct House {
    pub(crate) fleet: Fleet,
    pub(crate) token: String,
}

impl House {
    pub(crate) async fn start() -> Self {
        let fleet = start().await;
        let token = std::fs::read_to_string(fleet.operator.token_file()).unwrap();
        Self {
            fleet,
            token: token.trim().to_owned(),
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

    /// Has a node join that takes long for its work, and says how far it has come; gives its id. It lives until it is
    /// removed.
    pub(crate) async fn joins_slowly(&self) -> String {
        let file = self.fleet.join_token(1, 1).unwrap();
        let token = std::fs::read_to_string(file).unwrap();
        let habits = Habits {
            slow: Duration::from_secs(105),
            telling: Telling::Progress,
            ..Habits::default()
        };
        let node = SimulatedNode::join(self.fleet.operator.url(), token.trim()).await;
        let node = node.unwrap().with(habits);
        let id = node.id().to_owned();
        let (moments, _) = mpsc::unbounded_channel();
        tokio::spawn(node.run(moments));
        id
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

async fn start() -> Fleet {
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
    let programs = build::programs().await.unwrap();
    let three = Three::build(|_| ()).await.unwrap();
    let fleet = three.fleet(programs, &plan).await.unwrap();
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

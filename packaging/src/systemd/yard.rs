//! What every case stands on: control, a gateway, two machines that joined, and releases of every kind.

mod programs;
mod stock;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use programs::put;
pub(super) use stock::{PACKAGED, Stock};

use super::{
    Origin, image,
    machine::Machine,
    node::{Node, Rights, at},
    tell,
};
use crate::fleet::{Fleet, Operator, Patience, Plan, PoolPlan, Release, now, replace};

/// The pool of the machines.
pub(super) const MACHINES: usize = 0;

/// The pool of the container.
pub(super) const CONTAINERS: usize = 1;

/// The pool of those that no release comes to.
pub(super) const OTHERS: usize = 2;

/// How long a trial may go without a Welcome: a machine of the campaign has two processors for everybody.
const PATIENCE: Patience = Patience {
    watchdog: Duration::from_secs(15),
    stable: Duration::from_secs(2),
};

/// As whom nodes run, in turn.
const RIGHTS: [Rights; 2] = [Rights::Root, Rights::Unprivileged];

/// How long a rollout may take.
const ROLLOUT: Duration = Duration::from_secs(150);

/// How long control gives each node for it.
const TIMEOUT: &str = "2m";

/// Where everything is.
pub(super) struct Yard {
    pub(super) nodes: Vec<Node>,
    /// Machines without a package.
    pub(super) bare: Vec<Machine>,
    pub(super) fleet: Fleet,
    /// The version that every node has confirmed.
    pub(super) confirmed: String,
    /// What machines are given.
    pub(super) stock: Stock,
    base: PathBuf,
    sequence: u64,
    figures: Vec<String>,
}

/// Of what kind a release is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It works.
    Good,
    /// It works, and tries the next one out by itself, as binaries did before there was bcd-preflight.
    Older,
    /// It does as it is told.
    Told,
}

impl Yard {
    /// Builds, boots, installs, joins.
    pub(super) async fn open(nodes: usize, origin: &Origin) -> Result<Self> {
        let base = image::base()?;
        let stock = Stock::of(origin).await?.with_all().await?;
        let plan = Plan {
            pools: ["machines", "containers", "others"]
                .map(|name| PoolPlan {
                    name,
                    nodes: 0,
                    budget: "1",
                })
                .into(),
            patience: PATIENCE,
        };
        let fleet = Fleet::start(stock.programs.clone(), &stock.own(), &plan).await?;
        let mut yard = Self {
            nodes: Vec::new(),
            bare: Vec::new(),
            fleet,
            confirmed: stock.packaged().to_owned(),
            stock,
            base,
            sequence: 0,
            figures: Vec::new(),
        };
        for (number, rights) in RIGHTS.into_iter().cycle().take(nodes).enumerate() {
            let name = format!("{rights:?}-{number}").to_lowercase();
            let machine = yard.machine(&name).await?;
            let node = yard.install(machine, rights).await?;
            yard.nodes.push(node);
        }
        Ok(yard)
    }

    /// One more machine, booted, with nothing of ours.
    pub(super) async fn machine(&self, name: &str) -> Result<Machine> {
        let mut machine = Machine::new(name, &self.base)?;
        machine.boot().await?;
        Ok(machine)
    }

    /// One that is not booted yet.
    pub(super) fn machine_that_is_off(&self, name: &str) -> Result<Machine> {
        Machine::new(name, &self.base)
    }

    /// Makes a machine a node: the package, its configuration, joining, starting.
    async fn install(&mut self, machine: Machine, rights: Rights) -> Result<Node> {
        let package = self.stock.package(self.stock.packaged())?;
        let began = now();
        put(&machine, &[package])?;
        let node = self.join(MACHINES, machine, rights)?;
        node.settled(&self.confirmed).await?;
        let seconds = began.elapsed().as_secs_f64();
        self.figure(&format!("install_to_welcome_s={seconds:.1}"));
        Ok(node)
    }

    /// Installs the node's package of a version by the machine's own package manager.
    pub(super) fn put_package(&self, machine: &Machine, version: &str) -> Result<()> {
        put(machine, &[self.stock.package(version)?])
    }

    /// Installs gateway and control, and the node beside them: a whole fleet on one machine.
    pub(super) fn put_everything(&self, machine: &Machine, version: &str) -> Result<()> {
        put(machine, &self.packages(version)?)
    }

    /// The Debian packages of a version: node, gateway and control.
    pub(super) fn packages(&self, version: &str) -> Result<Vec<PathBuf>> {
        self.stock.everything(version)
    }

    /// A good binary of a version.
    pub(super) fn binary(&self, version: &str) -> Result<PathBuf> {
        self.stock.binary(version)
    }

    /// The version of the package's own binary.
    pub(super) fn packaged(&self) -> String {
        self.stock.packaged().to_owned()
    }

    /// Joins a machine that has the package.
    pub(super) fn join(&self, pool: usize, machine: Machine, rights: Rights) -> Result<Node> {
        let token = self.fleet.join_token(pool, 1)?;
        let root = machine.root();
        std::fs::copy(token, root.join("etc/bcd/join.token"))?;
        let config = self.node_config(self.fleet.operator.url());
        replace(&root.join("etc/bcd/bcd.toml"), &config)?;
        let mut node = Node {
            machine,
            rights: Rights::Root,
            id: String::new(),
        };
        if rights == Rights::Unprivileged {
            node.take_rights()?;
        }
        node.machine.shell(
            "bcd join --token-file /etc/bcd/join.token; rm /etc/bcd/join.token; systemctl start bcd.service",
        )?;
        let id = node.status()?;
        let id = id.get("nodeId").and_then(Value::as_str);
        node.id = id.context("the node has no id")?.to_owned();
        Ok(node)
    }

    /// A node's configuration.
    pub(super) fn node_config(&self, control: &str) -> String {
        node_config(&self.fleet, control, PATIENCE)
    }

    /// Signs and registers the next release, and begins to bring it to every machine. Gives its version and the rollout.
    pub(super) fn roll_out(&mut self, kind: Kind) -> Result<(String, String)> {
        self.roll_out_to(MACHINES, kind)
    }

    /// The same, to one pool.
    pub(super) fn roll_out_to(&mut self, pool: usize, kind: Kind) -> Result<(String, String)> {
        let pool = self.fleet.pools.get(pool).context("no such pool")?.clone();
        let sequence = self.next_sequence();
        let (version, binary) = self.stock.release(kind, sequence)?;
        self.fleet.publish(&Release {
            version: version.clone(),
            sequence,
            binary,
        })?;
        let id = self.begin(&pool, &version)?;
        Ok((version, id))
    }

    /// The next release's place in the order of releases.
    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Begins to bring a release that is registered to a pool, all at once. Gives the rollout.
    pub(super) fn begin(&self, pool: &str, version: &str) -> Result<String> {
        begin(&self.fleet.operator, (pool, version), TIMEOUT)
    }

    /// Waits until a rollout has ended or paused; ends it in the second case. Gives how it was.
    pub(super) async fn ended(&self, rollout: &str) -> Result<String> {
        ended(&self.fleet.operator, rollout, ROLLOUT).await
    }

    /// Every node runs what it has confirmed, and nothing is left to mend.
    pub(super) async fn at_rest(&self) -> Result<()> {
        for node in &self.nodes {
            let status = node.settled(&self.confirmed).await?;
            ensure!(
                at(&status, "/nodeId").as_str() == Some(&node.id),
                "expected the node to be {}, found {status}",
                node.id
            );
            node.is_at_rest().await?;
        }
        Ok(())
    }

    /// A number to remember.
    pub(super) fn figure(&mut self, text: &str) {
        tell(text);
        self.figures.push(text.to_owned());
    }

    /// All that was measured, on one line.
    pub(super) fn figures(&self) -> String {
        self.figures.join(" ")
    }

    /// The last of every node's log.
    pub(super) fn logs(&self) -> String {
        let logs = self
            .nodes
            .iter()
            .map(|node| format!("== {:?}\n{}", node.rights, node.log()));
        logs.collect()
    }
}

/// A node's configuration.
pub(super) fn node_config(fleet: &Fleet, control: &str, patience: Patience) -> String {
    let pins = fleet.keys.pins();
    format!(
        "control = {control:?}\n\n[update]\nrelease_pins = {pins:?}\nthreshold = 2\n\
         watchdog_deadline = \"{watchdog}s\"\nstable_for = \"{stable}s\"\n",
        watchdog = patience.watchdog.as_secs(),
        stable = patience.stable.as_secs(),
    )
}

/// Begins to bring a release that is registered to a pool, all at once. Gives the rollout.
pub(super) fn begin(
    operator: &Operator,
    (pool, version): (&str, &str),
    timeout: &str,
) -> Result<String> {
    let words = [
        "rollouts",
        "create",
        "--version",
        version,
        "--pool",
        pool,
        "--waves",
        "100",
        "--soak",
        "0s",
        "--max-failure-ratio",
        "1",
        "--upgrade-timeout",
        timeout,
        "--yes",
    ];
    let made = operator.json(&words)?;
    let id = made.get("id").and_then(Value::as_str);
    Ok(id.context("the rollout has no id")?.to_owned())
}

/// Waits until a rollout has ended or paused; ends it in the second case. Gives how it was.
pub(super) async fn ended(
    operator: &Operator,
    rollout: &str,
    patience: Duration,
) -> Result<String> {
    let state = operator
        .until("the rollout has ended", patience, |operator| {
            let found = operator.json(&["rollouts", "get", rollout])?;
            let state = found.get("state").and_then(Value::as_str);
            Ok(state.filter(|state| *state != "running").map(str::to_owned))
        })
        .await?;
    if state == "paused" {
        operator.run(&["rollouts", "abort", rollout, "--yes"])?;
    }
    Ok(state)
}

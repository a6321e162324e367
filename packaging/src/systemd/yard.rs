//! What every case stands on: control, a gateway, two machines that joined, and releases of every kind.
//!
//! Two builds are enough for any number of releases: a version's text in a binary is replaced by another of its length.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use super::{
    done, image,
    machine::Machine,
    node::{Node, Rights, at},
    tell,
};
use crate::{
    build::{self, AgentBuild, Fault, Shipping},
    dist,
    fleet::{Fleet, Patience, Plan, PoolPlan, Release, now, replace},
};

/// What the package's own binary says of itself; releases that are good count on from there.
const PACKAGED: &str = "6.6.100";

/// Those that do as they are told.
const TOLD: &str = "7.7.100";

/// How long a trial may go without a Welcome: a machine of the campaign has two processors for everybody.
const PATIENCE: Patience = Patience {
    watchdog: Duration::from_secs(15),
    stable: Duration::from_secs(2),
};

/// How long a rollout may take.
const ROLLOUT: Duration = Duration::from_secs(150);

/// Where everything is.
pub(super) struct Yard {
    pub(super) nodes: Vec<Node>,
    /// Machines without a package.
    pub(super) bare: Vec<Machine>,
    pub(super) fleet: Fleet,
    /// The version that every node has confirmed.
    pub(super) confirmed: String,
    good: Vec<u8>,
    told: Vec<u8>,
    sequence: u64,
    figures: Vec<String>,
    builds: TempDir,
}

/// Of what kind a release is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It works.
    Good,
    /// It does as it is told.
    Told,
}

impl Yard {
    /// Builds, boots, installs, joins.
    pub(super) async fn open() -> Result<Self> {
        let base = image::base()?;
        let builds = tempfile::Builder::new().prefix("bcd-yard-").tempdir()?;
        let good = built(PACKAGED, None, builds.path()).await?;
        let told = built(TOLD, Some(Fault::AsTold), builds.path()).await?;
        let programs = build::programs().await?;
        let plan = Plan {
            pools: vec![PoolPlan {
                name: "machines",
                nodes: 0,
                budget: "1",
            }],
            patience: PATIENCE,
        };
        let package = builds.path().join(PACKAGED);
        let fleet = Fleet::start(programs, &package, &plan).await?;
        let mut yard = Self {
            nodes: Vec::new(),
            bare: Vec::new(),
            fleet,
            confirmed: PACKAGED.to_owned(),
            good,
            told,
            sequence: 0,
            figures: Vec::new(),
            builds,
        };
        for rights in [Rights::Root, Rights::Unprivileged] {
            let name = format!("{rights:?}").to_lowercase();
            let mut machine = Machine::new(&name, &base)?;
            machine.boot().await?;
            let node = yard.install(machine, rights).await?;
            yard.nodes.push(node);
        }
        Ok(yard)
    }

    /// Makes a machine a node: the package, its configuration, joining, starting.
    async fn install(&mut self, machine: Machine, rights: Rights) -> Result<Node> {
        self.package(PACKAGED)?;
        let began = now();
        self.put_package(&machine, PACKAGED)?;
        let node = self.join(machine, rights)?;
        node.settled(&self.confirmed).await?;
        let seconds = began.elapsed().as_secs_f64();
        self.figure(&format!("install_to_welcome_s={seconds:.1}"));
        Ok(node)
    }

    /// Installs a package of a version by the machine's own package manager.
    pub(super) fn put_package(&self, machine: &Machine, version: &str) -> Result<()> {
        let deb = self.package(version)?;
        std::fs::copy(deb, machine.root().join("root/bcd.deb"))?;
        machine.run(&[
            "apt-get",
            "install",
            "--yes",
            "--quiet",
            "--no-install-recommends",
            "--allow-downgrades",
            "/root/bcd.deb",
        ])?;
        Ok(())
    }

    /// The node's package of a version, made when it is first asked for.
    fn package(&self, version: &str) -> Result<PathBuf> {
        let dir = self.builds.path().join(format!("package-{version}"));
        if let Some(Ok(made)) = std::fs::read_dir(&dir)
            .ok()
            .and_then(|mut files| files.next())
        {
            return Ok(made.path());
        }
        std::fs::create_dir_all(&dir)?;
        let binary = self.builds.path().join(format!("bcd-{version}"));
        write(&binary, &renamed(&self.good, PACKAGED, version)?)?;
        let shipping = Shipping {
            version: version.to_owned(),
            epoch: 1_700_000_000,
        };
        dist::node_package(&dir, &binary, &shipping)
    }

    /// Joins a machine that has the package.
    pub(super) fn join(&self, machine: Machine, rights: Rights) -> Result<Node> {
        let token = self.fleet.join_token(0, 1)?;
        let root = machine.root();
        std::fs::copy(token, root.join("etc/bcd/join.token"))?;
        let pins = self.fleet.keys.pins();
        let config = format!(
            "control = {control:?}\n\n[update]\nrelease_pins = {pins:?}\nthreshold = 2\n\
             watchdog_deadline = \"{watchdog}s\"\nstable_for = \"{stable}s\"\n",
            control = self.fleet.operator.url(),
            watchdog = PATIENCE.watchdog.as_secs(),
            stable = PATIENCE.stable.as_secs(),
        );
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

    /// Signs and registers the next release, and begins to bring it to every node. Gives its version and the rollout.
    pub(super) fn roll_out(&mut self, kind: Kind) -> Result<(String, String)> {
        self.sequence += 1;
        let number = 100 + self.sequence;
        let (version, bytes) = match kind {
            Kind::Good => {
                let version = format!("6.6.{number}");
                let bytes = renamed(&self.good, PACKAGED, &version)?;
                (version, bytes)
            }
            Kind::Told => {
                let version = format!("7.7.{number}");
                let bytes = renamed(&self.told, TOLD, &version)?;
                (version, bytes)
            }
        };
        let binary = self.builds.path().join("release");
        write(&binary, &bytes)?;
        self.fleet.publish(&Release {
            version: version.clone(),
            sequence: self.sequence,
            binary,
        })?;
        let words = [
            "rollouts",
            "create",
            "--version",
            &version,
            "--waves",
            "100",
            "--soak",
            "0s",
            "--max-failure-ratio",
            "1",
            "--upgrade-timeout",
            "2m",
            "--yes",
        ];
        let made = self.fleet.operator.json(&words)?;
        let id = made.get("id").and_then(Value::as_str);
        Ok((version, id.context("the rollout has no id")?.to_owned()))
    }

    /// Waits until a rollout has ended or paused; ends it in the second case. Gives how it was.
    pub(super) async fn ended(&self, rollout: &str) -> Result<String> {
        let operator = &self.fleet.operator;
        let state = operator
            .until("the rollout has ended", ROLLOUT, |operator| {
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

async fn built(version: &'static str, fault: Option<Fault>, dir: &Path) -> Result<Vec<u8>> {
    let to = dir.join(version);
    build::agent(AgentBuild { version, fault }, &to).await?;
    // What is left out is for debuggers alone, and two thirds of every download.
    if dist::has("strip") {
        done(Command::new("strip").arg(&to))?;
    }
    Ok(std::fs::read(&to)?)
}

/// The same binary, which says that it is another version.
fn renamed(binary: &[u8], from: &str, to: &str) -> Result<Vec<u8>> {
    ensure!(
        from.len() == to.len(),
        "expected a version as long as {from}, found {to}"
    );
    let mut renamed = Vec::with_capacity(binary.len());
    let mut rest = binary;
    let mut times = 0;
    while let Some(at) = rest
        .windows(from.len())
        .position(|window| window == from.as_bytes())
    {
        let (before, found) = rest.split_at(at);
        renamed.extend_from_slice(before);
        renamed.extend_from_slice(to.as_bytes());
        rest = found.get(from.len()..).unwrap_or_default();
        times += 1;
    }
    renamed.extend_from_slice(rest);
    ensure!(times > 0, "expected a binary that names {from}, found none");
    Ok(renamed)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a campaign's files do not outlive a power cut"
)]
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::renamed;

    #[test]
    fn a_version_is_replaced_wherever_it_is_named() {
        assert_eq!(
            renamed(b"a1.0.0b1.0.0", "1.0.0", "1.0.7").unwrap(),
            b"a1.0.7b1.0.7"
        );
        assert!(renamed(b"nothing", "1.0.0", "1.0.7").is_err());
        assert!(renamed(b"1.0.0", "1.0.0", "1.0.10").is_err());
    }
}

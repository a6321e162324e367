//! What every case stands on: control, a gateway, two machines that joined, and releases of every kind.
//!
//! Two builds are enough for any number of releases: a version's text in a binary is replaced by another of its length.

mod programs;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use programs::{built, put, renamed, shipping, strip, write};

use super::{
    image,
    machine::Machine,
    node::{Node, Rights, at},
    tell,
};
use crate::{
    build::{self, Fault},
    dist::{self, Contents, Kind as PackageKind, Which},
    fleet::{Fleet, Patience, Plan, PoolPlan, Release, now, replace},
};

/// What the package's own binary says of itself; releases that are good count on from there.
pub(super) const PACKAGED: &str = "6.6.100";

/// Those that do as they are told.
const TOLD: &str = "7.7.100";

/// Where binaries look for bcd-preflight.
const ROOM: &str = "/run/bcd/preflight.sock";

/// Where there is none.
const NO_ROOM: &str = "/run/bcd/preflight.none";

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

/// Where everything is.
pub(super) struct Yard {
    pub(super) nodes: Vec<Node>,
    /// Machines without a package.
    pub(super) bare: Vec<Machine>,
    pub(super) fleet: Fleet,
    /// The version that every node has confirmed.
    pub(super) confirmed: String,
    base: PathBuf,
    manuals: PathBuf,
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
    /// It works, and tries the next one out by itself, as binaries did before there was bcd-preflight.
    Older,
    /// It does as it is told.
    Told,
}

impl Yard {
    /// Builds, boots, installs, joins.
    pub(super) async fn open(nodes: usize, agent: Option<&Path>) -> Result<Self> {
        let base = image::base()?;
        let builds = tempfile::Builder::new().prefix("bcd-yard-").tempdir()?;
        let good = match agent {
            Some(agent) => {
                let bytes = std::fs::read(agent)?;
                write(&builds.path().join(PACKAGED), &bytes)?;
                bytes
            }
            None => built(PACKAGED, None, builds.path()).await?,
        };
        let told = built(TOLD, Some(Fault::AsTold), builds.path()).await?;
        let programs = build::programs().await?;
        let manuals = builds.path().join("manuals");
        build::manuals(&programs.control, &manuals).await?;
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
        let package = builds.path().join(PACKAGED);
        let fleet = Fleet::start(programs, &package, &plan).await?;
        let mut yard = Self {
            nodes: Vec::new(),
            bare: Vec::new(),
            fleet,
            confirmed: PACKAGED.to_owned(),
            base,
            manuals,
            good,
            told,
            sequence: 0,
            figures: Vec::new(),
            builds,
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
        self.package(PACKAGED)?;
        let began = now();
        self.put_package(&machine, PACKAGED)?;
        let node = self.join(MACHINES, machine, rights)?;
        node.settled(&self.confirmed).await?;
        let seconds = began.elapsed().as_secs_f64();
        self.figure(&format!("install_to_welcome_s={seconds:.1}"));
        Ok(node)
    }

    /// Installs the node's package of a version by the machine's own package manager.
    pub(super) fn put_package(&self, machine: &Machine, version: &str) -> Result<()> {
        put(machine, &[self.package(version)?])
    }

    /// Installs gateway and control, and the node beside them: a whole fleet on one machine.
    pub(super) fn put_everything(&self, machine: &Machine, version: &str) -> Result<()> {
        put(machine, &self.packages(version)?)
    }

    /// The Debian packages of a version: node, gateway and control.
    pub(super) fn packages(&self, version: &str) -> Result<Vec<PathBuf>> {
        let programs = self.fleet.programs();
        let mut packages = vec![self.package(version)?];
        for (which, program) in [
            (Which::Gateway, &programs.gateway),
            (Which::Control, &programs.control),
        ] {
            let stripped = self.stripped(program)?;
            let shipping = shipping(version);
            packages.push(dist::one_package(
                (which, PackageKind::Deb),
                self.builds.path(),
                self.contents(&stripped),
                &shipping,
            )?);
        }
        Ok(packages)
    }

    /// The node's package for Fedora's kin.
    pub(super) fn rpm(&self, version: &str) -> Result<PathBuf> {
        let binary = self.binary(version)?;
        dist::one_package(
            (Which::Node, PackageKind::Rpm),
            self.builds.path(),
            self.contents(&binary),
            &shipping(version),
        )
    }

    /// A program without what debuggers alone read.
    fn stripped(&self, program: &Path) -> Result<PathBuf> {
        let name = program.file_name().context("a program has no name")?;
        let to = self.builds.path().join(name);
        if !to.is_file() {
            std::fs::copy(program, &to)?;
            strip(&to)?;
        }
        Ok(to)
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
        let binary = self.binary(version)?;
        let node = (Which::Node, PackageKind::Deb);
        let contents = self.contents(&binary);
        dist::one_package(node, &dir, contents, &shipping(version))
    }

    fn contents<'a>(&'a self, program: &'a Path) -> Contents<'a> {
        Contents {
            program,
            manuals: &self.manuals,
        }
    }

    /// A good binary of a version.
    pub(super) fn binary(&self, version: &str) -> Result<PathBuf> {
        let binary = self.builds.path().join(format!("bcd-{version}"));
        if !binary.is_file() {
            write(&binary, &renamed(&self.good, PACKAGED, version)?)?;
        }
        Ok(binary)
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
        let pins = self.fleet.keys.pins();
        format!(
            "control = {control:?}\n\n[update]\nrelease_pins = {pins:?}\nthreshold = 2\n\
             watchdog_deadline = \"{watchdog}s\"\nstable_for = \"{stable}s\"\n",
            watchdog = PATIENCE.watchdog.as_secs(),
            stable = PATIENCE.stable.as_secs(),
        )
    }

    /// Signs and registers the next release, and begins to bring it to every machine. Gives its version and the rollout.
    pub(super) fn roll_out(&mut self, kind: Kind) -> Result<(String, String)> {
        self.roll_out_to(MACHINES, kind)
    }

    /// The same, to one pool.
    pub(super) fn roll_out_to(&mut self, pool: usize, kind: Kind) -> Result<(String, String)> {
        let pool = self.fleet.pools.get(pool).context("no such pool")?.clone();
        self.sequence += 1;
        let number = 100 + self.sequence;
        let (version, bytes) = match kind {
            Kind::Good => {
                let version = format!("6.6.{number}");
                let bytes = renamed(&self.good, PACKAGED, &version)?;
                (version, bytes)
            }
            Kind::Older => {
                let version = format!("6.6.{number}");
                let bytes = renamed(&self.good, PACKAGED, &version)?;
                (version, renamed(&bytes, ROOM, NO_ROOM)?)
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
            "--pool",
            &pool,
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

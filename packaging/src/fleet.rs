//! A whole fleet on this machine: real processes in a temporary folder, on loopback.
//!
//! Takes a plan, gives a running control, a gateway and nodes, each node a `bcd supervise` of its own. Whatever was
//! started is ended, and the folder removed, when the fleet is dropped. It never touches anything else.

mod gateway;
mod operator;
mod process;
mod releases;
mod three;

pub use operator::{Operator, Verdict};
pub use process::Service;
pub(crate) use process::now;
pub use releases::{Keys, Release};
pub use three::Three;

use std::{
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;

use crate::build::Programs;

/// What fleet to start.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The pools.
    pub pools: Vec<PoolPlan>,
    /// How patient nodes are. Short here; the defaults of a real node are in its own documentation.
    pub patience: Patience,
}

/// A pool of nodes.
#[derive(Clone, Debug)]
pub struct PoolPlan {
    /// What people call it.
    pub name: &'static str,
    /// How many nodes join it.
    pub nodes: usize,
    /// The share of them that may be disrupted at once, as text.
    pub budget: &'static str,
}

/// How patient nodes are with a new binary.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How long a trial may go without a Welcome.
    pub watchdog: Duration,
    /// How long a welcomed session has to hold.
    pub stable: Duration,
}

/// A fleet that runs.
#[derive(Debug)]
pub struct Fleet {
    /// Control.
    pub control: Service,
    /// The gateway.
    pub gateway: Service,
    /// The nodes, in the order of joining.
    pub nodes: Vec<Node>,
    /// Calls control as an administrator.
    pub operator: Operator,
    /// The signing keys and what they signed.
    pub keys: Keys,
    /// The pools' ids, in the plan's order.
    pub pools: Vec<String>,
    programs: Programs,
    package: PathBuf,
    patience: Patience,
    gateway_port: u16,
    // Last: the processes are ended before their folder goes.
    dir: TempDir,
}

/// One node.
#[derive(Debug)]
pub struct Node {
    /// Its id.
    pub id: String,
    /// The pool that it joined.
    pub pool: String,
    /// Its own folder: config, state, slots.
    pub dir: PathBuf,
    /// Its supervisor.
    pub supervisor: Service,
}

impl Fleet {
    /// Starts control, a gateway and the plan's nodes, whose package's own binary is a copy of `package`.
    pub async fn start(programs: Programs, package: &Path, plan: &Plan) -> Result<Self> {
        Self::start_with(programs, package, plan, "").await
    }

    /// The same, with further tables in `control.toml`.
    pub async fn start_with(
        programs: Programs,
        package: &Path,
        plan: &Plan,
        tables: &str,
    ) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("bcd-fleet-").tempdir()?;
        let root = dir.path();
        let [api, link, session] = free_ports()?;
        let keys = Keys::make(&programs.control, &root.join("keys"))?;
        // The nodes' package: nothing else of the caller's has to stay.
        let installed = root.join("package/bcd");
        for folder in ["package", "downloads"] {
            std::fs::create_dir_all(root.join(folder))?;
        }
        std::fs::copy(package, &installed).context("install the package's binary")?;
        let config = root.join("control.toml");
        replace(&config, &(control_config(root, &keys, api, link) + tables))?;
        let url = format!("http://127.0.0.1:{api}");
        let mut control = Service::new("control", &programs.control, &root.join("logs"));
        control.args(["serve", "--config"]).arg(&config);
        control.start()?;
        let operator = Operator::new(&programs.control, &url, &root.join("control/admin.token"));
        operator.ready(&mut control).await?;

        let gateway = gateway::begin(&operator, &programs.gateway, root, ("gateway", session))?;
        let mut pools = Vec::new();
        for pool in &plan.pools {
            let made = operator.json(&["pools", "create", pool.name, "--budget", pool.budget])?;
            let id = made
                .get("id")
                .and_then(|id| id.as_str())
                .context("the pool has no id")?;
            pools.push(id.to_owned());
        }
        let mut fleet = Self {
            control,
            gateway,
            nodes: Vec::new(),
            operator,
            keys,
            pools,
            programs,
            package: installed,
            patience: plan.patience,
            gateway_port: session,
            dir,
        };
        for (pool, plan) in plan.pools.iter().enumerate() {
            fleet.join(pool, plan.nodes)?;
        }
        Ok(fleet)
    }

    /// The folder that holds everything.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Where the gateway takes sessions.
    pub fn session_address(&self) -> (Ipv4Addr, u16) {
        (Ipv4Addr::LOCALHOST, self.gateway_port)
    }

    /// The folder that control serves binaries from.
    pub fn downloads(&self) -> PathBuf {
        self.dir().join("downloads")
    }

    /// A new join token for a pool, as a file.
    pub fn join_token(&self, pool: usize, uses: usize) -> Result<PathBuf> {
        let id = self.pools.get(pool).context("no such pool")?;
        let named = |number: u32| self.dir().join(format!("join-{pool}-{number}.token"));
        let mut files = (1..).map(named);
        // A token is never overwritten.
        let file = files.find(|file| !file.exists());
        let file = file.context("no name is left for a token")?;
        self.operator.run(&[
            "join-tokens",
            "create",
            "--pool",
            id,
            "--uses",
            &uses.to_string(),
            "--expires",
            "1h",
            "--out",
            &text(&file)?,
        ])?;
        Ok(file)
    }

    /// Signs a release of one binary, registers it, and puts the binary where nodes fetch it.
    pub fn publish(&self, release: &Release) -> Result<()> {
        let manifest = self.keys.sign(release)?;
        self.operator
            .run(&["releases", "register", &text(&manifest)?])?;
        let served = self.downloads().join(&release.version);
        std::fs::create_dir_all(&served)?;
        std::fs::copy(&release.binary, served.join(release.file_name()))?;
        Ok(())
    }

    /// Joins nodes to a pool and starts them.
    pub fn join(&mut self, pool: usize, nodes: usize) -> Result<()> {
        if nodes == 0 {
            return Ok(());
        }
        let token = self.join_token(pool, nodes)?;
        let id = self.pools.get(pool).context("no such pool")?.clone();
        for _ in 0..nodes {
            self.join_one(&id, &token, None)?;
        }
        Ok(())
    }

    /// Joins one node whose new binaries misbehave as `word` says, if they do as they are told.
    pub fn join_told(&mut self, pool: usize, word: &str) -> Result<()> {
        let token = self.join_token(pool, 1)?;
        let id = self.pools.get(pool).context("no such pool")?.clone();
        self.join_one(&id, &token, Some(word))
    }

    fn join_one(&mut self, pool: &str, token: &Path, told: Option<&str>) -> Result<()> {
        let number = self.nodes.len() + 1;
        let dir = self.dir().join(format!("node-{number}"));
        std::fs::create_dir_all(&dir)?;
        let config = dir.join("bcd.toml");
        replace(&config, &self.node_config(&dir))?;
        let joined = std::process::Command::new(&self.package)
            .args(["join", "--config"])
            .arg(&config)
            .arg("--token-file")
            .arg(token)
            .output()
            .context("start bcd join")?;
        anyhow::ensure!(
            joined.status.success(),
            "node {number} could not join: {}",
            String::from_utf8_lossy(&joined.stderr)
        );
        let logs = self.dir().join("logs");
        let mut supervisor = Service::new(&format!("node-{number}"), &self.package, &logs);
        supervisor.args(["supervise", "--config"]).arg(&config);
        if let Some(word) = told {
            supervisor.tell(word);
        }
        supervisor.start()?;
        self.nodes.push(Node {
            id: node_id(&dir)?,
            pool: pool.to_owned(),
            dir,
            supervisor,
        });
        Ok(())
    }

    /// The package's own binary, which every node's supervisor runs from.
    pub fn package(&self) -> &Path {
        &self.package
    }

    /// What a node says about itself, asked on the node.
    pub fn status(&self, node: &Node) -> Result<Value> {
        let output = std::process::Command::new(&self.package)
            .args(["status", "--output", "json", "--config"])
            .arg(node.dir.join("bcd.toml"))
            .output()
            .context("start bcd status")?;
        serde_json::from_slice(&output.stdout).context("bcd status printed no JSON")
    }

    /// Waits until that many nodes are online.
    pub async fn online(&self, nodes: usize, patience: Duration) -> Result<()> {
        self.operator
            .until("every node is online", patience, |operator| {
                let list = operator.json(&["nodes", "list"])?;
                let listed = list
                    .get("nodes")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten();
                let online = listed.filter(|node| node.get("online") == Some(&Value::Bool(true)));
                Ok((online.count() == nodes).then_some(()))
            })
            .await
            .with_context(|| self.logs())
    }

    /// The supervisor of a node, by the node's id.
    pub fn supervisor_of(&mut self, id: &str) -> Result<&mut Service> {
        let node = self.nodes.iter_mut().find(|node| node.id == id);
        Ok(&mut node.with_context(|| format!("no node is {id}"))?.supervisor)
    }

    /// What every process has printed: for the reader of a failed test.
    pub fn logs(&self) -> String {
        let services = [&self.control, &self.gateway];
        services
            .into_iter()
            .chain(self.nodes.iter().map(|node| &node.supervisor))
            .map(|service| format!("--- {}\n{}", service.name(), service.log()))
            .collect()
    }

    /// The programs that this fleet runs.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    fn node_config(&self, dir: &Path) -> String {
        format!(
            "control = {control:?}\nstate_dir = {state:?}\n\n[update]\nrelease_pins = {pins:?}\nthreshold = 2\n\
             watchdog_deadline = \"{watchdog}\"\nstable_for = \"{stable}\"\n",
            control = self.operator.url(),
            pins = self.keys.pins(),
            state = dir.join("state"),
            watchdog = humantime::format_duration(self.patience.watchdog),
            stable = humantime::format_duration(self.patience.stable),
        )
    }
}

fn control_config(root: &Path, keys: &Keys, api: u16, link: u16) -> String {
    format!(
        "data_dir = {data:?}\nlisten = \"127.0.0.1:{api}\"\nbase_url = \"http://127.0.0.1:{api}\"\n\
         link_listen = \"127.0.0.1:{link}\"\nlink_url = \"wss://127.0.0.1:{link}/link\"\n\n\
         [release]\npins = {pins:?}\nthreshold = 2\n\n[downloads]\ndir = {downloads:?}\n",
        data = root.join("control"),
        pins = keys.pins(),
        downloads = root.join("downloads"),
    )
}

/// The id that a node was given when it joined.
fn node_id(dir: &Path) -> Result<String> {
    let file = dir.join("state/identity/node.json");
    let text =
        std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    let identity: Value = serde_json::from_str(&text)?;
    let id = identity.get("nodeId").and_then(Value::as_str);
    Ok(id
        .with_context(|| format!("{} names no nodeId", file.display()))?
        .to_owned())
}

/// Ports that nothing listens on. All are held until all are known, so that they differ.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let held: Vec<TcpListener> = (0..N)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect::<Result<_, _>>()
        .context("find free ports on loopback")?;
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&held) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

/// Writes a file of a folder that nobody else reads yet.
#[expect(
    clippy::disallowed_methods,
    reason = "a temporary folder does not outlive a power cut"
)]
pub(crate) fn replace(path: &Path, content: &str) -> Result<()> {
    std::fs::write(path, content).with_context(|| format!("write {}", path.display()))
}

/// A path for a command line that is given as text.
pub(crate) fn text(path: &Path) -> Result<String> {
    Ok(path
        .to_str()
        .context("the temporary folder's name is not UTF-8")?
        .to_owned())
}

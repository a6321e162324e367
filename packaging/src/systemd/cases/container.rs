//! A node in a container, as the recipe of `packaging/container` lays it out: one program, which is its first process.
//!
//! systemd-nspawn takes the place of a container engine. Daily builds, and so every release that is no good, are not static:
//! what they load lies beside the program, whoever that is.

use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::super::{
    done,
    machine::{Machine, NSPAWN},
    node::{Node, Rights, at},
    yard::{CONTAINERS, Kind, Yard},
};
use crate::fleet::replace;

/// Where the recipe puts the program.
const PROGRAM: &str = "/usr/lib/bcd/bcd";

/// How long a node may take to end.
const ENDED: Duration = Duration::from_secs(5);

/// Joined, brought to a release, kept from a bad one, ended, and started again out of the same volumes.
pub(super) async fn supervised(yard: &mut Yard) -> Result<()> {
    let mut container = Container::of(yard)?;
    container.join(yard)?;
    container.node.machine.start()?;
    container.node.settled(&yard.packaged()).await?;
    let first = container.node.machine.leader()?;
    let (version, rollout) = yard.roll_out_to(CONTAINERS, Kind::Good)?;
    let state = yard.ended(&rollout).await?;
    ensure!(state == "completed", "the rollout of {version} is {state}");
    container.node.settled(&version).await?;
    // The container is no longer than its first process, which none of this has ended.
    ensure!(
        container.node.machine.leader()? == first,
        "the container's first process is another one"
    );
    nobody_waits_for_ever(first)?;
    container.ends()?;
    container.heeds("never-connects");
    container.node.machine.start()?;
    container.node.settled(&version).await?;
    let (bad, rollout) = yard.roll_out_to(CONTAINERS, Kind::Told)?;
    let state = yard.ended(&rollout).await?;
    ensure!(state == "paused", "the rollout of {bad} is {state}");
    let status = container.node.settled(&version).await?;
    let outcome = at(&status, "/lastAttempt/outcome").as_str();
    ensure!(
        outcome == Some("no-welcome"),
        "expected the container to have gone back, found {status}"
    );
    let id = at(&status, "/nodeId").as_str();
    ensure!(
        id == Some(&container.node.id),
        "expected the container to be the same node, found {status}"
    );
    nobody_waits_for_ever(container.node.machine.leader()?)?;
    container.ends()
}

struct Container {
    node: Node,
    config: PathBuf,
    state: PathBuf,
}

impl Container {
    /// Lays out what the recipe says, and the two volumes.
    fn of(yard: &Yard) -> Result<Self> {
        let machine = Machine::bare("container", &[])?;
        let root = machine.root();
        copy(&yard.binary(&yard.packaged())?, &root, Path::new(PROGRAM))?;
        let (_, told) = yard.stock.release(Kind::Told, 0)?;
        for program in [root.join("usr/lib/bcd/bcd"), told] {
            for library in libraries(&program)? {
                copy(&library, &root, &library)?;
            }
        }
        let [config, state] = ["config", "state"].map(|name| machine.folder().join(name));
        for folder in [
            &config,
            &state,
            &root.join("etc/bcd"),
            &root.join("var/lib/bcd"),
        ] {
            std::fs::create_dir_all(folder)?;
        }
        let text = yard.node_config(yard.fleet.operator.url());
        replace(&config.join("bcd.toml"), &text)?;
        let mut container = Self {
            node: Node {
                machine,
                rights: Rights::Root,
                id: String::new(),
            },
            config,
            state,
        };
        container.heeds("");
        Ok(container)
    }

    /// What it is told from its next start on.
    fn heeds(&mut self, word: &str) {
        let mut words = self.volumes();
        if !word.is_empty() {
            words.push(format!("--setenv=BCD_FAULT={word}"));
        }
        words.extend([PROGRAM, "supervise"].map(str::to_owned));
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        self.node.machine.told(&words);
    }

    fn volumes(&self) -> Vec<String> {
        vec![
            format!("--bind-ro={}:/etc/bcd", self.config.display()),
            format!("--bind={}:/var/lib/bcd", self.state.display()),
        ]
    }

    /// A run of its own before the first one, as the recipe says.
    fn join(&mut self, yard: &Yard) -> Result<()> {
        let token = yard.fleet.join_token(CONTAINERS, 1)?;
        std::fs::copy(token, self.config.join("join.token"))?;
        let mut run = Command::new("systemd-nspawn");
        run.args(NSPAWN);
        run.arg("--directory").arg(self.node.machine.root());
        run.args(self.volumes()).arg(PROGRAM);
        done(run.args(["join", "--token-file", "/etc/bcd/join.token"]))?;
        let identity = std::fs::read(self.state.join("identity/node.json"))?;
        let identity: Value = serde_json::from_slice(&identity)?;
        let id = identity.get("nodeId").and_then(Value::as_str);
        self.node.id = id.context("the node has no id")?.to_owned();
        Ok(())
    }

    /// Asked to end, it does, and says that all is well.
    fn ends(&mut self) -> Result<()> {
        let (status, after) = self.node.machine.terminate()?;
        ensure!(
            status.success(),
            "the container was asked to end, and ended with {status}"
        );
        ensure!(after <= ENDED, "the container took {after:?} to end");
        Ok(())
    }
}

/// Every process that ended was waited for: nobody else is there who would.
fn nobody_waits_for_ever(first: i32) -> Result<()> {
    let children = std::fs::read_to_string(format!("/proc/{first}/task/{first}/children"))?;
    for child in children.split_whitespace() {
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{child}/stat")) else {
            // It has ended, and is gone.
            continue;
        };
        let state = stat
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.chars().next());
        ensure!(state != Some('Z'), "nobody has waited for {stat}");
    }
    Ok(())
}

/// What a program that is not static loads.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = said.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(words.map(PathBuf::from).collect())
}

fn copy(from: &Path, root: &Path, to: &Path) -> Result<()> {
    let to = root.join(to.strip_prefix("/").unwrap_or(to));
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::copy(from, &to).with_context(|| format!("copy {}", from.display()))?;
    std::fs::set_permissions(&to, Permissions::from_mode(0o755))?;
    Ok(())
}

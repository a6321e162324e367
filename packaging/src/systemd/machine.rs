//! One machine: a root file system that was booted, with a systemd of its own.
//!
//! It can be rebooted, lose its power, and run commands. It shares this machine's network, so that loopback is where
//! control and gateway are. Dropped, it is gone: its processes, its groups and its folder.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

use super::done;
use crate::fleet::now;

/// How long a boot may take, on a machine that has other things to do.
const BOOT: Duration = Duration::from_secs(90);

/// How long it may take to be gone.
const OFF: Duration = Duration::from_secs(20);

/// What systemd-nspawn is told of every machine.
pub(super) const NSPAWN: [&str; 8] = [
    "--quiet",
    "--register=no",
    "--keep-unit",
    "--console=pipe",
    "--link-journal=no",
    "--settings=no",
    "--resolv-conf=off",
    "--timezone=off",
];

/// A machine, booted or not.
#[derive(Debug)]
pub struct Machine {
    name: String,
    /// What else systemd-nspawn is told.
    words: Vec<String>,
    nspawn: Option<Child>,
    groups: Vec<PathBuf>,
    dir: TempDir,
}

impl Machine {
    /// A copy of `base`, not booted yet.
    pub fn new(name: &str, base: &Path) -> Result<Self> {
        let machine = Self::bare(name, &["--boot"])?;
        let root = machine.root();
        done(
            Command::new("cp")
                .args(["-a", "--reflink=auto"])
                .arg(base)
                .arg(&root),
        )?;
        Ok(machine)
    }

    /// One without a file system yet, whose first process is what these words of systemd-nspawn end with.
    pub fn bare(name: &str, words: &[&str]) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("bcd-machine-").tempdir()?;
        let name = format!("{name}-{}", std::process::id());
        let groups = hierarchies()
            .map(|at| at.join(format!("bcd-{name}")))
            .collect();
        Ok(Self {
            name,
            words: words.iter().copied().map(str::to_owned).collect(),
            nspawn: None,
            groups,
            dir,
        })
    }

    /// Its root file system, as this machine sees it.
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// Boots it, and waits until it is up.
    pub async fn boot(&mut self) -> Result<()> {
        self.start()?;
        self.up().await
    }

    /// Starts it, and waits for nothing.
    pub fn start(&mut self) -> Result<()> {
        for group in &self.groups {
            std::fs::create_dir_all(group).with_context(|| format!("make {}", group.display()))?;
        }
        // Each in groups of its own: it makes more below.
        let script = r#"for group in "$@"; do [ "$group" != -- ] || break; echo $$ >"$group/cgroup.procs"; shift; done; shift; exec "$@""#;
        let mut nspawn = Command::new("sh");
        nspawn
            .args(["-c", script, "sh"])
            .args(&self.groups)
            .arg("--");
        nspawn.arg("systemd-nspawn").args(NSPAWN);
        nspawn.arg(format!("--machine={}", self.name));
        nspawn.arg("--directory").arg(self.root()).args(&self.words);
        nspawn
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.nspawn = Some(nspawn.spawn().context("start systemd-nspawn")?);
        Ok(())
    }

    /// Its folder, for what it is to see beside its file system.
    pub fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// Tells it what else systemd-nspawn is to know, from the next start on.
    pub fn told(&mut self, words: &[&str]) {
        self.words = words.iter().copied().map(str::to_owned).collect();
    }

    /// Waits until it is up.
    pub async fn up(&mut self) -> Result<()> {
        let deadline = now() + BOOT;
        while now() < deadline {
            if let Some(nspawn) = &mut self.nspawn
                && let Some(status) = nspawn.try_wait()?
            {
                bail!("systemd-nspawn ended with {status}");
            }
            if let Ok(output) = self.try_run(&["systemctl", "is-system-running"])
                && matches!(output.stdout.trim_ascii(), b"running" | b"degraded")
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("{} is not up after {BOOT:?}", self.name)
    }

    /// Its first process.
    pub fn leader(&self) -> Result<i32> {
        let nspawn = self.nspawn.as_ref().context("the machine is off")?.id();
        let listed = std::fs::read_to_string(format!("/proc/{nspawn}/task/{nspawn}/children"))?;
        let first = listed.split_whitespace().next();
        first
            .context("the machine has no process")?
            .parse()
            .context("a process id")
    }

    /// Runs a command in it, whatever comes of it.
    pub fn try_run(&self, words: &[&str]) -> Result<Output> {
        let leader = self.leader()?.to_string();
        let mut enter = Command::new("nsenter");
        enter.args([
            "--target", &leader, "--mount", "--uts", "--ipc", "--net", "--pid", "--",
        ]);
        enter.env_clear();
        enter.env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        );
        enter
            .env("DEBIAN_FRONTEND", "noninteractive")
            .env("LC_ALL", "C");
        enter.args(words).stdin(Stdio::null());
        enter.output().context("start nsenter")
    }

    /// Runs a command in it that must succeed; gives what it says.
    pub fn run(&self, words: &[&str]) -> Result<String> {
        let output = self.try_run(words)?;
        ensure!(
            output.status.success(),
            "{} ended with {}: {}{}",
            words.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs lines of shell that must succeed.
    pub fn shell(&self, lines: &str) -> Result<String> {
        self.run(&["sh", "-ec", lines])
    }

    /// A unit's state.
    pub fn state_of(&self, unit: &str) -> Result<String> {
        self.property(unit, "ActiveState")
    }

    /// The process of a unit.
    pub fn main_process(&self, unit: &str) -> Result<String> {
        self.property(unit, "MainPID")
    }

    fn property(&self, unit: &str, name: &str) -> Result<String> {
        let property = format!("--property={name}");
        let said = self.run(&["systemctl", "show", &property, "--value", unit])?;
        Ok(said.trim().to_owned())
    }

    /// A program of this machine's own, among that one's processes, and where it finds its root file system.
    pub fn program_of_ours(&self, program: &str) -> Result<(Command, PathBuf)> {
        let leader = self.leader()?;
        let mut enter = Command::new("nsenter");
        enter.args(["--target", &leader.to_string()]);
        enter.args(["--uts", "--ipc", "--net", "--pid", "--", program]);
        enter.stdin(Stdio::null());
        Ok((enter, PathBuf::from(format!("/proc/{leader}/root"))))
    }

    /// Reboots it as its owner would, and waits until it is up again.
    pub async fn reboot(&mut self) -> Result<()> {
        // It may be gone before it has answered.
        drop(self.try_run(&["systemctl", "reboot"]));
        let deadline = now() + BOOT;
        let mut nspawn = self.nspawn.take().context("the machine is off")?;
        // It ends, and says that it wants to be started again.
        while nspawn.try_wait()?.is_none() {
            if now() >= deadline {
                self.nspawn = Some(nspawn);
                bail!("{} does not go down", self.name);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.boot().await
    }

    /// Every process of it dies at once.
    pub fn pull_the_plug(&mut self) -> Result<()> {
        let leader = self.leader()?;
        kill(Pid::from_raw(leader), Signal::SIGKILL)?;
        self.off()
    }

    /// Asks its first process to end; gives with what it did, and after how long.
    pub fn terminate(&mut self) -> Result<(ExitStatus, Duration)> {
        let began = now();
        kill(Pid::from_raw(self.leader()?), Signal::SIGTERM)?;
        let mut nspawn = self.nspawn.take().context("the machine is off")?;
        loop {
            if let Some(status) = nspawn.try_wait()? {
                return Ok((status, began.elapsed()));
            }
            if began.elapsed() > OFF {
                self.nspawn = Some(nspawn);
                bail!("{} does not end", self.name);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn off(&mut self) -> Result<()> {
        let Some(mut nspawn) = self.nspawn.take() else {
            return Ok(());
        };
        let deadline = now() + OFF;
        while nspawn.try_wait()?.is_none() {
            if now() >= deadline {
                nspawn.kill()?;
                nspawn.wait()?;
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // What cannot be ended has ended by itself.
        drop(self.pull_the_plug());
        drop(self.off());
        for group in &self.groups {
            remove_groups(group);
        }
    }
}

/// The innermost first: a group with another in it stays.
fn remove_groups(group: &Path) {
    for entry in std::fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_groups(&entry.path());
        }
    }
    drop(std::fs::remove_dir(group));
}

/// Where systemd keeps groups on this machine: in one hierarchy, or in the two of the older form.
fn hierarchies() -> impl Iterator<Item = PathBuf> {
    let older = ["/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"].map(PathBuf::from);
    let newer = PathBuf::from("/sys/fs/cgroup");
    let is_new = newer.join("cgroup.controllers").is_file();
    let all = if is_new { vec![newer] } else { older.to_vec() };
    all.into_iter()
        .filter(|at| at.join("cgroup.procs").is_file())
}

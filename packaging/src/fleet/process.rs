//! One program that runs in the background, with its output in a file.
//!
//! It can be stopped, killed and started again; when it is dropped it is killed. Only processes that it started itself
//! are ever signalled.

use std::{
    ffi::{OsStr, OsString},
    fs::OpenOptions,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// A program with its arguments, running or not.
#[derive(Debug)]
pub struct Service {
    name: String,
    program: PathBuf,
    args: Vec<OsString>,
    told: Option<String>,
    log: PathBuf,
    child: Option<Child>,
}

impl Service {
    /// A program that does not run yet. Its output goes to `NAME.log` in `logs`.
    pub fn new(name: &str, program: &Path, logs: &Path) -> Self {
        Self {
            name: name.to_owned(),
            program: program.to_owned(),
            args: Vec::new(),
            told: None,
            log: logs.join(format!("{name}.log")),
            child: None,
        }
    }

    /// Adds an argument.
    pub fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<const N: usize>(&mut self, args: [&str; N]) -> &mut Self {
        self.args.extend(args.map(OsString::from));
        self
    }

    /// Tells it how to misbehave, if it is built to do as it is told.
    pub fn tell(&mut self, word: &str) -> &mut Self {
        self.told = Some(word.to_owned());
        self
    }

    /// Starts it; its output is added to the end of its log.
    pub fn start(&mut self) -> Result<()> {
        if let Some(dir) = self.log.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)?;
        let child = Command::new(&self.program)
            .args(&self.args)
            .env_remove("BCD_FAULT")
            .envs(self.told.iter().map(|word| ("BCD_FAULT", word)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", self.program.display()))?;
        self.child = Some(child);
        Ok(())
    }

    /// Its process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process ids of its own children.
    pub fn children(&self) -> Result<Vec<i32>> {
        let pid = self
            .pid()
            .with_context(|| format!("{} does not run", self.name))?;
        let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        listed
            .split_whitespace()
            .map(|child| child.parse().context("a process id"))
            .collect()
    }

    /// What it has printed so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Fails with its log if it has ended by itself.
    pub fn check(&mut self) -> Result<()> {
        let Some(child) = &mut self.child else {
            bail!("{} was not started", self.name)
        };
        match child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended with {status}:\n{}", self.name, self.log()),
        }
    }

    /// Kills it without warning, as a crash or the kernel would.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Asks it to end and waits; kills it if it takes longer than `patience`.
    pub fn stop(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        let Some(mut child) = self.child.take() else {
            return Ok(None);
        };
        kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM)?;
        let deadline = now() + patience;
        while now() < deadline {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill()?;
        child.wait()?;
        Ok(None)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Nothing is left to be done about one that cannot be killed: it has ended by itself.
        drop(self.kill());
    }
}

/// The clock that waits are counted by.
#[expect(
    clippy::disallowed_methods,
    reason = "waits for other processes are counted here"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

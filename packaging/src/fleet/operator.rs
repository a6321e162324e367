//! Calls control as its administrator does: by the command line.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{Service, process::now};

/// How long a service may take to be ready.
const READY: Duration = Duration::from_secs(30);

/// An administrator with the first token.
#[derive(Clone, Debug)]
pub struct Operator {
    program: PathBuf,
    url: String,
    token: PathBuf,
}

/// How a rollout that was watched has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Completed, every node on the version.
    Completed,
    /// Paused, aborted, or completed with failures.
    Stopped,
}

impl Operator {
    /// Of a control that runs.
    pub fn new(program: &Path, url: &str, token: &Path) -> Self {
        Self {
            program: program.to_owned(),
            url: url.to_owned(),
            token: token.to_owned(),
        }
    }

    /// Where the API listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The file with the administrator's token.
    pub fn token_file(&self) -> &Path {
        &self.token
    }

    /// The command line, with everything that it needs to reach control.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env("BETTER_COMPUTE_URL", &self.url)
            .env("BETTER_COMPUTE_TOKEN_FILE", &self.token)
            .env("BETTER_COMPUTE_TENANT", "root")
            .env_remove("BETTER_COMPUTE_CONTEXT")
            .env("BETTER_COMPUTE_CONFIG", "/dev/null")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command that must succeed.
    pub fn run(&self, args: &[&str]) -> Result<Output> {
        let output = self.try_run(args)?;
        ensure!(
            output.status.success(),
            "better-compute {} ended with {}: {}{}",
            args.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr),
            // A command that found something wrong, such as `doctor`, has said so as its answer.
            String::from_utf8_lossy(&output.stdout)
        );
        Ok(output)
    }

    /// Runs a command, whatever comes of it.
    pub fn try_run(&self, args: &[&str]) -> Result<Output> {
        self.command()
            .args(args)
            .output()
            .context("start better-compute")
    }

    /// Runs a command that must succeed, and reads what it prints.
    pub fn json(&self, args: &[&str]) -> Result<Value> {
        let mut args = args.to_vec();
        args.extend(["--output", "json"]);
        let output = self.run(&args)?;
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("better-compute {} printed no JSON", args.join(" ")))
    }

    /// Runs a command that follows a rollout, with its output where `shown` says.
    pub async fn follow(&self, args: &[&str], shown: Stdio) -> Result<Verdict> {
        let mut command = tokio::process::Command::from(self.command());
        let status = command
            .args(args)
            .stdout(shown)
            .kill_on_drop(true)
            .status()
            .await?;
        match status.code() {
            Some(0) => Ok(Verdict::Completed),
            Some(3) => Ok(Verdict::Stopped),
            Some(_) | None => bail!("better-compute {} ended with {status}", args.join(" ")),
        }
    }

    /// Asks `question` until it has an answer. The wait is for other processes, which tell nobody when they are done.
    pub async fn until<T>(
        &self,
        what: &str,
        patience: Duration,
        mut question: impl FnMut(&Self) -> Result<Option<T>>,
    ) -> Result<T> {
        let deadline = now() + patience;
        loop {
            if let Some(answer) = question(self)? {
                return Ok(answer);
            }
            ensure!(now() < deadline, "waited {patience:?} in vain until {what}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until control answers.
    pub async fn ready(&self, control: &mut Service) -> Result<()> {
        self.until("control is ready", READY, |operator| {
            control.check()?;
            let answered = operator.try_run(&["pools", "list"])?.status.success();
            Ok(answered.then_some(()))
        })
        .await
    }
}

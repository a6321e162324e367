//! One real helper, on one node's folder.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use nix::unistd::geteuid;

use super::client::{Answer, Request};
use crate::{
    faults::{
        script::Act,
        yard::{Exit, Yard},
    },
    fleet::{now, replace},
};

/// How long a helper may take to listen, or to close what a request has opened.
const PATIENCE: Duration = Duration::from_secs(20);

/// A user without any right, whom nobody here runs as.
const ANOTHER: u32 = 65_533;

/// A helper that runs; it is ended when this goes.
#[derive(Debug)]
pub(in crate::faults) struct Helper<'a> {
    yard: &'a Yard,
    child: Child,
    socket: PathBuf,
    log: PathBuf,
}

impl<'a> Helper<'a> {
    /// A helper for this process's user. `name` tells its socket from others'.
    pub(in crate::faults) fn start(yard: &'a Yard, state: &Path, name: &str) -> Result<Self> {
        let helper = Self::serving(yard, state, name, geteuid().as_raw())?;
        helper.wait_for("standing")?;
        Ok(helper)
    }

    /// A helper that serves a user that this process is not.
    pub(super) fn serving_another(yard: &'a Yard, state: &Path) -> Result<Self> {
        let helper = Self::serving(yard, state, "another", ANOTHER)?;
        let until = now() + PATIENCE;
        while Request::status().ask(&helper.socket)?.is_none() {
            ensure!(now() < until, "expected a helper to listen");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(helper)
    }

    fn serving(yard: &'a Yard, state: &Path, name: &str, user: u32) -> Result<Self> {
        let config = yard.folder.join(format!("helper-{user}.toml"));
        if !config.exists() {
            let table = format!("{}\n[node]\nuser = \"{user}\"\n", yard.config()?);
            replace(&config, &table)?;
        }
        let socket = yard.folder.join(format!("{name}.sock"));
        let log = yard.folder.join(format!("{name}.log"));
        let mut command = Command::new(yard.bcd());
        command
            .args(["helper", "--log", "warn", "--config"])
            .arg(&config)
            .arg("--state-dir")
            .arg(state)
            .arg("--socket")
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log)?);
        yard.plant(&mut command);
        let child = command.spawn().context("start bcd helper")?;
        Ok(Self {
            yard,
            child,
            socket,
            log,
        })
    }

    fn wait_for(&self, word: &str) -> Result<()> {
        let until = now() + PATIENCE;
        loop {
            let answer = self.hear(&Request::status())?;
            if answer.is_some_and(|answer| answer.word == word) {
                return Ok(());
            }
            ensure!(now() < until, "expected a helper that answers {word}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Where it listens.
    pub(in crate::faults) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Asks for one step of the script.
    pub(in crate::faults) fn ask(&self, act: &Act) -> Result<Exit> {
        let yard = self.yard;
        let file;
        let (section, digest);
        let request = match *act {
            Act::Boot | Act::HandOver => {
                anyhow::bail!("expected something that a node asks for, found a start")
            }
            Act::Stage {
                spec,
                attempt,
                binary,
            } => {
                section = yard.section(&format!("{spec}-{attempt}"))?;
                file = fs::File::open(yard.folder.join(binary))?;
                Request::stage(&section, &file)
            }
            Act::Activate { spec, attempt } => {
                section = yard.section(&format!("{spec}-{attempt}"))?;
                Request::activate(&section)
            }
            Act::Confirm { sequence } => {
                digest = yard.digest_of(sequence)?;
                Request::confirm(&digest)
            }
            Act::Cancel { sequence, attempt } => Request::cancel(&yard.attempt(sequence, attempt)),
        };
        Ok(exit(self.hear(&request)?))
    }

    /// Asks it; where it keeps silent, the error says how it stands.
    pub(super) fn hear(&self, request: &Request<'_>) -> Result<Option<Answer>> {
        request.ask(&self.socket).map_err(|error| {
            let standing = self.standing();
            error.context(standing)
        })
    }

    /// What each of its threads waits for, and what it has logged.
    fn standing(&self) -> String {
        let mut standing = String::from("a helper");
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid()));
        for task in tasks.into_iter().flatten().flatten() {
            let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let (name, call, place) = (read("comm"), read("syscall"), read("wchan"));
            standing += &format!(", thread {} in {} ({place})", name.trim(), call.trim());
        }
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        standing + &format!(", log {:?}", log.trim())
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The thread that takes requests, and the one that carries them out.
    pub(super) fn threads(&self) -> Result<[u32; 2]> {
        let main = self.pid();
        let tasks = fs::read_dir(format!("/proc/{main}/task"))?;
        for task in tasks {
            let thread: u32 = task?.file_name().to_string_lossy().parse()?;
            if thread != main {
                return Ok([main, thread]);
            }
        }
        anyhow::bail!("expected a helper that has done something to have a second thread")
    }

    fn descriptors(&self) -> Option<usize> {
        Some(
            fs::read_dir(format!("/proc/{}/fd", self.pid()))
                .ok()?
                .count(),
        )
    }

    /// How many descriptors it has while nobody asks for anything.
    pub(in crate::faults) fn settled(&self) -> Result<usize> {
        let until = now() + PATIENCE;
        let mut last = self.descriptors();
        loop {
            std::thread::sleep(Duration::from_millis(2));
            let again = self.descriptors();
            if let Some(count) = again.filter(|_| again == last) {
                return Ok(count);
            }
            last = again;
            ensure!(now() < until, "expected a helper at rest");
        }
    }

    /// I17: whether its descriptors return to that many. One that is gone has none.
    pub(in crate::faults) fn comes_back_to(&self, before: usize) -> Result<bool> {
        let until = now() + Duration::from_secs(2);
        while self.descriptors().is_some_and(|now| now > before) {
            if now() > until {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(true)
    }

    /// Whether it still does its work.
    pub(super) fn answers(&self) -> Result<bool> {
        let answer = self.hear(&Request::status())?;
        Ok(answer.is_some_and(|answer| answer.word == "standing"))
    }
}

impl Drop for Helper<'_> {
    fn drop(&mut self) {
        // It may have been killed on purpose.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn exit(answer: Option<Answer>) -> Exit {
    match answer {
        None => Exit::Killed,
        Some(answer) if answer.word == "done" => Exit::Done,
        Some(_) => Exit::Refused,
    }
}

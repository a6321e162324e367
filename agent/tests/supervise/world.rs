//! One node's folder, its record, and the program that supervises it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use bc_protocol::digest::{Pin, Sha256};
use bc_protocol::id::{AttemptId, NodeId};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

const STEP: Duration = Duration::from_millis(10);

pub(crate) struct World {
    pub(crate) folder: TempDir,
}

impl World {
    /// A configured machine that has never booted.
    pub(crate) fn new(deadline: &str) -> Self {
        Self::trusting(deadline, &[Pin::of_spki(b"nobody")])
    }

    pub(crate) fn trusting(deadline: &str, pins: &[Pin]) -> Self {
        let world = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let pins: Vec<_> = pins.iter().map(|pin| format!("\"{pin}\"")).collect();
        let config = format!(
            "state_dir = \"{}\"\npackage_binary = \"{}\"\n[update]\nrelease_pins = [{}]\nthreshold = 1\nwatchdog_deadline = \"{deadline}\"\nstable_for = \"100ms\"\n",
            world.path("node").display(),
            program(),
            pins.join(", "),
        );
        world.put("bcd.toml", config.as_bytes(), 0o644);
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "a test's own files need no power cut"
    )]
    pub(crate) fn put(&self, name: &str, bytes: &[u8], mode: u32) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Another thread may be between fork and exec: a new name is never open for writing there.
        let staged = path.with_extension("staged");
        fs::write(&staged, bytes).unwrap();
        fs::set_permissions(&staged, fs::Permissions::from_mode(mode)).unwrap();
        fs::rename(&staged, &path).unwrap();
    }

    /// Puts a script into a slot. It finds this folder in `$here`.
    pub(crate) fn script(&self, slot: &str, text: &str, mode: u32) -> Sha256 {
        let here = self.folder.path().display();
        let script = format!("#!/bin/sh\nhere='{here}'\n{text}\n");
        self.put(&format!("node/slots/{slot}/bcd"), script.as_bytes(), mode);
        Sha256::of(script.as_bytes())
    }

    /// Writes both copies of a record: slot a runs `confirmed`, and slot b is on trial where `trial` is given.
    pub(crate) fn record(&self, confirmed: Sha256, trial: Option<Sha256>) {
        let attempt = attempt().to_string();
        let mut record = json!({
            "counter": 1,
            "floor": 1,
            "confirmed": {"slot": "a", "sequence": 1, "digest": confirmed},
        });
        if let Some(digest) = trial {
            record["trial"] = json!({
                "slot": "b", "sequence": 2, "digest": digest, "attempt": attempt,
                "starts": 0, "bootId": "an earlier one", "deadline": 0,
            });
            record["lastAttempt"] = json!({
                "id": attempt, "target": "1.2.0", "outcome": "running", "final": false, "tries": 0,
                "code": "", "message": "", "exitStatus": null, "signal": null, "log": "",
            });
        }
        self.write_record(&record);
    }

    pub(crate) fn write_record(&self, record: &Value) {
        let text = record.to_string();
        let sha256 = Sha256::of(text.as_bytes());
        let copy = format!("{{\"sha256\":\"{sha256}\",\"record\":{text}}}");
        for name in ["node/update.json", "node/update.json.1"] {
            self.put(name, copy.as_bytes(), 0o644);
        }
    }

    /// A watchdog, for as long as this is kept.
    pub(crate) fn watched(&self) -> fs::File {
        let watchdog = fs::File::create(self.path("node/supervise.lock")).unwrap();
        watchdog.lock().unwrap();
        watchdog
    }

    /// The record as the disk has it.
    pub(crate) fn read_record(&self) -> Option<Value> {
        let text = fs::read_to_string(self.path("node/update.json")).ok()?;
        let copy: Value = serde_json::from_str(&text).unwrap();
        Some(copy["record"].clone())
    }

    /// Waits until the record has an attempt that has ended, and gives it.
    pub(crate) fn ended_attempt(&self) -> Value {
        until("the attempt's end", || {
            let last = self.read_record()?["lastAttempt"].clone();
            (last["outcome"] != "running").then_some(last)
        })
    }

    /// As much of an identity as anybody asks for before the node has started.
    pub(crate) fn join(&self) {
        let node = NodeId::derived(&[b"a node"]);
        let identity = json!({"nodeId": node, "gateways": ["wss://127.0.0.1:1/session"]});
        let text = identity.to_string();
        self.put("node/identity/node.json", text.as_bytes(), 0o644);
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Supervises a machine that is a node.
    pub(crate) fn supervise(&self) -> Supervisor {
        self.join();
        self.start(&mut self.command(&["supervise", "--log", "bcd=debug"]))
    }

    /// Starts what goes on until it is told to end, or has nothing more to do.
    pub(crate) fn start(&self, command: &mut Command) -> Supervisor {
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(process.stderr.take().unwrap());
        let (line, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for text in log.lines().map_while(Result::ok) {
                if line.send(text).is_err() {
                    return;
                }
            }
        });
        Supervisor { process, lines }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(arguments)
            .arg("--config")
            .arg(self.path("bcd.toml"))
            .env_remove("BCD_LOG")
            // Whoever runs the tests may be a service himself.
            .env_remove("INVOCATION_ID");
        command
    }

    /// Waits for a process to write its id into a file of that name.
    pub(crate) fn pid(&self, name: &str) -> i32 {
        until(name, || {
            fs::read_to_string(self.path(name))
                .ok()?
                .trim()
                .parse()
                .ok()
        })
    }
}

pub(crate) fn program() -> &'static str {
    env!("CARGO_BIN_EXE_bcd")
}

pub(crate) fn attempt() -> AttemptId {
    AttemptId::derived(&[b"attempt"])
}

pub(crate) struct Supervisor {
    process: Child,
    lines: mpsc::Receiver<String>,
}

impl Supervisor {
    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.process.id()).unwrap())
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        until("the supervisor's end", || self.process.try_wait().unwrap())
    }

    /// Stops it as a service manager does, which waits no longer.
    pub(crate) fn stops_within_five_seconds(&mut self) {
        let begun = now();
        self.signal(Signal::SIGTERM);
        assert_eq!(self.wait().code(), Some(0));
        let took = now().duration_since(begun).unwrap();
        assert!(took < Duration::from_secs(5), "it took {took:?}");
    }

    /// Waits for a line of its log.
    pub(crate) fn says(&self, text: &str) {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("expected it to log \"{text}\""));
            if line.contains(text) {
                return;
            }
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // Its node dies with it.
        let _ended = self.process.kill();
        let _status = self.process.wait();
    }
}

/// Asks again and again until there is an answer.
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let started = now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(
            now().duration_since(started).unwrap_or_default() < PATIENCE,
            "expected {what}"
        );
        std::thread::sleep(STEP);
    }
}

#[allow(clippy::disallowed_methods, reason = "a test's own patience")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// Waits until there is no such process, or only its remains.
pub(crate) fn gone(pid: i32) {
    until("a process to be gone", || {
        let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = status
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.chars().next());
        matches!(state, None | Some('Z' | 'X')).then_some(())
    });
}

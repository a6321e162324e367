//! The real helper, and whoever can reach its socket.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, SystemTime};

use bc_protocol::digest::Pin;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

const BCD: &str = env!("CARGO_BIN_EXE_bcd");

/// A user without any right.
const NOBODY: u32 = 65_534;

const STATUS: &str = r#"{"version":1,"operation":"update.status","arguments":{}}"#;

/// A machine that has booted once, and its helper.
struct Machine {
    folder: TempDir,
}

/// Ends with the test.
struct Helper(Child);

impl Machine {
    /// Its helper is to serve that user.
    fn serving(user: u32) -> Self {
        let machine = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let text = format!(
            "state_dir = \"{}\"\npackage_binary = \"{BCD}\"\n[node]\nuser = \"{user}\"\n[update]\nrelease_pins = [\"{}\"]\nthreshold = 1\n",
            machine.path("node").display(),
            Pin::of_spki(b"nobody"),
        );
        let mut config = fs::File::create(machine.path("bcd.toml")).unwrap();
        config.write_all(text.as_bytes()).unwrap();
        assert!(machine.command("boot").status().unwrap().success());
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, command: &str) -> Command {
        let mut bcd = Command::new(BCD);
        bcd.arg(command).arg("--config").arg(self.path("bcd.toml"));
        bcd
    }

    fn start(&self) -> Child {
        let mut helper = self.command("helper");
        helper.arg("--socket").arg(self.path("socket"));
        helper.spawn().unwrap()
    }

    /// A helper that listens.
    fn helper(&self) -> Helper {
        let helper = Helper(self.start());
        until("a helper", || UnixStream::connect(self.path("socket")).ok());
        helper
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.path("socket")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn ask(&self, request: &str) -> Value {
        let mut stream = self.connect();
        let length = u32::try_from(request.len()).unwrap().to_be_bytes();
        // Whoever is turned away may find the other end closed already.
        stream
            .write_all(&[&length, request.as_bytes()].concat())
            .ok();
        answer(&mut stream)
    }
}

impl Helper {
    fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.0.id());
        fs::read_dir(folder).unwrap().count()
    }

    fn end(mut self) -> ExitStatus {
        let id = i32::try_from(self.0.id()).unwrap();
        kill(Pid::from_raw(id), Signal::SIGTERM).unwrap();
        self.0.wait().unwrap()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn answer(stream: &mut UnixStream) -> Value {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut reply = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut reply).unwrap();
    // One reply, and the end.
    assert_eq!(stream.read(&mut length).unwrap_or(0), 0);
    let reply: Value = serde_json::from_slice(&reply).unwrap();
    assert_eq!(reply["version"], 1);
    reply["answer"].clone()
}

#[allow(
    clippy::disallowed_methods,
    reason = "a test's own patience, not the product's time"
)]
fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = SystemTime::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed().unwrap() < PATIENCE, "expected {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Root is another user too: the helper serves the node's and nobody else.
#[test]
fn another_user_is_denied_whatever_he_says() {
    let machine = Machine::serving(if geteuid().is_root() { NOBODY } else { 0 });
    let helper = machine.helper();
    for request in [STATUS, "", "nonsense"] {
        assert_eq!(machine.ask(request)["answer"], "denied");
    }
    // Not one byte of his has to come.
    assert_eq!(answer(&mut machine.connect())["answer"], "denied");
    let socket = fs::symlink_metadata(machine.path("socket")).unwrap();
    assert_eq!(socket.permissions().mode() & 0o7777, 0o660);
    assert_eq!(socket.uid(), geteuid().as_raw());
    assert!(helper.end().success());
}

/// I17: a thousand at once, each in the middle of its request.
#[test]
fn a_thousand_connections_leave_nothing_behind() {
    let machine = Machine::serving(geteuid().as_raw());
    let helper = machine.helper();
    until("the first connection's end", || {
        (machine.ask(STATUS)["answer"] == "standing").then_some(())
    });
    let before = helper.descriptors();
    let mut half = Vec::new();
    for _ in 0..1_000 {
        let mut stream = machine.connect();
        // The helper may have closed it.
        stream.write_all(&[0, 0, 1]).ok();
        half.push(stream);
    }
    assert_eq!(machine.ask(STATUS)["answer"], "busy");
    assert!(helper.descriptors() < before + 32);
    drop(half);
    until("a free helper", || {
        (machine.ask(STATUS)["answer"] == "standing").then_some(())
    });
    until("the descriptors' end", || {
        (helper.descriptors() <= before).then_some(())
    });
    assert!(helper.end().success());
}

/// Whoever says nothing is not waited for longer than five seconds.
#[test]
fn a_silent_client_is_sent_away() {
    let machine = Machine::serving(geteuid().as_raw());
    let _helper = machine.helper();
    let mut silent = machine.connect();
    silent.write_all(&[0, 0]).unwrap();
    let answered = answer(&mut silent);
    assert_eq!(answered["answer"], "malformed", "{answered}");
}

#[test]
fn what_is_no_dead_socket_of_its_own_is_left_alone() {
    let machine = Machine::serving(geteuid().as_raw());
    let socket = machine.path("socket");
    fs::File::create(&socket).unwrap();
    assert!(!machine.start().wait().unwrap().success());
    assert!(socket.is_file());
    fs::remove_file(&socket).unwrap();
    std::os::unix::fs::symlink(machine.path("bcd.toml"), &socket).unwrap();
    assert!(!machine.start().wait().unwrap().success());
    assert!(socket.is_symlink());
    fs::remove_file(&socket).unwrap();
    let living = UnixListener::bind(&socket).unwrap();
    assert!(!machine.start().wait().unwrap().success());
    // A dead one is in nobody's way.
    drop(living);
    assert!(
        fs::symlink_metadata(&socket)
            .unwrap()
            .file_type()
            .is_socket()
    );
    let helper = machine.helper();
    assert_eq!(machine.ask(STATUS)["answer"], "standing");
    assert!(helper.end().success());
}

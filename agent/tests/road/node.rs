//! One node: the real program, in a folder of its own.

use std::{
    collections::BTreeSet,
    fs::{File, Permissions},
    io::Write,
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt},
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    time::Duration,
};

use bc_protocol::digest::Sha256;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;
use tokio::process::Child;

use super::fleet::{Fleet, TOKEN};

/// The program under test.
pub(crate) const BCD: &str = env!("CARGO_BIN_EXE_bcd");

/// A user without any right.
pub(crate) const NOBODY: u32 = 65_534;

pub(crate) struct Node {
    folder: TempDir,
    /// What its processes are to load before all else.
    preload: Option<PathBuf>,
}

impl Node {
    pub(crate) fn new(fleet: &Fleet) -> Self {
        Self::with_deadline(fleet, "30s")
    }

    /// A node whose trials have that long.
    pub(crate) fn with_deadline(fleet: &Fleet, deadline: &str) -> Self {
        Self::configured(fleet, deadline, "")
    }

    /// A node that runs as another user, and asks the helper for what it may not do.
    pub(crate) fn unprivileged(fleet: &Fleet) -> Self {
        Self::helped(fleet, NOBODY)
    }

    /// A node that runs as that user, and asks the helper though it might do without.
    pub(crate) fn helped(fleet: &Fleet, user: u32) -> Self {
        let socket = "helper_socket = \"HERE/helper.sock\"";
        let node = format!("[node]\nuser = \"{user}\"\n{socket}\n");
        Self::configured(fleet, "30s", &node)
    }

    fn configured(fleet: &Fleet, deadline: &str, section: &str) -> Self {
        let node = Self {
            folder: tempfile::tempdir().unwrap(),
            preload: None,
        };
        // Another user has to get through.
        let mode = Permissions::from_mode(0o755);
        std::fs::set_permissions(node.folder.path(), mode).unwrap();
        let section = section.replace("HERE", node.folder.path().to_str().unwrap());
        let ca_file = node.folder.path().join("authority.pem");
        let web = match &fleet.authority {
            Some(authority) => {
                write(&ca_file, authority);
                format!("ca_file = \"{}\"\n", ca_file.display())
            }
            None => String::new(),
        };
        let config = format!(
            "control = \"{}\"\nstate_dir = \"{}\"\n{web}[labels]\nrack = \"7\"\n{section}[update]\nrelease_pins = [\"{}\"]\n\
             threshold = 1\nwatchdog_deadline = \"{deadline}\"\nstable_for = \"200ms\"\n",
            fleet.control,
            node.folder.path().join("state").display(),
            fleet.pin(),
        );
        write(&node.config(), &config);
        write(&node.token(), TOKEN);
        node
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What must outlive a refusal, by name: the slots, and the record but for its last attempt and its counter.
    pub(crate) fn durable(&self) -> Vec<(String, String)> {
        let root = self.folder.path().join("state");
        let mut durable = Vec::new();
        for name in [
            "slots/a/bcd",
            "slots/a/release.json",
            "slots/b/bcd",
            "slots/b/release.json",
        ] {
            let bytes = std::fs::read(root.join(name)).unwrap_or_default();
            durable.push((name.to_owned(), Sha256::of(&bytes).to_string()));
        }
        for name in ["update.json", "update.json.1"] {
            let text = std::fs::read_to_string(root.join(name)).unwrap();
            let copy: serde_json::Value = serde_json::from_str(&text).unwrap();
            let mut record = copy["record"].clone();
            for passing in ["lastAttempt", "counter"] {
                record.as_object_mut().unwrap().remove(passing);
            }
            durable.push((name.to_owned(), record.to_string()));
        }
        durable
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.folder.path().join("bcd.toml")
    }

    fn token(&self) -> PathBuf {
        self.folder.path().join("token")
    }

    pub(crate) fn join(&self) {
        let joined = Command::new(BCD)
            .arg("join")
            .arg("--token-file")
            .arg(self.token())
            .arg("--config")
            .arg(self.config())
            .envs(self.preloaded())
            .status();
        assert!(joined.unwrap().success());
    }

    /// A node whose package's binary is this program.
    pub(crate) fn packaged(fleet: &Fleet) -> Self {
        let node = Self::new(fleet);
        let config = std::fs::read_to_string(node.config()).unwrap();
        write(
            &node.config(),
            &format!("package_binary = \"{BCD}\"\n{config}"),
        );
        node
    }

    /// Waits until nobody watches over it.
    pub(crate) async fn unwatched(&self) {
        for _ in 0..600 {
            let lock = File::open(self.path("state/supervise.lock")).unwrap();
            if lock.try_lock().is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("expected the watchdog to end");
    }

    /// Waits until its first start has made a record.
    pub(crate) async fn booted(&self) {
        for _ in 0..600 {
            if self.path("state/update.json").exists() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("expected a record");
    }

    /// Whatever the machine's clock shows, this node's processes see the second of January 1970.
    pub(crate) fn in_1970(mut self) -> Self {
        let source = self.folder.path().join("clock.c");
        let shim = self.folder.path().join("clock.so");
        write(&source, include_str!("clock.c"));
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([&shim, &source])
            .status();
        assert!(built.unwrap().success());
        self.preload = Some(shim);
        self
    }

    fn preloaded(&self) -> Option<(&'static str, &Path)> {
        self.preload.as_deref().map(|shim| ("LD_PRELOAD", shim))
    }

    /// The helper, as a service manager would start it.
    pub(crate) fn helper(&self) -> Supervise {
        let child = tokio::process::Command::new(BCD)
            .args(["exec", "helper", "--config"])
            .arg(self.config())
            .kill_on_drop(true)
            .spawn();
        Supervise(child.unwrap())
    }

    /// Damages a file of the node's folder as a bad disk does.
    pub(crate) fn flip_a_byte_of(&self, name: &str) {
        let path = self.folder.path().join("state").join(name);
        let file = File::options().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, 4096).unwrap();
        file.write_all_at(&[byte[0] ^ 1], 4096).unwrap();
    }

    /// Somebody without rights who runs a helper of his own at the helper's place.
    pub(crate) async fn impostor(&self) -> Supervise {
        // A careless machine: everybody may make sockets there.
        std::fs::set_permissions(self.folder.path(), Permissions::from_mode(0o777)).unwrap();
        let child = tokio::process::Command::new(BCD)
            .args(["helper", "--config"])
            .arg(self.config())
            .uid(NOBODY)
            .gid(NOBODY)
            .kill_on_drop(true)
            .spawn();
        for _ in 0..600 {
            if self.folder.path().join("helper.sock").exists() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Supervise(child.unwrap())
    }

    /// A socket at the helper's place, for a helper that a test plays.
    pub(crate) fn helper_socket(&self) -> UnixListener {
        let path = self.folder.path().join("helper.sock");
        let listener = UnixListener::bind(&path).unwrap();
        std::fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap();
        listener
    }

    /// Waits until a process runs the binary of that name in the node's folder.
    pub(crate) async fn runs(&self, process: &Supervise, name: &str) {
        let image = format!("/proc/{}/exe", process.0.id().unwrap());
        let binary = self.folder.path().join("state").join(name);
        for _ in 0..600 {
            if std::fs::read_link(&image).is_ok_and(|found| found == binary) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("expected it to run {name}");
    }

    /// The users of what the folder holds.
    pub(crate) fn owners(&self, names: &[&str]) -> BTreeSet<u32> {
        let root = self.folder.path().join("state");
        let files = names.iter().map(|name| root.join(name));
        files
            .map(|path| std::fs::symlink_metadata(path).unwrap().uid())
            .collect()
    }

    pub(crate) fn supervise(&self) -> Supervise {
        self.supervise_with(&[])
    }

    /// The same, with those words in its surroundings.
    pub(crate) fn supervise_with(&self, surroundings: &[(&str, String)]) -> Supervise {
        let child = tokio::process::Command::new(BCD)
            .arg("supervise")
            .arg("--config")
            .arg(self.config())
            .envs(self.preloaded())
            .envs(surroundings.iter().map(|(name, value)| (name, value)))
            .kill_on_drop(true)
            .spawn();
        Supervise(child.unwrap())
    }

    /// What `bcd update` says.
    pub(crate) fn update(&self, args: &[&str]) -> String {
        let update = Command::new(BCD)
            .arg("update")
            .args(args)
            .arg("--config")
            .arg(self.config())
            .output()
            .unwrap();
        let said = String::from_utf8(update.stderr).unwrap();
        assert!(update.status.success(), "{said}");
        String::from_utf8(update.stdout).unwrap()
    }

    /// What `bcd boot` logs.
    pub(crate) fn boot_logs(&self, format: &str) -> String {
        let boot = Command::new(BCD)
            .args(["boot", "--log-format", format, "--config"])
            .arg(self.config())
            .output()
            .unwrap();
        let said = String::from_utf8(boot.stderr).unwrap();
        assert!(boot.status.success(), "{said}");
        said
    }

    /// What `bcd status` says.
    pub(crate) fn status(&self) -> serde_json::Value {
        let status = Command::new(BCD)
            .args(["status", "--output", "json", "--config"])
            .arg(self.config())
            .output()
            .unwrap();
        assert!(
            status.status.success(),
            "{}",
            String::from_utf8_lossy(&status.stderr)
        );
        serde_json::from_slice(&status.stdout).unwrap()
    }
}

/// The supervisor of a node; its node dies with it.
pub(crate) struct Supervise(Child);

impl Supervise {
    pub(crate) fn terminate(&self) {
        let pid = i32::try_from(self.0.id().unwrap()).unwrap();
        kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    }

    /// Its end, which has to come within the five seconds of a clean stop and one to spare.
    pub(crate) async fn wait(&mut self) -> ExitStatus {
        let ended = tokio::time::timeout(Duration::from_secs(6), self.0.wait());
        ended.await.expect("a stop in time").unwrap()
    }
}

pub(crate) fn write(path: &Path, text: &str) {
    File::create(path)
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
}

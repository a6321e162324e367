//! A folder with releases, a configuration, and a `bcd` to drive on a node's folder.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use bc_protocol::{
    digest::Sha256,
    id::AttemptId,
    platform::Platform,
    release::{
        Artifact,
        sign::{ManifestDraft, SigningKey, cosign, sign},
    },
    sequence::Sequence,
    spec::{DaemonSection, NodeSpec},
    time::Timestamp,
};

use super::{
    Figures,
    program::program,
    script::{Act, Step},
};
use crate::fleet::replace;

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// It said that it is done.
    Done,
    /// It said that it is not.
    Refused,
    /// It said nothing any more.
    Killed,
    /// It said something, and kept open what it had been given.
    Leaked,
}

/// Everything that the script needs besides a node's folder.
#[derive(Debug)]
pub(super) struct Yard {
    pub(super) folder: PathBuf,
    bcd: PathBuf,
    fault: Option<&'static str>,
    /// What may run, by digest, and the sequence that it has.
    pub(super) known: BTreeMap<String, u64>,
}

/// How big the binaries are: a few of the chunks that the agent copies by.
const BINARY_BYTES: usize = 150_000;

impl Yard {
    /// A yard in a new folder; with `fault`, its `bcd` makes that mistake.
    pub(super) fn new(bcd: &Path, folder: &Path, fault: Option<&'static str>) -> Result<Self> {
        Self::with_binaries(bcd, folder, fault, BINARY_BYTES)
    }

    /// The same, with binaries of that length.
    pub(super) fn with_binaries(
        bcd: &Path,
        folder: &Path,
        fault: Option<&'static str>,
        bytes: usize,
    ) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let package = program("the package's own", "1.0.0", bytes);
        let mut known = BTreeMap::from([(Sha256::of(&package).to_string(), 0)]);
        File::create(folder.join("package")).and_then(|mut file| {
            use std::io::Write as _;
            file.write_all(&package)
        })?;
        let keys = [key(1)?, key(2)?];
        for sequence in 1..=3 {
            let binary = release(sequence, bytes);
            let digest = Sha256::of(&binary);
            known.insert(digest.to_string(), sequence);
            put(&folder.join(format!("binary-{sequence}")), &binary)?;
            let mut bad = binary.clone();
            if let Some(byte) = bad.last_mut() {
                *byte ^= 1;
            }
            put(&folder.join(format!("bad-{sequence}")), &bad)?;
            let published = published(sequence, &binary, &keys)?;
            let one_signature = published_by_one(sequence, &binary, &keys)?;
            for (name, signature) in [("", published), ("unsigned-", one_signature)] {
                // Every release can be tried twice.
                for attempt in ["first", "second"] {
                    let spec = spec(sequence, digest, signature.clone(), attempt)?;
                    let path = folder.join(format!("{name}spec-{sequence}-{attempt}"));
                    replace(&path, &spec)?;
                }
            }
        }
        let pins: Vec<_> = keys.iter().map(|key| key.pin().to_string()).collect();
        let config = format!(
            "package_binary = {:?}\n\n[update]\nrelease_pins = {pins:?}\nthreshold = 2\nwatchdog_deadline = \"1h\"\n",
            folder.join("package")
        );
        replace(&folder.join("bcd.toml"), &config)?;
        Ok(Self {
            folder: folder.to_owned(),
            bcd: bcd.to_owned(),
            fault,
            known,
        })
    }

    /// The command of a step on the node's folder `state`, behind the words of `under`.
    pub(super) fn run(&self, state: &Path, step: &Step, under: &[String]) -> Result<Exit> {
        let watchdog = self.watchdog(state, step)?;
        let mut words = under.iter();
        let mut command = match words.next() {
            Some(first) => Command::new(first),
            None => Command::new(&self.bcd),
        };
        if !under.is_empty() {
            command.args(words).arg(&self.bcd);
        }
        command
            .args(self.words(&step.act)?)
            .arg("--config")
            .arg(self.folder.join("bcd.toml"))
            .arg("--state-dir")
            .arg(state)
            .args(["--log", "off"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.plant(&mut command);
        let status = command.status().context("start bcd")?;
        drop(watchdog);
        exit(status)
    }

    /// What a watchdog holds for as long as it lives, if the step has one.
    pub(super) fn watchdog(&self, state: &Path, step: &Step) -> Result<Option<File>> {
        if !step.watched {
            return Ok(None);
        }
        let path = state.join("supervise.lock");
        // One that is there can be locked on a disk that cannot be written too.
        let lock = match File::open(&path) {
            Ok(lock) => lock,
            Err(_) => {
                fs::create_dir_all(state)?;
                File::create(&path)?
            }
        };
        lock.lock()?;
        Ok(Some(lock))
    }

    /// Gives a `bcd` the mistake that this yard is about, and nothing else of this process's environment.
    pub(super) fn plant(&self, command: &mut Command) {
        command.env_remove("BCD_LOG").env_remove("BCD_FAULT");
        if let Some(fault) = self.fault {
            command.env("BCD_FAULT", fault);
        }
    }

    /// Whether its `bcd` makes no mistake on purpose.
    pub(super) fn is_sound(&self) -> bool {
        self.fault.is_none()
    }

    /// Whether its `bcd` makes a mistake that has shown by now: then there is no more to be learnt from it.
    pub(super) fn has_shown(&self, figures: &Figures) -> bool {
        !self.is_sound() && !figures.violations.is_empty()
    }

    /// The agent.
    pub(super) fn bcd(&self) -> &Path {
        &self.bcd
    }

    /// The configuration that everybody has.
    pub(super) fn config(&self) -> Result<String> {
        Ok(fs::read_to_string(self.folder.join("bcd.toml"))?)
    }

    /// What a node would pass on of the spec of that name.
    pub(super) fn section(&self, name: &str) -> Result<serde_json::Value> {
        let spec: serde_json::Value = serde_json::from_slice(&fs::read(self.folder.join(name))?)?;
        Ok(spec
            .get("daemon")
            .context("a spec without a release")?
            .clone())
    }

    /// The name of an attempt.
    pub(super) fn attempt(&self, sequence: u64, attempt: &str) -> String {
        attempt_id(sequence, attempt).to_string()
    }

    fn words(&self, act: &Act) -> Result<Vec<String>> {
        let text = |name: String| crate::fleet::text(&self.folder.join(name));
        let words = match *act {
            Act::Boot => vec!["boot".to_owned()],
            Act::HandOver => ["exec", "node", "--boot"].map(str::to_owned).into(),
            Act::Stage {
                spec,
                attempt,
                binary,
            } => vec![
                "update".into(),
                "stage".into(),
                "--spec".into(),
                text(format!("{spec}-{attempt}"))?,
                "--binary".into(),
                text(binary.to_owned())?,
            ],
            Act::Activate { spec, attempt } => vec![
                "update".into(),
                "activate".into(),
                "--spec".into(),
                text(format!("{spec}-{attempt}"))?,
            ],
            Act::Confirm { sequence } => vec![
                "update".into(),
                "confirm".into(),
                "--digest".into(),
                self.digest_of(sequence)?,
            ],
            Act::Cancel { sequence, attempt } => vec![
                "update".into(),
                "cancel".into(),
                "--attempt".into(),
                attempt_id(sequence, attempt).to_string(),
            ],
        };
        Ok(words)
    }

    /// The digest of a release's binary.
    pub(super) fn digest_of(&self, sequence: u64) -> Result<String> {
        let found = self.known.iter().find(|(_, known)| **known == sequence);
        Ok(found.context("no such release")?.0.clone())
    }
}

fn exit(status: ExitStatus) -> Result<Exit> {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(Exit::Done),
        // The last of them: what the record names cannot be executed.
        (Some(1..=4 | 126), _) => Ok(Exit::Refused),
        (None, Some(9)) => Ok(Exit::Killed),
        (code, signal) => bail!("bcd ended with code {code:?} and signal {signal:?}"),
    }
}

/// Copies a folder with everything in it.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    if !from.exists() {
        return Ok(());
    }
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status()?;
    ensure!(status.success(), "cp ended with {status}");
    Ok(())
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    use std::io::Write as _;
    Ok(File::create(path)?.write_all(bytes)?)
}

fn key(number: u8) -> Result<SigningKey> {
    Ok(SigningKey::from_scalar(&[number; 32])?)
}

/// A release's binary. A preflight can run it.
fn release(sequence: u64, bytes: usize) -> Vec<u8> {
    let name = format!("release {sequence}");
    program(&name, &format!("1.{sequence}.0"), bytes)
}

fn attempt_id(sequence: u64, attempt: &str) -> AttemptId {
    AttemptId::derived(&[&sequence.to_be_bytes(), attempt.as_bytes()])
}

fn spec(sequence: u64, digest: Sha256, signature: Vec<u8>, attempt: &str) -> Result<String> {
    let spec = NodeSpec {
        generation: 1,
        daemon: Some(DaemonSection {
            version: format!("1.{sequence}.0").parse()?,
            url: "https://downloads.example/bcd".to_owned(),
            sha256: digest,
            signature,
            attempt: attempt_id(sequence, attempt),
        }),
    };
    Ok(serde_json::to_string(&spec)?)
}

fn published(sequence: u64, binary: &[u8], keys: &[SigningKey; 2]) -> Result<Vec<u8>> {
    let [_, second] = keys;
    Ok(cosign(&published_by_one(sequence, binary, keys)?, second)?)
}

fn published_by_one(sequence: u64, binary: &[u8], keys: &[SigningKey; 2]) -> Result<Vec<u8>> {
    let [first, _] = keys;
    let platform = Platform::host();
    let artifact = Artifact::new(
        format!("bcd-{platform}"),
        Some(platform),
        Sha256::of(binary),
        binary.len() as u64,
    )?;
    let draft = ManifestDraft {
        product: "bcd".to_owned(),
        version: format!("1.{sequence}.0").parse()?,
        sequence: Sequence::new(sequence)?,
        // Years around now: the harness has no clock of its own.
        issued_at: Timestamp::from_unix(1_600_000_000)?,
        expires_at: Timestamp::from_unix(4_000_000_000)?,
        keys: keys.iter().map(|key| key.public().clone()).collect(),
        extensions: BTreeMap::default(),
        artifacts: vec![artifact],
    };
    Ok(sign(draft.into_body()?, first)?)
}

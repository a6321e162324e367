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

use super::script::{Act, Step};
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
        fs::create_dir_all(folder)?;
        let package = binary("the package's own");
        let mut known = BTreeMap::from([(Sha256::of(&package).to_string(), 0)]);
        File::create(folder.join("package")).and_then(|mut file| {
            use std::io::Write as _;
            file.write_all(&package)
        })?;
        let keys = [key(1)?, key(2)?];
        for sequence in 1..=3 {
            let binary = binary(&format!("release {sequence}"));
            let digest = Sha256::of(&binary);
            known.insert(digest.to_string(), sequence);
            put(&folder.join(format!("binary-{sequence}")), &binary)?;
            let mut bad = binary;
            if let Some(byte) = bad.last_mut() {
                *byte ^= 1;
            }
            put(&folder.join(format!("bad-{sequence}")), &bad)?;
            let published = published(sequence, digest, &keys)?;
            let one_signature = published_by_one(sequence, digest, &keys)?;
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
        // The watchdog holds this for as long as it lives.
        let watchdog = step
            .watched
            .then(|| -> Result<File> {
                fs::create_dir_all(state)?;
                let lock = File::create(state.join("supervise.lock"))?;
                lock.lock()?;
                Ok(lock)
            })
            .transpose()?;
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
            .env_remove("BCD_LOG")
            .env_remove("BCD_FAULT")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(fault) = self.fault {
            command.env("BCD_FAULT", fault);
        }
        let status = command.status().context("start bcd")?;
        drop(watchdog);
        exit(status)
    }

    fn words(&self, act: &Act) -> Result<Vec<String>> {
        let text = |name: String| crate::fleet::text(&self.folder.join(name));
        let words = match *act {
            Act::Boot => vec!["boot".to_owned()],
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

    fn digest_of(&self, sequence: u64) -> Result<String> {
        let found = self.known.iter().find(|(_, known)| **known == sequence);
        Ok(found.context("no such release")?.0.clone())
    }
}

fn exit(status: ExitStatus) -> Result<Exit> {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(Exit::Done),
        (Some(1..=4), _) => Ok(Exit::Refused),
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

/// A file that passes for a binary of this machine. Nobody runs it.
fn binary(name: &str) -> Vec<u8> {
    let machine: u8 = if cfg!(target_arch = "aarch64") {
        183
    } else {
        62
    };
    let mut image = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
    image.resize(16, 0);
    image.extend([2, 0, machine, 0]);
    image.extend(name.bytes().cycle().take(BINARY_BYTES));
    image
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

fn published(sequence: u64, digest: Sha256, keys: &[SigningKey; 2]) -> Result<Vec<u8>> {
    let [_, second] = keys;
    Ok(cosign(&published_by_one(sequence, digest, keys)?, second)?)
}

fn published_by_one(sequence: u64, digest: Sha256, keys: &[SigningKey; 2]) -> Result<Vec<u8>> {
    let [first, _] = keys;
    let platform = Platform::host();
    let artifact = Artifact::new(
        format!("bcd-{platform}"),
        Some(platform),
        digest,
        binary(&format!("release {sequence}")).len() as u64,
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

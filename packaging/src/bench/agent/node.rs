//! One node: the shipped program under its supervisor, in a folder of its own.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use bc_protocol::{
    digest::Sha256,
    id::AttemptId,
    platform::Platform,
    release::{
        Artifact,
        sign::{ManifestDraft, SigningKey, cosign, sign},
    },
    sequence::Sequence,
    spec::DaemonSection,
    time::Timestamp,
    version::Version,
};

use ring::digest::SHA256;

use super::{gateway::Gateway, kernel};
use crate::fleet::Service;

/// How long a new process may take to show.
const PATIENCE: Duration = Duration::from_secs(10);

/// What makes a release as large as it is to be.
const FILLER: &[u8] = &[0x5a; 64 << 10];

/// A node's folder and its supervisor.
pub(super) struct Node {
    pub(super) supervisor: Service,
    folder: PathBuf,
    agent: PathBuf,
    keys: [SigningKey; 2],
    version: Version,
    sequence: u64,
}

/// A release of the program that is measured.
pub(super) struct Release {
    pub(super) bytes: Arc<Vec<u8>>,
    pub(super) section: DaemonSection,
}

impl Node {
    /// Starts one in `folder` that runs the program `agent`, with `user` as further keys of its configuration, and
    /// `deadline` for trials.
    pub(super) fn start(
        gateway: &Gateway,
        agent: &Path,
        folder: &Path,
        (user, deadline): (&str, &str),
    ) -> Result<Self> {
        let keys = [
            SigningKey::from_scalar(&[7; 32])?,
            SigningKey::from_scalar(&[8; 32])?,
        ];
        gateway.enrol(&folder.join("state/identity"))?;
        let config = configure(agent, folder, (user, deadline), &keys)?;
        let mut supervisor = Service::new("supervise", agent, folder);
        supervisor.arg("supervise").arg("--config").arg(&config);
        supervisor.start()?;
        Ok(Self {
            supervisor,
            folder: folder.to_owned(),
            agent: agent.to_owned(),
            keys,
            version: version_of(agent)?,
            sequence: 0,
        })
    }

    /// The process that holds the session.
    pub(super) fn pid(&self) -> Result<i32> {
        let children = self.supervisor.children()?;
        children.first().copied().context("no node runs")
    }

    /// What the node and its supervisor have logged.
    pub(super) fn log(&self) -> String {
        self.supervisor.log()
    }

    /// The next release: this very program, with as many bytes behind it as make that size, and a digest of its own.
    pub(super) fn next_release(&mut self, url: &str, size: usize) -> Result<Release> {
        self.sequence += 1;
        let mut bytes = std::fs::read(&self.agent)?;
        bytes.extend(self.sequence.to_le_bytes());
        // No zeros: a disk may be clever about them.
        while bytes.len() < size {
            let more = FILLER.len().min(size - bytes.len());
            bytes.extend_from_slice(FILLER.get(..more).unwrap_or_default());
        }
        let digest: [u8; 32] = ring::digest::digest(&SHA256, &bytes).as_ref().try_into()?;
        let digest = Sha256::from(digest);
        let platform = Platform::host();
        let name = format!("bcd-{platform}");
        let draft = ManifestDraft {
            product: "bcd".to_owned(),
            version: self.version.clone(),
            sequence: Sequence::new(self.sequence)?,
            issued_at: Timestamp::from_unix(1_700_000_000)?,
            expires_at: Timestamp::from_unix(4_000_000_000)?,
            keys: self.keys.iter().map(|key| key.public().clone()).collect(),
            extensions: Default::default(),
            artifacts: vec![Artifact::new(
                name,
                Some(platform),
                digest,
                bytes.len() as u64,
            )?],
        };
        let [one, other] = &self.keys;
        let signature = cosign(&sign(draft.into_body()?, one)?, other)?;
        let section = DaemonSection {
            version: self.version.clone(),
            url: url.to_owned(),
            sha256: digest,
            signature,
            attempt: AttemptId::derived(&[&self.sequence.to_le_bytes()]),
        };
        Ok(Release {
            bytes: Arc::new(bytes),
            section,
        })
    }

    /// The number of the newest release, which is the spec's generation too.
    pub(super) fn generation(&self) -> u64 {
        self.sequence
    }

    /// Begins to count the node's calls that wait for the disk.
    pub(super) async fn count_syncs(&self) -> Result<SyncCount> {
        let pid = self.pid()?;
        let log = self.folder.join("syncs");
        let strace = Command::new("strace")
            .args([
                "-f",
                "-qq",
                "-e",
                "trace=fsync,fdatasync,sync,syncfs,msync",
                "-e",
                "signal=none",
                "-o",
            ])
            .arg(&log)
            .args(["-p", &pid.to_string()])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start strace")?;
        let counting = SyncCount { strace, log };
        let deadline = crate::fleet::now() + PATIENCE;
        while kernel::tracer(pid)? == 0 {
            ensure!(crate::fleet::now() < deadline, "strace does not attach");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(counting)
    }
}

/// Writes the configuration of a node in `folder`.
pub(super) fn configure(
    agent: &Path,
    folder: &Path,
    (user, deadline): (&str, &str),
    signers: &[SigningKey],
) -> Result<PathBuf> {
    let stranger = [SigningKey::from_scalar(&[9; 32])?];
    let signers = if signers.is_empty() {
        &stranger
    } else {
        signers
    };
    let pins: Vec<_> = signers
        .iter()
        .map(|key| format!("\"{}\"", key.pin()))
        .collect();
    let text = format!(
        "state_dir = \"{}\"\npackage_binary = \"{}\"\n[node]\n{user}\n[update]\nrelease_pins = [{}]\n\
         threshold = {}\nwatchdog_deadline = \"{deadline}\"\nstable_for = \"100ms\"\n",
        folder.join("state").display(),
        agent.display(),
        pins.join(", "),
        pins.len(),
    );
    let config = folder.join("bcd.toml");
    super::write(&config, text.as_bytes())?;
    Ok(config)
}

/// Counts until the traced process has ended.
pub(super) struct SyncCount {
    strace: Child,
    log: PathBuf,
}

impl SyncCount {
    /// How many there were so far.
    pub(super) fn so_far(&self) -> Result<usize> {
        let log = std::fs::read_to_string(&self.log)?;
        let calls = log.lines().filter(|line| !line.contains("resumed>"));
        Ok(calls.count())
    }
}

impl Drop for SyncCount {
    fn drop(&mut self) {
        // It has ended with the process, or is of no use any more.
        drop(self.strace.kill());
        drop(self.strace.wait());
    }
}

fn version_of(agent: &Path) -> Result<Version> {
    let output = Command::new(agent).arg("version").output()?;
    ensure!(output.status.success(), "bcd version: {}", output.status);
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

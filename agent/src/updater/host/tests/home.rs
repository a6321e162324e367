//! A machine with a host, and releases for it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bc_protocol::digest::Sha256;
use bc_protocol::id::AttemptId;
use bc_protocol::platform::Platform;
use bc_protocol::release::sign::{ManifestDraft, SigningKey, cosign, sign};
use bc_protocol::release::{Artifact, Trust};
use bc_protocol::sequence::Sequence;
use bc_protocol::session::Slot;
use bc_protocol::spec::DaemonSection;
use bc_protocol::time::Timestamp;
use tempfile::TempDir;

use crate::clock;
use crate::config::{Config, NodeConfig, PlainHttp, UpdateConfig};
use crate::content::Seen;
use crate::durable::{self, Mode};
use crate::paths::Paths;
use crate::updater::executor;
use crate::updater::host::{Host, HostError, Source, Staged};
use crate::updater::watchdog::Evidence;

/// A release in the making. Each test spoils one thing of it.
#[derive(Clone)]
pub(crate) struct Release {
    pub(crate) product: &'static str,
    pub(crate) version: &'static str,
    pub(crate) sequence: u64,
    pub(crate) platform: &'static str,
    pub(crate) binary: Vec<u8>,
    pub(crate) signers: Vec<u8>,
    pub(crate) issued_in: i64,
    pub(crate) expires_in: i64,
}

impl Release {
    pub(crate) fn good(version: &'static str, sequence: u64) -> Self {
        Self {
            product: "bcd",
            version,
            sequence,
            platform: "linux-amd64",
            binary: elf(62, version),
            signers: vec![1, 2],
            issued_in: -7200,
            expires_in: 3600,
        }
    }

    pub(crate) fn published(&self) -> Vec<u8> {
        let now = clock::wall().unix();
        let size = self.binary.len() as u64;
        let artifact = Artifact::new(
            format!("bcd-{}", self.platform),
            Some(self.platform.parse().unwrap()),
            Sha256::of(&self.binary),
            size,
        );
        let draft = ManifestDraft {
            product: self.product.to_owned(),
            version: self.version.parse().unwrap(),
            sequence: Sequence::new(self.sequence).unwrap(),
            issued_at: Timestamp::from_unix(now + self.issued_in).unwrap(),
            expires_at: Timestamp::from_unix(now + self.expires_in).unwrap(),
            keys: self
                .signers
                .iter()
                .map(|number| key(*number).public().clone())
                .collect(),
            extensions: Default::default(),
            artifacts: vec![artifact.unwrap()],
        };
        let body = draft.into_body().unwrap();
        let (first, others) = self.signers.split_first().unwrap();
        others
            .iter()
            .fold(sign(body, &key(*first)).unwrap(), |published, number| {
                cosign(&published, &key(*number)).unwrap()
            })
    }

    pub(crate) fn section(&self) -> DaemonSection {
        DaemonSection {
            version: self.version.parse().unwrap(),
            url: "https://downloads.example/bcd".to_owned(),
            sha256: Sha256::of(&self.binary),
            signature: self.published(),
            attempt: AttemptId::derived(&[self.version.as_bytes()]),
        }
    }
}

pub(crate) fn key(number: u8) -> SigningKey {
    SigningKey::from_scalar(&[number; 32]).unwrap()
}

pub(crate) fn elf(machine: u16, rest: &str) -> Vec<u8> {
    let mut image = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0];
    image.extend([0; 8]);
    image.extend([2, 0]);
    image.extend(machine.to_le_bytes());
    image.extend(rest.as_bytes());
    image
}

pub(crate) struct Home {
    pub(crate) host: Host,
    pub(crate) watchdog: Option<File>,
    _folder: TempDir,
}

impl Home {
    /// A new machine that has booted once, under a watchdog.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path().join("node"));
        let package = folder.path().join("package");
        durable::replace_file(&package, b"package", Mode::Executable).unwrap();
        let config = Config {
            control: None,
            state_dir: paths.root().to_owned(),
            gateways: vec![],
            labels: Default::default(),
            package_binary: package.clone(),
            plain_http: PlainHttp::Loopback,
            ca_file: None,
            node: NodeConfig::default(),
            update: UpdateConfig {
                trust: Trust::new([key(1).pin(), key(2).pin()], 2).unwrap(),
                watchdog_deadline: Duration::from_secs(120),
                stable_for: Duration::from_secs(10),
            },
        };
        let host = Host {
            platform: "linux-amd64".parse::<Platform>().unwrap(),
            ..Host::new(paths, &config)
        };
        executor::boot(&host, &package, Evidence::none()).unwrap();
        let watchdog = File::create(host.paths().supervise_lock()).unwrap();
        watchdog.try_lock().unwrap();
        Self {
            host,
            watchdog: Some(watchdog),
            _folder: folder,
        }
    }

    pub(crate) fn stage(&self, release: &Release) -> Result<Staged, HostError> {
        let section = release.section();
        let file = match self.host.admit(&section)?.source {
            Source::Download(partial) => Some(download(&partial, &release.binary)),
            Source::InPlace => None,
        };
        self.host.stage(&section, file)
    }

    /// Brings a release to its confirmation, as a good one.
    pub(crate) fn upgrade(&self, release: &Release) {
        let staged = self.stage(release).unwrap();
        self.host.activate(&release.section(), &staged).unwrap();
        self.host.confirm(Sha256::of(&release.binary)).unwrap();
    }

    pub(crate) fn state(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = vec![];
        let [one, other] = self.host.paths().record_copies();
        for path in [one, other]
            .into_iter()
            .chain([Slot::A, Slot::B].map(|slot| self.host.paths().slot_binary(slot)))
            .chain([Slot::A, Slot::B].map(|slot| self.host.paths().slot_release(slot)))
        {
            if let Ok(bytes) = fs::read(&path) {
                files.push((path, bytes));
            }
        }
        files
    }
}

pub(crate) fn download(partial: &Path, bytes: &[u8]) -> Seen {
    let mut file = durable::create_new(partial).unwrap();
    std::io::Write::write_all(&mut file, bytes).unwrap();
    Seen::reading(file).unwrap()
}

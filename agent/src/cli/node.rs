//! `bcd node`

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use bc_protocol::spec::NodeSpec;
use bc_protocol::version::Version;
use clap::Args;
use nix::fcntl::OFlag;
use thiserror::Error;

use super::{CommandError, Global, runtime};
use crate::Build;
use crate::clock;
use crate::config::Config;
use crate::durable;
use crate::http::Web;
use crate::identity::{Identity, IdentityError};
use crate::node::limits::STATE_FILE_BYTES_MAX;
use crate::node::update::{Setting, Updates};
use crate::paths::Paths;
use crate::updater::host::{Host, HostError};
use crate::updater::running;

/// Keep the session with a gateway, and this node up to date
///
/// Started by `bcd exec node`; it ends with status 0 when the next start is to be another binary's.
#[derive(Debug, Args)]
pub(super) struct Node {}

/// Why there is no node.
#[derive(Debug, Error)]
pub(super) enum NodeError {
    #[error("expected {path} to be free, found that another process holds it", path = path.display())]
    Held { path: PathBuf },
    #[error("expected to lock {path}, found that it cannot be", path = path.display())]
    Lock {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("expected this program to have been built as a version, found \"{found}\"")]
    Version { found: &'static str },
    #[error("expected to read the image of this process, found that it cannot be")]
    Image(#[source] io::Error),
    #[cfg(feature = "faults")]
    #[error(transparent)]
    Fault(#[from] crate::faults::UnknownFault),
}

/// How long a predecessor that was killed may take to let go of the node's folder.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// The wait between two tries to take it.
const LOCK_RETRY_AFTER: Duration = Duration::from_millis(50);

/// How long a node that has handed over may take to end.
const LEAVE_PATIENCE: Duration = Duration::from_secs(10);

impl Node {
    pub(super) fn run(self, global: &Global, build: Build) -> Result<(), CommandError> {
        let Self {} = self;
        let (config, paths) = global.load()?;
        let _lock = lock(&paths)?;
        let version = build.version.parse().map_err(|_| NodeError::Version {
            found: build.version,
        })?;
        let setting = setting(&config, paths, global.config.clone(), version)?;
        runtime()?.block_on(run(setting, build))?;
        Ok(())
    }
}

/// Two nodes would fight over one session: the folder is one node's, for as long as that lives.
fn lock(paths: &Paths) -> Result<File, NodeError> {
    let path = paths.node_lock();
    let failed = |source| NodeError::Lock {
        path: path.clone(),
        source,
    };
    durable::create_folder(&paths.state(), 0o700).map_err(failed)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(&path)
        .map_err(failed)?;
    let until = clock::instant() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if clock::instant() < until => {
                thread::sleep(LOCK_RETRY_AFTER);
            }
            Err(TryLockError::WouldBlock) => return Err(NodeError::Held { path }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
    }
}

fn setting(
    config: &Config,
    paths: Paths,
    config_path: PathBuf,
    version: Version,
) -> Result<Setting, NodeError> {
    let identity = Identity::load(&paths.identity())?;
    let host = Host::new(paths, config);
    let record = host.status()?;
    let running = running::identify(host.paths(), &record, version).map_err(NodeError::Image)?;
    tracing::info!(
        version = %running.version, slot = ?running.slot, sequence = %running.sequence,
        floor = %record.floor(), "the node starts"
    );
    Ok(Setting {
        observed_generation: seen_generation(host.paths()),
        host,
        running,
        record,
        stable_for: config.update.stable_for,
        web: Web {
            plain_http: config.plain_http,
            ca_file: config.ca_file.clone(),
            earliest: Some(identity.starts()),
        },
        config: config_path,
    })
}

fn seen_generation(paths: &Paths) -> u64 {
    let spec = durable::read_unlinked(&paths.node_spec(), STATE_FILE_BYTES_MAX);
    spec.ok()
        .flatten()
        .and_then(|bytes| serde_json::from_slice::<NodeSpec>(&bytes).ok())
        .map_or(0, |spec| spec.generation)
}

/// A node that has handed over and cannot end must not keep the new binary from its start.
async fn end_by_force(updates: Updates) {
    updates.leave().await;
    thread::spawn(|| {
        thread::sleep(LEAVE_PATIENCE);
        tracing::warn!("the node did not end by itself: it is ended");
        std::process::exit(0);
    });
}

async fn run(setting: Setting, build: Build) -> Result<(), NodeError> {
    let updates = Updates::start(setting);
    tokio::spawn(end_by_force(updates.clone()));
    #[cfg(feature = "faults")]
    misbehave(build).await?;
    tracing::debug!(version = build.version, "the session begins");
    updates.leave().await;
    Ok(())
}

#[cfg(feature = "faults")]
async fn misbehave(build: Build) -> Result<(), NodeError> {
    use crate::faults::Fault;

    match build.fault.map(Fault::named).transpose()? {
        Some(Fault::NeverConnects) => {
            tracing::warn!("built to never open a connection");
            std::future::pending().await
        }
        None => Ok(()),
    }
}

//! The updater's operations, as a node asks for them.
//!
//! Takes what an attempt needs done, gives what came of it, whoever holds the right to write slots and record. It
//! decides nothing: that is the host's.

mod own_note;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use bc_protocol::digest::Sha256;
use bc_protocol::session::Outcome;
use bc_protocol::spec::DaemonSection;
use bc_protocol::version::Version;
use nix::unistd::geteuid;
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::sleep;

use super::attempt::{Attempt, Ending};
use super::host::{Admitted, Host, HostError, Staged, with_causes};
use super::limits::HELPER_RENEWAL;
use super::preflight::{self, PreflightError, Rights, preflight};
use super::record::{Record, TransitionError};
use crate::config::NodeConfig;
use crate::content::Seen;
use crate::durable;
use crate::helper::{Client, ClientError, DEFAULT_SOCKET};
use crate::paths::Paths;

/// Who carries the operations out.
#[derive(Clone, Debug)]
pub(crate) enum Operations {
    /// This process: the slots are its own.
    Here(Host),
    /// The helper; this process can only read.
    Helper { reader: Host, helper: Client },
}

/// Why an operation was not carried out.
#[derive(Debug, Error)]
pub(crate) enum OperationError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Preflight(#[from] PreflightError),
    #[error(transparent)]
    Helper(#[from] ClientError),
    #[error("expected the operation to end, found that it was broken off")]
    Died(#[from] JoinError),
}

/// What an attempt makes of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Another binary's trial is to begin first.
    TrialWaits,
    /// What was to be confirmed is not on trial.
    NotOnTrial,
    /// The try has ended.
    Ended(Ending),
}

impl OperationError {
    pub(crate) fn verdict(&self) -> Verdict {
        match self {
            Self::Host(HostError::Transition(TransitionError::OnTrial { .. })) => {
                Verdict::TrialWaits
            }
            Self::Host(HostError::Transition(TransitionError::NotOnTrial { .. })) => {
                Verdict::NotOnTrial
            }
            Self::Host(error) => Verdict::Ended(error.ending()),
            Self::Preflight(error) => Verdict::Ended(error.ending()),
            Self::Helper(error) => error.verdict(),
            Self::Died(_) => {
                Verdict::Ended(Ending::new(Outcome::Failed, "internal", with_causes(self)))
            }
        }
    }
}

impl Operations {
    /// Whoever owns the slots writes them; a node that does not, or whose owner says so, asks the helper.
    pub(crate) fn of(host: Host, node: &NodeConfig) -> Self {
        let owner = std::fs::metadata(host.paths().root()).map_or(0, |root| root.uid());
        let socket = match &node.helper_socket {
            Some(socket) => socket.clone(),
            None if owner == geteuid().as_raw() => return Self::Here(host),
            None => DEFAULT_SOCKET.into(),
        };
        let helper = Client::new(socket, owner);
        tokio::spawn(greet(helper.clone()));
        Self::Helper {
            reader: host,
            helper,
        }
    }

    /// The version of the helper that answered last; it changes with every answer that says another one.
    pub(crate) fn helper(&self) -> watch::Receiver<Option<Version>> {
        match self {
            // Nobody will ever say one.
            Self::Here(_) => watch::channel(None).1,
            Self::Helper { helper, .. } => helper.answered(),
        }
    }

    pub(crate) fn paths(&self) -> &Paths {
        match self {
            Self::Here(host) | Self::Helper { reader: host, .. } => host.paths(),
        }
    }

    /// How the last attempt stands: what the record says, or what could be noted in the node's own folder alone.
    pub(crate) fn last_attempt(&self, record: &Record) -> Option<Attempt> {
        let recorded = record.last_attempt().cloned();
        match self {
            Self::Here(_) => recorded,
            Self::Helper { .. } if record.trial().is_some() => recorded,
            Self::Helper { reader, .. } => own_note::read(reader.paths())
                .filter(|own| own_note::is_newer(own, recorded.as_ref()))
                .or(recorded),
        }
    }

    /// Judges a section before anything is downloaded for it.
    pub(crate) async fn admit(&self, section: DaemonSection) -> Result<Admitted, OperationError> {
        match self {
            Self::Here(host) => on(host, move |host| host.admit(&section)).await,
            // A first look, with the same eyes: what counts is the helper's own, when it is handed the binary.
            Self::Helper { reader, .. } => {
                on(reader, move |host| {
                    host.admit_to(&section, |_| Ok(host.paths().download()))
                })
                .await
            }
        }
    }

    /// Puts a finished download into the spare slot; without one, the slot has to hold the binary already. What was
    /// admitted before the download saves this process a second look; a helper takes its own.
    pub(crate) async fn stage(
        &self,
        section: DaemonSection,
        (admitted, binary): (Admitted, Option<Seen>),
    ) -> Result<Staged, OperationError> {
        match self {
            Self::Here(host) => {
                let staging = on(host, move |host| {
                    host.stage_admitted(&section, &admitted, binary)
                });
                let mut staged = staging.await?;
                let replaced = staged.replaced.take();
                // While the new binary is asked whether it can run, the kernel forgets the one before it.
                drop(spawn_blocking(move || drop(replaced)));
                Ok(staged)
            }
            Self::Helper { reader, helper } => {
                let file = binary.as_ref().map(Seen::file);
                helper.stage(section.clone(), file).await?;
                on(reader, move |host| {
                    remove_download(host.paths());
                    host.staged(&section)
                })
                .await
            }
        }
    }

    /// Asks what was staged whether it can run here, with the configuration at `config`.
    pub(crate) async fn preflight(
        &self,
        section: DaemonSection,
        staged: &Staged,
        config: &Path,
    ) -> Result<(), OperationError> {
        match self {
            Self::Here(host) => {
                let order = preflight::Order {
                    binary: staged.binary.clone(),
                    version: section.version,
                    config: config.to_owned(),
                    paths: host.paths().clone(),
                    rights: Rights::here(),
                };
                Ok(preflight(&order).await?)
            }
            // It stages nothing that has not passed.
            Self::Helper { .. } => Ok(()),
        }
    }

    /// Begins the trial of what was staged.
    pub(crate) async fn activate(
        &self,
        section: DaemonSection,
        staged: Staged,
    ) -> Result<Record, OperationError> {
        match self {
            Self::Here(host) => on(host, move |host| host.activate(&section, &staged)).await,
            Self::Helper { reader, helper } => {
                helper.activate(section).await?;
                on(reader, |host| {
                    own_note::forget(host.paths());
                    host.status()
                })
                .await
            }
        }
    }

    /// Ends the trial of the binary of that digest well.
    pub(crate) async fn confirm(&self, digest: Sha256) -> Result<Record, OperationError> {
        match self {
            Self::Here(host) => on(host, move |host| host.confirm(digest)).await,
            Self::Helper { reader, helper } => {
                helper.confirm(digest).await?;
                // It becomes the binary that was confirmed, and then has another version to say.
                let helper = helper.clone();
                tokio::spawn(async move {
                    sleep(HELPER_RENEWAL).await;
                    greet(helper).await;
                });
                on(reader, Host::status).await
            }
        }
    }

    /// Keeps how an attempt stands that has no trial.
    pub(crate) async fn note(&self, attempt: Attempt) -> Result<Record, OperationError> {
        match self {
            Self::Here(host) => on(host, move |host| host.note(attempt)).await,
            Self::Helper { reader, helper } => {
                match helper.cancel(attempt.clone()).await {
                    Ok(()) => {
                        on(reader, |host| {
                            own_note::forget(host.paths());
                            host.status()
                        })
                        .await
                    }
                    Err(error @ ClientError::TrialWaits) => Err(error.into()),
                    // That the helper does not answer is what there is to report.
                    Err(error) => {
                        tracing::warn!(error = %with_causes(&error), "the attempt is noted here alone");
                        on(reader, move |host| {
                            own_note::keep(host.paths(), &attempt)?;
                            host.status()
                        })
                        .await
                    }
                }
            }
        }
    }
}

/// Says in the log with whom this node works.
async fn greet(helper: Client) {
    match helper.version().await {
        Ok(version) => tracing::info!(%version, "the helper is there"),
        Err(error) => {
            let error = with_causes(&error);
            tracing::warn!(%error, "there is no helper: no release can be installed");
        }
    }
}

/// What was copied is not needed any more; one that stays is built upon or replaced by the next download.
fn remove_download(paths: &Paths) {
    for path in [paths.download(), paths.download_origin()] {
        if let Err(error) = durable::remove_if_there(&path) {
            tracing::warn!(%error, "a finished download cannot be removed");
        }
    }
}

/// Works beside the session: none of its heartbeats waits for a disk.
async fn on<T: Send + 'static>(
    host: &Host,
    operation: impl FnOnce(&Host) -> Result<T, HostError> + Send + 'static,
) -> Result<T, OperationError> {
    let host = host.clone();
    Ok(spawn_blocking(move || operation(&host)).await??)
}

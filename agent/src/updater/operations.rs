//! The updater's operations, as a node asks for them.
//!
//! Takes what an attempt needs done, gives what came of it, whoever holds the right to write slots and record. It
//! decides nothing: that is the host's.

use std::fs::File;
use std::path::Path;

use bc_protocol::digest::Sha256;
use bc_protocol::session::Outcome;
use bc_protocol::spec::DaemonSection;
use thiserror::Error;
use tokio::task::{JoinError, spawn_blocking};

use super::attempt::{Attempt, Ending};
use super::host::{Admitted, Host, HostError, Staged, with_causes};
use super::preflight::{self, PreflightError, preflight};
use super::record::{Record, TransitionError};
use crate::paths::Paths;

/// Who carries the operations out.
#[derive(Clone, Debug)]
pub(crate) enum Operations {
    /// This process: the slots are its own.
    Here(Host),
}

/// Why an operation was not carried out.
#[derive(Debug, Error)]
pub(crate) enum OperationError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Preflight(#[from] PreflightError),
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
            Self::Died(_) => {
                Verdict::Ended(Ending::new(Outcome::Failed, "internal", with_causes(self)))
            }
        }
    }
}

impl Operations {
    pub(crate) fn paths(&self) -> &Paths {
        match self {
            Self::Here(host) => host.paths(),
        }
    }

    /// Judges a section before anything is downloaded for it.
    pub(crate) async fn admit(&self, section: DaemonSection) -> Result<Admitted, OperationError> {
        match self {
            Self::Here(host) => on(host, move |host| host.admit(&section)).await,
        }
    }

    /// Puts a finished download into the spare slot; without one, the slot has to hold the binary already.
    pub(crate) async fn stage(
        &self,
        section: DaemonSection,
        binary: Option<File>,
    ) -> Result<Staged, OperationError> {
        match self {
            Self::Here(host) => on(host, move |host| host.stage(&section, binary)).await,
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
                    root: host.paths().root().to_owned(),
                };
                Ok(preflight(&order).await?)
            }
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
        }
    }

    /// Ends the trial of the binary of that digest well.
    pub(crate) async fn confirm(&self, digest: Sha256) -> Result<Record, OperationError> {
        match self {
            Self::Here(host) => on(host, move |host| host.confirm(digest)).await,
        }
    }

    /// Keeps how an attempt stands that has no trial.
    pub(crate) async fn note(&self, attempt: Attempt) -> Result<Record, OperationError> {
        match self {
            Self::Here(host) => on(host, move |host| host.note(attempt)).await,
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

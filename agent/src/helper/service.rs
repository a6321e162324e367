//! Carries one request out.
//!
//! Takes a frame, gives an answer; what it claims is on the disk. One request has its turn at a time, so that any number
//! of them act like some order of them.

use std::fs::File;
use std::path::PathBuf;

use bc_protocol::session::Outcome;
use bc_protocol::spec::DaemonSection;
use tokio::sync::{Mutex, Notify};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::Helper;
use super::frame::Frame;
use super::limits::{TURN_PATIENCE, WORD_BYTES_MAX};
use super::wire::{Answer, Request};
use crate::faults::{Fault, planted};
use crate::updater::attempt::{Attempt, Ending};
use crate::updater::host::{Host, HostError, Source};
use crate::updater::operations::OperationError;
use crate::updater::preflight::{Order, Rights, preflight};

/// The operations, and whose turn it is.
#[derive(Debug)]
pub(super) struct Service {
    helper: Helper,
    turn: Mutex<()>,
    /// Told when another binary than this one may be the confirmed one.
    pub(super) confirmed: Notify,
}

impl Service {
    pub(super) fn new(helper: Helper) -> Self {
        Self {
            helper,
            turn: Mutex::new(()),
            confirmed: Notify::new(),
        }
    }

    pub(super) fn version(&self) -> &'static str {
        self.helper.version
    }

    /// Whether this is the one user that may ask.
    pub(super) fn serves(&self, uid: u32) -> bool {
        uid == self.helper.account.uid.as_raw() || planted(Fault::AnyUser)
    }

    pub(super) async fn answer(&self, frame: Frame) -> Answer {
        let request = match Request::decode(&frame.bytes) {
            Ok(request) => request,
            Err(error) => return error.into(),
        };
        if planted(Fault::OldHelper) {
            return Answer::Unsupported {};
        }
        let (expected, found) = (
            request.descriptors(),
            usize::from(frame.descriptor.is_some()),
        );
        if expected != found {
            let problem = format!("expected {expected} descriptors, found {found}");
            return Answer::Malformed { problem };
        }
        let Ok(_turn) = timeout(TURN_PATIENCE, self.turn.lock()).await else {
            return Answer::Busy {};
        };
        match self
            .carry_out(request, frame.descriptor.map(File::from))
            .await
        {
            Ok(answer) => answer,
            Err(error) => error.verdict().into(),
        }
    }

    async fn carry_out(
        &self,
        request: Request,
        binary: Option<File>,
    ) -> Result<Answer, OperationError> {
        match request {
            Request::Status => self.on_host(standing).await,
            Request::Stage(stage) => self.stage(stage.section, binary).await,
            Request::Activate(activate) => {
                tracing::info!(attempt = %activate.section.attempt, "a trial begins");
                self.change(move |host| start_trial(host, &activate.section))
                    .await
            }
            Request::Confirm(confirm) => {
                let answer = self.change(move |host| {
                    let record = host.confirm(confirm.digest)?;
                    tracing::info!(floor = %record.floor(), "confirmed, as the node says");
                    Ok(Answer::Done {})
                });
                let answer = answer.await?;
                self.confirmed.notify_one();
                Ok(answer)
            }
            Request::Cancel(cancel) => self.change(move |host| give_up(host, cancel.attempt)).await,
        }
    }

    async fn stage(
        &self,
        section: DaemonSection,
        binary: Option<File>,
    ) -> Result<Answer, OperationError> {
        tracing::info!(attempt = %section.attempt, version = %section.version, "staging a release");
        let (host, version) = (self.helper.host.clone(), section.version.clone());
        let staged = spawn_blocking(move || {
            let copy = match &binary {
                Some(binary) => host.receive(&section, binary)?,
                None => None,
            };
            if planted(Fault::DescriptorKept) {
                std::mem::forget(binary);
            }
            host.stage(&section, copy)
        });
        let order = Order {
            binary: staged.await??.binary,
            version,
            config: self.helper.config.clone(),
            paths: self.helper.host.paths().clone(),
            rights: Rights::of(self.helper.account),
        };
        preflight(&order).await?;
        Ok(Answer::Done {})
    }

    /// Changes the record. The answer is given once it is on the disk.
    async fn change(
        &self,
        operation: impl FnOnce(&Host) -> Result<Answer, HostError> + Send + 'static,
    ) -> Result<Answer, OperationError> {
        if planted(Fault::AnswerFirst) {
            let host = self.helper.host.clone();
            drop(spawn_blocking(move || operation(&host)));
            return Ok(Answer::Done {});
        }
        self.on_host(operation).await
    }

    async fn on_host(
        &self,
        operation: impl FnOnce(&Host) -> Result<Answer, HostError> + Send + 'static,
    ) -> Result<Answer, OperationError> {
        let host = self.helper.host.clone();
        Ok(spawn_blocking(move || operation(&host)).await??)
    }
}

fn standing(host: &Host) -> Result<Answer, HostError> {
    let record = host.status()?;
    Ok(Answer::Standing {
        floor: record.floor(),
        confirmed: record.confirmed(),
        trial: record.trial().map(|trial| trial.facts()),
    })
}

/// Whoever asks for a trial may never have staged it, or long ago: the release is judged once more.
fn start_trial(host: &Host, section: &DaemonSection) -> Result<Answer, HostError> {
    let record = host.status()?;
    let is_begun = record
        .trial()
        .is_some_and(|trial| trial.attempt == section.attempt && trial.digest == section.sha256);
    if !is_begun && let Source::Download(_) = host.admit_to(section, |_| Ok(PathBuf::new()))?.source
    {
        let slot = record.confirmed().slot.other();
        return Err(HostError::Changed { slot });
    }
    host.activate(section, &host.staged(section)?)?;
    Ok(Answer::Done {})
}

/// Ends the attempt's trial, or keeps how the attempt stands where there is none.
fn give_up(host: &Host, attempt: Attempt) -> Result<Answer, HostError> {
    let record = host.status()?;
    let is_on_trial = record
        .trial()
        .is_some_and(|trial| trial.attempt == *attempt.id());
    if is_on_trial {
        let problem = "expected the trial to go on, found that the node gave it up";
        host.cancel(
            attempt.id(),
            Ending::new(Outcome::Cancelled, "cancelled", problem),
        )?;
    } else {
        host.note(attempt.shortened(WORD_BYTES_MAX))?;
    }
    Ok(Answer::Done {})
}

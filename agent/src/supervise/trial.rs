//! The end of a trial's time.
//!
//! Takes the trial that was started; whoever holds the record's lock last has decided. A binary that is on trial and
//! holds that lock for ever is killed for it.

use std::time::Duration;

use bc_protocol::session::Outcome;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::child::Child;
use crate::clock;
use crate::updater::attempt::Ending;
use crate::updater::host::{Host, HostError, with_causes};
use crate::updater::record::Trial;
use crate::updater::watchdog::{self, Evidence, Reach};

/// How often the lock is asked for before its holder is killed.
const LOCK_TRIES_MAX: u32 = 20;

/// The wait between two tries.
const LOCK_RETRY_AFTER: Duration = Duration::from_millis(100);

/// How long a stop waits for whoever holds the record.
const CANCEL_PATIENCE: Duration = Duration::from_millis(500);

/// What the record says of a trial whose time seems to be up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// It is over, and the record says that the other slot runs.
    WentBack,
    /// It goes on for that long.
    NotYet(Duration),
    /// It was confirmed, or ended by somebody else.
    Over,
    /// The record could not be read or written.
    Failed,
}

/// How long a trial has left in this boot.
pub(super) fn time_left(trial: &Trial) -> Duration {
    match clock::boot_time() {
        Ok(at) => trial.deadline.remaining(at.now),
        Err(error) => {
            tracing::error!(%error, "no clock to hold the trial against");
            Duration::ZERO
        }
    }
}

/// Ends the trial, if it still goes on and its time is up.
pub(super) async fn expire(
    host: &Host,
    trial: &Trial,
    (child, reach): (&mut Child, Reach),
) -> Expiry {
    for _ in 0..LOCK_TRIES_MAX {
        if let Some(expiry) = look(host, trial, (child, reach)).await {
            return expiry;
        }
        sleep(LOCK_RETRY_AFTER).await;
    }
    tracing::warn!("the binary on trial does not let go of the record: it is killed");
    child.kill().await;
    look(host, trial, (child, reach))
        .await
        .unwrap_or(Expiry::Failed)
}

/// None where somebody else holds the record.
async fn look(host: &Host, trial: &Trial, (child, reach): (&Child, Reach)) -> Option<Expiry> {
    let evidence = Evidence {
        stage: watchdog::read_stage(host.paths(), &trial.attempt),
        death: None,
        log: child.log(),
        reach,
    };
    let (host, trial) = (host.clone(), trial.clone());
    match spawn_blocking(move || try_expire(&host, &trial, evidence)).await {
        Ok(Ok(expiry)) => expiry,
        Ok(Err(error)) => {
            tracing::error!(error = %with_causes(&error), "the trial's end cannot be written");
            Some(Expiry::Failed)
        }
        Err(error) => {
            tracing::error!(%error, "the trial's end was not written");
            Some(Expiry::Failed)
        }
    }
}

fn try_expire(host: &Host, trial: &Trial, evidence: Evidence) -> Result<Option<Expiry>, HostError> {
    let Some(locked) = host.store().try_lock()? else {
        return Ok(None);
    };
    let record = locked.record()?;
    let at = clock::boot_time()?;
    let Some(current) = record
        .trial()
        .filter(|current| current.attempt == trial.attempt && current.digest == trial.digest)
    else {
        tracing::debug!(attempt = %trial.attempt, "the trial's time is up, and it is over already");
        return Ok(Some(Expiry::Over));
    };
    if !current.is_overdue(&at) {
        return Ok(Some(Expiry::NotYet(current.deadline.remaining(at.now))));
    }
    let ending = watchdog::verdict(evidence);
    tracing::warn!(
        attempt = %trial.attempt, slot = %trial.slot, outcome = ending.outcome.name(), reason = %ending.message,
        "going back: the trial was not confirmed in time"
    );
    locked.write(&record.going_back(ending))?;
    Ok(Some(Expiry::WentBack))
}

/// Whether a trial waits for its first start: then the end of the node before it was a plan, however short its life.
pub(super) fn waits(host: &Host) -> bool {
    host.status()
        .is_ok_and(|record| record.trial().is_some_and(|trial| trial.starts == 0))
}

/// Goes back because the node is being stopped. Without a trial nothing changes. Whoever holds the record for longer than
/// a stop may take is left alone: the next start finds the trial, and counts.
pub(super) async fn cancel(host: &Host) {
    let Ok(record) = host.status() else { return };
    let Some(attempt) = record.trial().map(|trial| trial.attempt.clone()) else {
        return;
    };
    let message = "expected the trial to go on, found that the node was stopped";
    let ending = Ending::new(Outcome::Cancelled, "stopped", message);
    let (host, id) = (host.clone(), attempt.clone());
    let cancelled = spawn_blocking(move || host.cancel(&id, ending));
    match timeout(CANCEL_PATIENCE, cancelled).await {
        Ok(Ok(Ok(_))) => {
            tracing::warn!(%attempt, "going back: the node was stopped on trial");
        }
        Ok(Ok(Err(error))) => {
            tracing::error!(error = %with_causes(&error), "the trial cannot be ended");
        }
        Ok(Err(error)) => tracing::error!(%error, "the trial was not ended"),
        Err(_) => tracing::error!(%attempt, "the trial cannot be ended: the record is held"),
    }
}

//! The end of a trial's time.
//!
//! Takes the trial that was started; whoever holds the record's lock last has decided. A binary that is on trial and
//! holds that lock for ever is killed for it.

use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::child::Child;
use crate::updater::expiry::{self, Clock, Expiry, try_expire};
use crate::updater::host::{Host, with_causes};
use crate::updater::record::Trial;
use crate::updater::watchdog::{self, Evidence, Reach};

/// How often the lock is asked for before its holder is killed.
const LOCK_TRIES_MAX: u32 = 20;

/// The wait between two tries.
const LOCK_RETRY_AFTER: Duration = Duration::from_millis(100);

/// How long a stop waits for whoever holds the record.
const CANCEL_PATIENCE: Duration = Duration::from_millis(500);

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
    match spawn_blocking(move || try_expire(&host, &trial, Clock::Record, evidence)).await {
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

/// Whether a trial waits for its first start: then the end of the node before it was a plan, however short its life.
pub(super) fn waits(host: &Host) -> bool {
    host.status()
        .is_ok_and(|record| record.trial().is_some_and(|trial| trial.starts == 0))
}

/// Goes back because the node is being stopped. Whoever holds the record for longer than a stop may take is left alone: the
/// next start finds the trial, and counts.
pub(super) async fn cancel(host: &Host) {
    let host = host.clone();
    let cancelled = spawn_blocking(move || expiry::cancel(&host));
    match timeout(CANCEL_PATIENCE, cancelled).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "the trial was not ended"),
        Err(_) => tracing::error!("the trial cannot be ended: the record is held"),
    }
}

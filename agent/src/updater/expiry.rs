//! The end of a trial's time, or of somebody's patience with it.
//!
//! Takes the trial that was watched; whoever holds the record's lock last has decided, and whoever comes second finds
//! nothing to do. What is decided is on the disk before anybody acts on it.

use std::time::Duration;

use bc_protocol::session::Outcome;

use super::attempt::Ending;
use super::host::{Host, HostError, with_causes};
use super::record::Trial;
use super::watchdog::{self, Evidence};
use crate::clock;

/// What the record says of a trial whose time seems to be up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// It is over, and the record says that the other slot runs.
    WentBack,
    /// It goes on for that long.
    NotYet(Duration),
    /// It was confirmed, or ended by somebody else.
    Over,
    /// The record could not be read or written.
    Failed,
}

/// By what a trial's time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// By the record's deadline.
    Record,
    /// By the watchdog's own patience: nothing has started the trial in this boot, so that its deadline says nothing.
    Watchdog,
}

/// How long a trial has left; all of `length` where it has not been started in this boot.
pub(crate) fn time_left(trial: &Trial, length: Duration) -> Duration {
    match clock::boot_time() {
        Ok(at) if at.boot == trial.boot_id => trial.deadline.remaining(at.now),
        Ok(_) => length,
        Err(error) => {
            tracing::error!(%error, "no clock to hold the trial against");
            Duration::ZERO
        }
    }
}

/// Ends the trial, if it still goes on and its time is up. None where somebody else holds the record.
pub(crate) fn try_expire(
    host: &Host,
    trial: &Trial,
    by: Clock,
    evidence: Evidence,
) -> Result<Option<Expiry>, HostError> {
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
    let is_up = match by {
        Clock::Record => current.is_overdue(&at),
        Clock::Watchdog => current.boot_id != at.boot || current.is_overdue(&at),
    };
    if !is_up {
        return Ok(Some(Expiry::NotYet(time_left(current, host.deadline()))));
    }
    let ending = watchdog::verdict(evidence);
    tracing::warn!(
        attempt = %trial.attempt, slot = %trial.slot, outcome = ending.outcome.name(), reason = %ending.message,
        "going back: the trial was not confirmed in time"
    );
    locked.write(&record.going_back(ending))?;
    Ok(Some(Expiry::WentBack))
}

/// Goes back because the node is being stopped. Without a trial nothing changes.
pub(crate) fn cancel(host: &Host) {
    let Ok(record) = host.status() else { return };
    let Some(trial) = record.trial() else { return };
    let message = "expected the trial to go on, found that the node was stopped";
    let ending = Ending::new(Outcome::Cancelled, "stopped", message);
    match host.cancel(&trial.attempt, ending) {
        Ok(_) => {
            tracing::warn!(attempt = %trial.attempt, "going back: the node was stopped on trial");
        }
        Err(error) => tracing::error!(error = %with_causes(&error), "the trial cannot be ended"),
    }
}

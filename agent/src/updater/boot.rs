//! What starts: the decision before every start of the node.
//!
//! Takes the record, what the slots hold, the time of this boot and how the last start ended; gives the record to run
//! by. Pure. Going back needs no network, no manifest and no wall clock.

use std::time::Duration;

use bc_protocol::session::Outcome;

use super::attempt::Ending;
use super::limits::TRIAL_STARTS_MAX;
use super::record::{Notice, Record, Trial};
use super::watchdog::{self, Evidence};
use crate::clock::BootTime;
use crate::faults::{Fault, planted};

/// Whether the binaries that the record names have the digests that it names, and a trial somebody who watches over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) confirmed: Binary,
    /// Of no consequence without a trial.
    pub(crate) trial: Binary,
    /// Of no consequence without a trial either.
    pub(crate) watchdog: Guard,
}

/// Whether somebody would go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    Armed,
    Missing,
}

/// The state of one binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Intact,
    Damaged,
}

/// Decides what starts. If the trial goes on, its start is counted in what comes back: write that before the start.
pub(crate) fn decide(
    record: Record,
    health: Health,
    at: &BootTime,
    length: Duration,
    evidence: Evidence,
) -> Record {
    let record = match why_go_back(&record, health, at, evidence) {
        Some(ending) => record.going_back(ending),
        None => record,
    };
    let kept_notice = record.notice().filter(|notice| *notice != Notice::Rescue);
    if record.trial().is_some() {
        if planted(Fault::StartNotCounted) {
            return record;
        }
        return record.counting_a_start(at, length).with_notice(kept_notice);
    }
    match health.confirmed {
        Binary::Intact => record.with_notice(kept_notice),
        // Whatever lies in the other slot is older than the floor, or was never tried.
        Binary::Damaged => record.with_notice(Some(Notice::Rescue)),
    }
}

fn why_go_back(
    record: &Record,
    health: Health,
    at: &BootTime,
    evidence: Evidence,
) -> Option<Ending> {
    let trial = record.trial()?;
    if !record.floor().admits(trial.sequence) {
        let (floor, found) = (record.floor(), trial.sequence);
        let message =
            format!("expected a sequence of at least the floor, which is {floor}, found {found}");
        return Some(Ending::new(Outcome::Refused, "rollback", message));
    }
    if health.trial == Binary::Damaged {
        let message = format!(
            "expected the digest {} in slot {}, found another",
            trial.digest, trial.slot
        );
        return Some(Ending::new(Outcome::Refused, "digest", message));
    }
    if trial.is_overdue(at) || starts_are_used_up(trial) {
        return Some(watchdog::verdict(evidence));
    }
    match health.watchdog {
        Guard::Armed => None,
        Guard::Missing => {
            let message = "expected a watchdog that would go back if need be, found none";
            Some(Ending::new(Outcome::Environment, "watchdog", message))
        }
    }
}

fn starts_are_used_up(trial: &Trial) -> bool {
    trial.starts >= TRIAL_STARTS_MAX && !planted(Fault::EndlessStarts)
}

#[cfg(test)]
mod tests;

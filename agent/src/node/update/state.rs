//! What a node reports of its binaries.

use bc_protocol::{
    digest::Sha256,
    sequence::{ReleaseFloor, Sequence},
    session::{AttemptFacts, Progress, Slot, TrialFacts},
    version::Version,
};

use super::Inbox;
use crate::updater::{
    machine::Machine,
    record::{Notice, Record},
    running::Running,
};

/// What a node reports of its binaries. What it claims is on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UpdateState {
    pub(crate) slot: Option<Slot>,
    pub(crate) sequence: Sequence,
    pub(crate) digest: Sha256,
    pub(crate) floor: ReleaseFloor,
    pub(crate) trial: Option<TrialFacts>,
    pub(crate) last_attempt: Option<AttemptFacts>,
    pub(crate) progress: Option<Progress>,
    pub(crate) observed_generation: u64,
    pub(crate) held: Option<String>,
    /// Something its owner should know, though the node runs.
    pub(crate) notice: Option<Notice>,
    /// The helper that answered last, where the node needs one.
    pub(crate) helper: Option<Version>,
}

/// What the machine, the record and what arrived say together.
pub(super) fn described(
    machine: &Machine,
    (running, record): (&Running, &Record),
    seen: &Inbox,
    (percent, helper): (u8, Option<Version>),
) -> UpdateState {
    UpdateState {
        slot: running.slot,
        sequence: running.sequence,
        digest: running.digest,
        floor: record.floor(),
        trial: record.trial().map(|trial| trial.facts()),
        last_attempt: machine.last_attempt(),
        progress: machine.progress(percent),
        observed_generation: seen.observed_generation,
        held: seen.held.clone(),
        notice: record.notice(),
        helper,
    }
}

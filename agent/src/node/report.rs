//! What a node says of itself.
//!
//! Takes the updater's state, gives the facts of a Hello or a report. It adds only what cannot change while this
//! process lives: the image's version, the platform, the boot and the start.

use bc_protocol::{
    platform::Platform,
    session::{Facts, StartId},
    version::Version,
};

use super::update::UpdateState;
use crate::faults::{Fault, planted};

/// What stays the same for as long as the process lives.
#[derive(Clone, Debug)]
pub(super) struct Reporter {
    /// The version of the image that runs.
    pub(super) version: Version,
    /// What it was built for.
    pub(super) platform: Platform,
    /// The kernel's name of this boot.
    pub(super) boot_id: String,
    /// This start of the daemon.
    pub(super) started: StartId,
}

impl Reporter {
    /// Everything, as it stands.
    pub(super) fn facts(&self, state: &UpdateState) -> Facts {
        Facts {
            version: self.version.clone(),
            platform: self.platform.clone(),
            boot_id: self.boot_id.clone(),
            slot: state.slot,
            sequence: state.sequence,
            digest: state.digest,
            floor: state.floor,
            trial: state.trial.clone(),
            last_attempt: state.last_attempt.clone(),
            progress: state.progress.clone(),
            observed_generation: state.observed_generation,
            held: state.held.clone(),
            notice: state.notice.map(|notice| notice.name().to_owned()),
            helper: state.helper.clone(),
            started: (!planted(Fault::OldProtocol)).then_some(self.started),
        }
    }
}

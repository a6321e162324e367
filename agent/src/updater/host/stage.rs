//! A release on its way into the record: staged in the slot that does not run, then put on trial.
//!
//! Takes a section and what was downloaded for it. The bytes were seen once, as they came; what is installed and
//! activated is that very file, untouched since, or it is read again. No signature that this process has checked is
//! checked a second time, and nothing that may have changed meanwhile is believed from before.

use std::fs::File;
use std::path::PathBuf;

use bc_protocol::digest::Sha256;
use bc_protocol::release::{Artifact, verify_installed};
use bc_protocol::sequence::Sequence;
use bc_protocol::session::Slot;
use bc_protocol::spec::DaemonSection;

use super::{Admitted, Host, HostError, PRODUCT, spare_of, while_trying};
use crate::clock;
use crate::content::{Content, Seen, Stamp};
use crate::faults::{Fault, planted};
use crate::updater::record::{Record, Trial};
use crate::updater::refusal::{self, Refused};

/// A binary in its slot, not activated.
#[derive(Debug)]
pub(crate) struct Staged {
    /// The binary.
    pub(crate) binary: PathBuf,
    /// The one before it, for whoever has the time to drop it.
    pub(crate) replaced: Option<File>,
    digest: Sha256,
    seen: Option<Staging>,
}

/// What this process knows of a binary because it has staged it itself.
#[derive(Debug)]
struct Staging {
    binary: Stamp,
    published: Vec<u8>,
    sequence: Sequence,
}

impl Host {
    /// Judges a section as [`Self::admit`] does, and puts `binary`, its finished download, into the spare slot; without
    /// one, the slot has to hold it already.
    pub(crate) fn stage(
        &self,
        section: &DaemonSection,
        binary: Option<Seen>,
    ) -> Result<Staged, HostError> {
        // The lock keeps a trial from beginning while its slot is written.
        let _locked = self.store.lock()?;
        let admitted = self.admit(section)?;
        self.put(&admitted, binary)
    }

    /// The same, for who was admitted before the download began.
    pub(crate) fn stage_admitted(
        &self,
        section: &DaemonSection,
        admitted: &Admitted,
        binary: Option<Seen>,
    ) -> Result<Staged, HostError> {
        let _locked = self.store.lock()?;
        if self.is_still_admitted(section, admitted)? {
            self.put(admitted, binary)
        } else {
            self.put(&self.admit(section)?, binary)
        }
    }

    /// Whether a judgement of before still stands. The signatures do; record and time are asked again.
    fn is_still_admitted(
        &self,
        section: &DaemonSection,
        admitted: &Admitted,
    ) -> Result<bool, HostError> {
        let record = self.status()?;
        let is_the_one = *admitted.manifest.published() == section.signature
            && record.confirmed() == admitted.confirmed
            && clock::wall().max(admitted.judged_at) < admitted.manifest.expires_at();
        if !is_the_one {
            return Ok(false);
        }
        spare_of(&record)?;
        refusal::admit(section, &admitted.manifest, &record, &self.platform)?;
        Ok(true)
    }

    fn put(&self, admitted: &Admitted, binary: Option<Seen>) -> Result<Staged, HostError> {
        let (slot, digest) = (admitted.slot, admitted.digest);
        let artifact = self.artifact(admitted)?;
        let (content, stamp, replaced) = match binary {
            Some(binary) => self.install(slot, binary, artifact)?,
            None => {
                let binary = self.slots.open(slot).and_then(Seen::reading);
                let mut binary = binary.map_err(while_trying("read the slot's binary"))?;
                let content = binary.content().cloned();
                let content = content.map_err(while_trying("read the slot's binary"))?;
                (content, binary.stamp(), None)
            }
        };
        self.judge(&content, artifact)?;
        let published = admitted.manifest.published();
        if !planted(Fault::ManifestForgotten) {
            self.slots
                .keep_published(slot, published)
                .map_err(while_trying("keep the manifest"))?;
        }
        Ok(Staged {
            binary: self.paths.slot_binary(slot),
            replaced,
            digest,
            seen: Some(Staging {
                binary: stamp,
                published: published.to_vec(),
                sequence: admitted.manifest.sequence(),
            }),
        })
    }

    fn install(
        &self,
        slot: Slot,
        mut binary: Seen,
        artifact: &Artifact,
    ) -> Result<(Content, Stamp, Option<File>), HostError> {
        let content = binary.content().cloned();
        let content = content.map_err(while_trying("read the download"))?;
        if !planted(Fault::InstallFirst) {
            self.judge(&content, artifact)?;
        }
        let installed = self.slots.install(slot, &binary);
        let put = installed.map_err(while_trying("install the binary"))?;
        match put.stamp {
            Some(stamp) => Ok((content, stamp, put.replaced)),
            None => Err(HostError::Changed { slot }),
        }
    }

    /// Begins the trial of what was staged: one write to the record. The next start is the new binary's.
    pub(crate) fn activate(
        &self,
        section: &DaemonSection,
        staged: &Staged,
    ) -> Result<Record, HostError> {
        self.arm().map_err(HostError::NoWatchdog)?;
        let locked = self.store.lock()?;
        let record = locked.record()?;
        if let Some(trial) = record.trial()
            && trial.digest == staged.digest
            && trial.attempt == section.attempt
        {
            // An earlier try may have left it in memory of the kernel only: once more, so that it is on the disk.
            locked.write(&record)?;
            return Ok(record);
        }
        let slot = spare_of(&record)?;
        let sequence = self.staged_sequence(slot, staged)?;
        let at = clock::boot_time()?;
        let trial = Trial {
            slot,
            sequence,
            digest: staged.digest,
            attempt: section.attempt.clone(),
            starts: 0,
            deadline: at.now.after(self.deadline),
            boot_id: at.boot,
        };
        let record = record.trying(trial, section.version.as_str())?;
        locked.write(&record)?;
        Ok(record)
    }

    /// What a section's staging has left, for whoever did not stage it himself. [`Self::activate`] looks at it.
    pub(crate) fn staged(&self, section: &DaemonSection) -> Result<Staged, HostError> {
        let record = self.status()?;
        let slot = record
            .trial()
            .map_or(record.confirmed().slot.other(), |trial| trial.slot);
        Ok(Staged {
            binary: self.paths.slot_binary(slot),
            replaced: None,
            digest: section.sha256,
            seen: None,
        })
    }

    /// The sequence of what lies in the slot, if that is what was staged: by this process's own staging, where nobody
    /// has touched binary or manifest since, or else by every byte and signature. Whoever staged it may have been another
    /// process, and a cut may have come between the binary and its manifest.
    fn staged_sequence(&self, slot: Slot, staged: &Staged) -> Result<Sequence, HostError> {
        let published = self.slots.published(slot).unwrap_or_default();
        if let Some(seen) = &staged.seen
            && staged.binary == self.paths.slot_binary(slot)
            && seen.published == published
            && self.slots.is_untouched(slot, seen.binary)
        {
            return Ok(seen.sequence);
        }
        if !self.slots.holds(slot, staged.digest) {
            return Err(HostError::Changed { slot });
        }
        let manifest = verify_installed(&published, &self.trust, PRODUCT).map_err(Refused::from)?;
        let artifact = manifest.artifact_for(&self.platform);
        if artifact.is_none_or(|artifact| artifact.sha256() != staged.digest) {
            return Err(HostError::Changed { slot });
        }
        Ok(manifest.sequence())
    }

    /// Whether these bytes are the artifact's, and made for this machine.
    pub(super) fn judge(&self, content: &Content, artifact: &Artifact) -> Result<(), Refused> {
        if planted(Fault::NoDigest) {
            return Ok(());
        }
        refusal::admit_content(content, artifact, &self.platform)
    }
}

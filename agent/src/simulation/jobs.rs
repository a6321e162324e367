//! The updater's jobs on a disk that is made up.

use std::time::Duration;

use bc_protocol::{session::Outcome, spec::DaemonSection};
use rand::RngExt as _;

use super::{
    Behaviour, Planted, Release, SimulatedNode,
    disk::{Disk, Why},
};
use crate::updater::{
    attempt::{Attempt, Ending},
    machine::{self, Done, Job, JobId},
    record::{TransitionError, Trial},
};

impl SimulatedNode {
    pub(super) fn begin_job(&mut self, id: JobId, job: Job, at: Duration) {
        let millis = match &job {
            Job::Download(_) => 200..20_000,
            Job::Admit(_) | Job::Stage(_) | Job::Preflight(_) | Job::Activate(_) => 20..1_000,
            Job::Note(_) | Job::Confirm => 5..100,
        };
        let due = at + Duration::from_millis(self.random.random_range(millis));
        let held_for = self.setting.stable_for;
        if let Some(process) = &mut self.process {
            if job == Job::Confirm {
                process.confirm_is_proven = process
                    .welcomed_at
                    .is_some_and(|since| since + held_for <= at);
            }
            process.job = Some((id, job, due));
        }
    }

    pub(super) fn finish_job(&mut self, at: Duration) {
        let job = self
            .process
            .as_mut()
            .and_then(|process| process.job.take_if(|(_, _, due)| *due <= at));
        if let Some((id, job, _)) = job {
            let done = self.work(job, at);
            self.update(machine::Input::Done(id, done), at);
        }
    }

    fn work(&mut self, job: Job, at: Duration) -> Done {
        match job {
            Job::Admit(section) => self.admit(&section),
            Job::Download(_) if !self.downloads => failed(Outcome::Failed, "download"),
            Job::Download(_) => Done::Downloaded,
            Job::Stage(section) => self.stage(&section),
            Job::Preflight(section) => match self.release_of(&section) {
                Some(release) if release.behaviour != Behaviour::FailsPreflight => Done::Passed,
                Some(_) | None => failed(Outcome::Refused, "preflight"),
            },
            Job::Activate(section) => self.activate(&section, at),
            Job::Note(attempt) => self.keep(attempt),
            Job::Confirm => self.confirm(),
        }
    }

    fn release_of(&self, section: &DaemonSection) -> Option<&Release> {
        self.setting
            .releases
            .iter()
            .find(|release| release.digest == section.sha256 && release.version == section.version)
    }

    fn admit(&mut self, section: &DaemonSection) -> Done {
        let record = &self.disk.record;
        let Some(spare) = record.spare() else {
            return Done::TrialWaits;
        };
        let release = self
            .release_of(section)
            .filter(|release| release.behaviour != Behaviour::Unsigned);
        let Some(release) = release else {
            return failed(Outcome::Refused, "threshold");
        };
        let confirmed = record.confirmed();
        let same = release.sequence == confirmed.sequence && release.digest != confirmed.digest;
        if !record.floor().admits(release.sequence) || same {
            return failed(Outcome::Refused, "rollback");
        }
        match self.disk.slots.get(&spare) {
            Some(digest) if *digest == section.sha256 => Done::InPlace,
            Some(_) | None => Done::ToDownload,
        }
    }

    fn stage(&mut self, section: &DaemonSection) -> Done {
        let Some(spare) = self.disk.record.spare() else {
            return Done::TrialWaits;
        };
        let slot = if self.plants(Planted::WrongSlot) {
            spare.other()
        } else {
            spare
        };
        let broken = self.disk.put(slot, section.sha256);
        self.note(broken);
        Done::Staged
    }

    fn activate(&mut self, section: &DaemonSection, at: Duration) -> Done {
        let (Some(spare), Some(release)) = (self.disk.record.spare(), self.release_of(section))
        else {
            return Done::TrialWaits;
        };
        let now = self.boot_time(at);
        let trial = Trial {
            slot: spare,
            sequence: release.sequence,
            digest: release.digest,
            attempt: section.attempt.clone(),
            starts: 0,
            deadline: now.now.after(self.setting.watchdog),
            boot_id: now.boot,
        };
        let mut before = self.disk.record.clone();
        if self.plants(Planted::EndedForgotten) {
            before = Disk::begun_anew(before, &section.attempt, section.version.as_str());
        }
        match before.trying(trial, section.version.as_str()) {
            Ok(mut record) => {
                if self.plants(Planted::FloorBeforeWelcome) {
                    record = record.raised_too_early();
                }
                self.write(record, Why::Begin);
                Done::Activated
            }
            Err(TransitionError::OnTrial { .. }) => Done::TrialWaits,
            Err(
                TransitionError::RunningSlot { .. }
                | TransitionError::BelowFloor { .. }
                | TransitionError::NotOnTrial { .. }
                | TransitionError::Ended { .. },
            ) => failed(Outcome::Refused, "record"),
        }
    }

    fn keep(&mut self, attempt: Attempt) -> Done {
        match self.disk.record.clone().noting(attempt.clone()) {
            Ok(record) => {
                self.write(record, Why::Note);
                Done::Noted(attempt)
            }
            Err(_) => Done::TrialWaits,
        }
    }

    fn confirm(&mut self) -> Done {
        let Some(process) = &self.process else {
            return Done::NotOnTrial;
        };
        let digest = process.running.digest;
        let why = if process.confirm_is_proven {
            Why::Proven(digest)
        } else {
            Why::Unproven
        };
        match self.disk.record.clone().confirming(digest) {
            Ok(record) => {
                let last = record.last_attempt().cloned();
                self.write(record, why);
                if let Some(process) = &mut self.process {
                    process.is_trial = false;
                }
                Done::Confirmed(last)
            }
            Err(_) => Done::NotOnTrial,
        }
    }
}

fn failed(outcome: Outcome, code: &str) -> Done {
    Done::Failed(Ending::new(outcome, code, ""))
}

//! Looks at a node's folder as a stranger would, and says what must not be.
//!
//! It shares no code with the agent but the hash: record copies, slots and manifests are read here anew. What it knows of
//! the invariants is written down here alone.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use anyhow::{Context, Result};
use bc_protocol::digest::Sha256;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::script::{Act, Expect, Step, Want};

/// Starts that a trial may have, and one that was cut off before it was.
const STARTS_MAX: u64 = 4;

/// Bytes that a node's folder may have besides two slots and a download.
const MARGIN_BYTES: u64 = 1 << 20;

/// Bytes of a file that are worth a look: none that a node would believe has more.
const READ_MAX: u64 = 16 << 20;

/// What lies in a node's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    copies: [Copy; 2],
    /// By name, a and b.
    slots: BTreeMap<&'static str, SlotSeen>,
    /// Every executable file in a slot, by its digest.
    executables: Vec<(String, String)>,
    bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Copy {
    Missing,
    Damaged,
    Valid { counter: u64, record: Record },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SlotSeen {
    /// The binary's digest, and which file it is.
    binary: Option<(String, u64)>,
    release: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Record {
    floor: u64,
    confirmed: Installed,
    trial: Option<Trial>,
    #[serde(rename = "lastAttempt")]
    last_attempt: Option<serde_json::Value>,
    notice: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Installed {
    slot: String,
    sequence: u64,
    digest: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Trial {
    #[serde(flatten)]
    installed: Installed,
    starts: u64,
}

#[derive(Deserialize)]
struct Written<'a> {
    sha256: String,
    #[serde(borrow)]
    record: &'a RawValue,
}

#[derive(Deserialize)]
struct Counter {
    counter: u64,
}

/// Looks at the folder.
pub(super) fn look(state: &Path) -> Result<Seen> {
    let copies = ["update.json", "update.json.1"].map(|name| read_copy(&state.join(name)));
    let mut seen = Seen {
        copies,
        slots: BTreeMap::new(),
        executables: Vec::new(),
        bytes: 0,
    };
    for name in ["a", "b"] {
        let folder = state.join("slots").join(name);
        let mut slot = SlotSeen::default();
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let entry = entry?;
            let (path, meta) = (entry.path(), entry.metadata()?);
            if !meta.is_file() || meta.len() > READ_MAX {
                continue;
            }
            let bytes = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
            seen.bytes += meta.len();
            let digest = Sha256::of(&bytes).to_string();
            if meta.permissions().mode() & 0o111 != 0 {
                let shown = format!("slots/{name}/{}", entry.file_name().to_string_lossy());
                seen.executables.push((shown, digest.clone()));
            }
            match entry.file_name().to_str() {
                Some("bcd") => slot.binary = Some((digest, meta.ino())),
                Some("release.json") => slot.release = Some(digest),
                Some(_) | None => {}
            }
        }
        seen.slots.insert(name, slot);
    }
    Ok(seen)
}

fn read_copy(path: &Path) -> Copy {
    let is_readable =
        fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() < READ_MAX);
    if !is_readable {
        return Copy::Missing;
    }
    let Ok(bytes) = fs::read(path) else {
        return Copy::Missing;
    };
    parse_copy(&bytes).unwrap_or(Copy::Damaged)
}

fn parse_copy(bytes: &[u8]) -> Option<Copy> {
    let written: Written<'_> = serde_json::from_slice(bytes).ok()?;
    let text = written.record.get();
    if Sha256::of(text.as_bytes()).to_string() != written.sha256 {
        return None;
    }
    let Counter { counter } = serde_json::from_str(text).ok()?;
    let record = serde_json::from_str(text).ok()?;
    Some(Copy::Valid { counter, record })
}

impl Seen {
    fn record(&self) -> Option<&Record> {
        let valid = self.copies.iter().filter_map(|copy| match copy {
            Copy::Valid { counter, record } => Some((counter, record)),
            Copy::Missing | Copy::Damaged => None,
        });
        Some(valid.max_by_key(|(counter, _)| **counter)?.1)
    }

    fn spare(&self) -> Option<&'static str> {
        match self.record()?.confirmed.slot.as_str() {
            "a" => Some("b"),
            _ => Some("a"),
        }
    }

    /// The floor, where there is a record.
    pub(super) fn floor(&self) -> Option<u64> {
        Some(self.record()?.floor)
    }

    /// Whether there is a record, and nothing on trial.
    pub(super) fn is_settled(&self) -> bool {
        self.record().is_some_and(|record| record.trial.is_none())
    }

    /// Whether the record names a binary that may run, or says that the package's own one does.
    pub(super) fn runs_what_is_known(&self, known: &BTreeMap<String, u64>) -> bool {
        self.record().is_some_and(|record| {
            let is_rescue = record.notice.as_deref() == Some("rescue");
            let slot = self.slots.get(record.confirmed.slot.as_str());
            let found = slot
                .and_then(|slot| slot.binary.as_ref())
                .map(|(digest, _)| digest);
            // Its manifest may be lost: nothing that is confirmed needs it.
            let is_there = found == Some(&record.confirmed.digest);
            is_rescue || is_there && known.contains_key(&record.confirmed.digest)
        })
    }

    /// What must hold at every instant, whatever has happened.
    pub(super) fn absolute(&self, known: &BTreeMap<String, u64>) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.copies.contains(&Copy::Damaged) {
            wrong.push("I1: a copy of the record is torn".to_owned());
        }
        for (path, digest) in &self.executables {
            if !known.contains_key(digest) {
                wrong.push(format!("I8: {path} is executable and nobody signed it"));
            }
        }
        // Here every release and every download is as long as the longest.
        if self.bytes > 3 * 200_000 + MARGIN_BYTES {
            wrong.push(format!("I11: the slots take {} bytes", self.bytes));
        }
        let Some(record) = self.record() else {
            return wrong;
        };
        let trial = record.trial.as_ref();
        let named = [Some(&record.confirmed), trial.map(|trial| &trial.installed)];
        for installed in named.into_iter().flatten() {
            wrong.extend(self.is_there(installed, known));
            if installed.sequence < record.floor {
                wrong.push(format!(
                    "I4: sequence {} is below the floor {}",
                    installed.sequence, record.floor
                ));
            }
        }
        if trial.is_some_and(|trial| trial.starts > STARTS_MAX) {
            wrong.push("I7: a trial was started too often".to_owned());
        }
        wrong
    }

    fn is_there(&self, installed: &Installed, known: &BTreeMap<String, u64>) -> Option<String> {
        let slot = self.slots.get(installed.slot.as_str())?;
        let found = slot.binary.as_ref().map(|(digest, _)| digest);
        if found != Some(&installed.digest) {
            return Some(format!(
                "I1: the record names {} in slot {}, found {found:?}",
                installed.digest, installed.slot
            ));
        }
        if known.get(&installed.digest) != Some(&installed.sequence) {
            return Some(format!(
                "I1: {} is no release of sequence {}",
                installed.digest, installed.sequence
            ));
        }
        (installed.sequence > 0 && slot.release.is_none())
            .then(|| format!("I1: slot {} has no manifest", installed.slot))
    }

    /// What no step may do, whether it was done or cut short.
    pub(super) fn moved_from(&self, before: &Self, step: &Step) -> Vec<String> {
        let mut wrong = Vec::new();
        let (Some(old), new) = (before.record(), self.record()) else {
            return wrong;
        };
        let Some(new) = new else {
            return vec!["I1: there was a record, and now there is none".to_owned()];
        };
        if new.floor < old.floor {
            wrong.push(format!(
                "I2: the floor fell from {} to {}",
                old.floor, new.floor
            ));
        }
        if new.floor > old.floor {
            let confirms = matches!(step.act, Act::Confirm { .. });
            let tried = old.trial.as_ref().map(|trial| &trial.installed);
            if !confirms || tried != Some(&new.confirmed) || new.floor != new.confirmed.sequence {
                wrong.push(format!(
                    "I3: the floor rose to {} without its confirmation",
                    new.floor
                ));
            }
        }
        let named = [
            Some(&old.confirmed.slot),
            old.trial.as_ref().map(|trial| &trial.installed.slot),
        ];
        for slot in named.into_iter().flatten() {
            let slot = slot.as_str();
            if self.slots.get(slot).map(|slot| &slot.binary)
                != before.slots.get(slot).map(|slot| &slot.binary)
            {
                wrong.push(format!(
                    "I5: slot {slot}, which the record names, was written"
                ));
            }
        }
        wrong
    }

    /// Whether the node stands so.
    pub(super) fn stands(&self, want: &Want, known: &BTreeMap<String, u64>) -> Result<(), String> {
        let record = self.record().ok_or("there is no record")?;
        let trial = record
            .trial
            .as_ref()
            .map(|trial| (trial.installed.sequence, trial.starts));
        let found = (record.confirmed.sequence, record.floor, trial);
        let wanted = (want.confirmed, want.floor, want.trial);
        if found != wanted {
            return Err(format!(
                "expected (confirmed, floor, trial) to be {wanted:?}, found {found:?}"
            ));
        }
        let Some(sequence) = want.spare else {
            return Ok(());
        };
        let slot = self.spare().and_then(|slot| self.slots.get(slot));
        let held = slot
            .and_then(|slot| Some((known.get(&slot.binary.as_ref()?.0)?, slot.release.as_ref()?)));
        match held {
            Some((held, _)) if *held == sequence => Ok(()),
            Some(_) | None => Err(format!(
                "expected release {sequence} in the spare slot, found {held:?}"
            )),
        }
    }

    /// Whether both copies say the same.
    pub(super) fn copies_agree(&self) -> Result<(), String> {
        let [one, other] = &self.copies;
        if one == other && matches!(one, Copy::Valid { .. }) {
            return Ok(());
        }
        Err(format!(
            "I2: the copies of the record differ: {one:?} and {other:?}"
        ))
    }

    /// Whether nothing that counts differs: the record's words and the slots, a download and the counter aside.
    pub(super) fn is_as(&self, before: &Self) -> bool {
        self.record() == before.record() && self.slots == before.slots
    }

    /// Whether it runs and tries the same, with the same floor.
    pub(super) fn stands_as(&self, other: &Self) -> bool {
        let stance = |seen: &Self| {
            let record = seen.record()?.clone();
            Some((record.floor, record.confirmed, record.trial))
        };
        stance(self) == stance(other)
    }

    /// Whether it stands so, but for a few starts of the trial: that is what cuts may cost.
    pub(super) fn stands_but_for_starts(
        &self,
        want: &Want,
        lost_max: u64,
        known: &BTreeMap<String, u64>,
    ) -> bool {
        (0..=lost_max).any(|lost| {
            let more = Want {
                trial: want
                    .trial
                    .map(|(sequence, starts)| (sequence, starts + lost)),
                ..*want
            };
            self.stands(&more, known).is_ok()
        })
    }

    /// Whether the trial is over, and nothing else has changed: what an error may lead to.
    pub(super) fn went_back_from(&self, before: &Self) -> bool {
        match (self.record(), before.record()) {
            (Some(new), Some(old)) => {
                old.trial.is_some()
                    && new.trial.is_none()
                    && new.confirmed == old.confirmed
                    && new.floor == old.floor
            }
            (None, _) | (_, None) => false,
        }
    }
}

/// What is wrong after a step that ran to its end.
pub(super) fn after_end(
    step: &Step,
    said_done: bool,
    (before, after): (&Seen, &Seen),
    known: &BTreeMap<String, u64>,
) -> Vec<String> {
    let mut wrong = after.absolute(known);
    wrong.extend(after.moved_from(before, step));
    match (step.expect, said_done) {
        (Expect::Done(want), true) => {
            wrong.extend(
                after
                    .stands(&want, known)
                    .err()
                    .map(|problem| format!("I10: {problem}")),
            );
            wrong.extend(after.copies_agree().err());
        }
        (Expect::Done(_), false) => {
            wrong.push("expected it to be done, found it refused".to_owned())
        }
        (Expect::Refused, true) => wrong.push("I9: expected a refusal, found it done".to_owned()),
        (Expect::Refused, false) if after.is_as(before) => {}
        (Expect::Refused, false) => {
            wrong.push("I9: what was refused has changed something".to_owned())
        }
    }
    wrong
}

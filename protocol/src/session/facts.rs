//! Everything a node says about itself.
//!
//! Facts are always whole: a reader never needs an earlier report to understand a later one.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::FrameError;
use crate::{
    digest::Sha256,
    id::AttemptId,
    limits::{LOG_BYTES_MAX, MESSAGE_BYTES_MAX},
    platform::Platform,
    sequence::{ReleaseFloor, Sequence},
    text::serde_as_text,
    version::Version,
    wire::node as wire,
};

/// One of the two places that hold a binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Slot {
    /// The first.
    A,
    /// The second.
    B,
}

impl Slot {
    /// The slot that is not this one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// The slot's name, which is its folder's name too.
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }
}

impl std::fmt::Display for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A node's state as it reports it in its Hello and in every report after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// The version of the image that runs, not of the file on disk.
    pub version: Version,
    /// What the binary was built for.
    pub platform: Platform,
    /// The kernel's id of this boot.
    pub boot_id: String,
    /// The slot that runs; absent where the package's own binary does.
    pub slot: Option<Slot>,
    /// The running release's sequence; 0 is the package's own binary.
    pub sequence: Sequence,
    /// The digest of the running binary.
    pub digest: Sha256,
    /// The oldest release that the node still accepts.
    pub floor: ReleaseFloor,
    /// The trial that goes on, if one does.
    pub trial: Option<TrialFacts>,
    /// The newest attempt, ended or not.
    pub last_attempt: Option<AttemptFacts>,
    /// What the updater does now.
    pub progress: Option<Progress>,
    /// The generation of the spec that the node has seen last; 0 before the first.
    pub observed_generation: u64,
    /// The owner's reason, where he holds the node.
    pub held: Option<String>,
    /// A word for what the owner should know of a node that runs all the same: `rescue`, `recovered`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
    /// The version of the helper that answered last, for a node that needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helper: Option<Version>,
    /// Which start of the daemon speaks; absent before protocol 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<StartId>,
}

/// One start of a daemon: random, so that no two are alike, whatever happened to counters and clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartId([u8; 16]);

impl From<[u8; 16]> for StartId {
    fn from(random: [u8; 16]) -> Self {
        Self(random)
    }
}

impl fmt::Display for StartId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&hex::encode(self.0))
    }
}

impl FromStr for StartId {
    type Err = hex::FromHexError;

    fn from_str(text: &str) -> Result<Self, hex::FromHexError> {
        let mut random = [0; 16];
        hex::decode_to_slice(text, &mut random)?;
        Ok(Self(random))
    }
}

serde_as_text!(StartId);

/// A binary that has not proven itself yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialFacts {
    /// Where it lies.
    pub slot: Slot,
    /// Its release's sequence.
    pub sequence: Sequence,
    /// Its digest.
    pub digest: Sha256,
    /// The attempt that it belongs to.
    pub attempt: AttemptId,
    /// How often it was started.
    pub starts: u32,
}

/// One try to bring this node to one version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptFacts {
    /// The attempt's id, from the section.
    pub id: AttemptId,
    /// The version that it was to bring, as the section named it.
    pub target: String,
    /// How far it came.
    pub outcome: Outcome,
    /// Whether it has ended for good: it is never tried again under this id.
    #[serde(rename = "final")]
    pub is_final: bool,
    /// Tries so far.
    pub tries: u32,
    /// The reason as a word, such as `digest` or `no-welcome`; empty where nothing went wrong.
    pub code: String,
    /// The reason as a sentence.
    pub message: String,
    /// The dead binary's exit status.
    pub exit_status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The last lines that it wrote.
    pub log: String,
}

/// How an attempt stands or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It goes on.
    Running,
    /// The target runs and has been welcomed.
    Confirmed,
    /// The node refused the release; nothing changed.
    Refused,
    /// Something on the way failed: a download, a disk.
    Failed,
    /// The new binary ended by itself.
    Crashed,
    /// The new binary did nothing at all.
    Hung,
    /// The new binary ran and got no Welcome.
    NoWelcome,
    /// The new binary lost its session before it had held long enough.
    Unstable,
    /// Nobody could have been welcomed: no verdict about the release.
    Environment,
    /// An operator stopped it, or another target replaced it.
    Cancelled,
}

impl Outcome {
    /// Its word in JSON, tables and log lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Confirmed => "confirmed",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Crashed => "crashed",
            Self::Hung => "hung",
            Self::NoWelcome => "no-welcome",
            Self::Unstable => "unstable",
            Self::Environment => "environment",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What the updater does now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// For which attempt.
    pub attempt: AttemptId,
    /// Which step.
    pub phase: Phase,
    /// How much of the step, 0 to 100.
    pub percent: u8,
}

/// A step of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Bytes arrive.
    Downloading,
    /// The manifest and the digest are held against the pins.
    Verifying,
    /// The binary goes into its slot.
    Installing,
    /// The new binary answers for itself, without privileges.
    Preflight,
    /// The trial goes into the record.
    Activating,
    /// The new binary runs and waits for its Welcome.
    OnTrial,
    /// Welcomed; the session has to hold.
    Confirming,
}

impl TryFrom<wire::Facts> for Facts {
    type Error = FrameError;

    fn try_from(facts: wire::Facts) -> Result<Self, FrameError> {
        Ok(Self {
            slot: slot_of(facts.slot)?,
            sequence: sequence("sequence", facts.sequence)?,
            digest: digest("digest", &facts.digest)?,
            floor: ReleaseFloor::starting_at(sequence("floor", facts.floor)?),
            version: parsed("version", "MAJOR.MINOR.PATCH", &facts.version)?,
            platform: parsed(
                "platform",
                "a platform such as linux-amd64",
                &facts.platform,
            )?,
            boot_id: bounded(facts.boot_id, MESSAGE_BYTES_MAX),
            trial: facts.trial.map(TrialFacts::try_from).transpose()?,
            last_attempt: facts.last_attempt.map(AttemptFacts::try_from).transpose()?,
            progress: facts.progress.map(Progress::try_from).transpose()?,
            observed_generation: facts.observed_generation,
            held: facts.held.map(|reason| bounded(reason, MESSAGE_BYTES_MAX)),
            notice: facts.notice.map(|word| bounded(word, 64)),
            // What a helper says of itself is no reason to send its node away.
            helper: facts.helper.and_then(|version| version.parse().ok()),
            started: start_id(&facts.started)?,
        })
    }
}

impl From<Facts> for wire::Facts {
    fn from(facts: Facts) -> Self {
        Self {
            version: facts.version.to_string(),
            platform: facts.platform.to_string(),
            boot_id: facts.boot_id,
            slot: wire_slot(facts.slot),
            sequence: facts.sequence.get(),
            digest: facts.digest.as_bytes().to_vec().into(),
            floor: facts.floor.sequence().get(),
            trial: facts.trial.map(Into::into),
            last_attempt: facts.last_attempt.map(Into::into),
            progress: facts.progress.map(Into::into),
            observed_generation: facts.observed_generation,
            held: facts.held,
            notice: facts.notice,
            helper: facts.helper.map(|version| version.to_string()),
            started: facts
                .started
                .map(|start| start.0.to_vec().into())
                .unwrap_or_default(),
        }
    }
}

impl TryFrom<wire::Trial> for TrialFacts {
    type Error = FrameError;

    fn try_from(trial: wire::Trial) -> Result<Self, FrameError> {
        let slot = slot_of(trial.slot)?
            .ok_or_else(|| FrameError::field("trial.slot", "a or b", "none"))?;
        Ok(Self {
            slot,
            sequence: sequence("trial.sequence", trial.sequence)?,
            digest: digest("trial.digest", &trial.digest)?,
            attempt: parsed("trial.attempt", "an attempt id", &trial.attempt)?,
            starts: trial.starts,
        })
    }
}

impl From<TrialFacts> for wire::Trial {
    fn from(trial: TrialFacts) -> Self {
        Self {
            slot: wire_slot(Some(trial.slot)),
            sequence: trial.sequence.get(),
            digest: trial.digest.as_bytes().to_vec().into(),
            attempt: trial.attempt.to_string(),
            starts: trial.starts,
        }
    }
}

impl TryFrom<wire::Attempt> for AttemptFacts {
    type Error = FrameError;

    fn try_from(attempt: wire::Attempt) -> Result<Self, FrameError> {
        Ok(Self {
            id: parsed("last_attempt.id", "an attempt id", &attempt.id)?,
            target: bounded(attempt.target, 128),
            outcome: outcome_of(attempt.outcome)?,
            is_final: attempt.r#final,
            tries: attempt.tries,
            code: bounded(attempt.code, 64),
            message: bounded(attempt.message, MESSAGE_BYTES_MAX),
            exit_status: attempt.exit_status,
            signal: attempt.signal,
            log: bounded(attempt.log, LOG_BYTES_MAX),
        })
    }
}

impl From<AttemptFacts> for wire::Attempt {
    fn from(attempt: AttemptFacts) -> Self {
        Self {
            id: attempt.id.to_string(),
            target: attempt.target,
            outcome: wire_outcome(attempt.outcome).into(),
            r#final: attempt.is_final,
            tries: attempt.tries,
            code: attempt.code,
            message: attempt.message,
            exit_status: attempt.exit_status,
            signal: attempt.signal,
            log: attempt.log,
        }
    }
}

impl TryFrom<wire::Progress> for Progress {
    type Error = FrameError;

    fn try_from(progress: wire::Progress) -> Result<Self, FrameError> {
        Ok(Self {
            attempt: parsed("progress.attempt", "an attempt id", &progress.attempt)?,
            phase: phase_of(progress.phase)?,
            percent: u8::try_from(progress.percent.min(100)).unwrap_or(100),
        })
    }
}

impl From<Progress> for wire::Progress {
    fn from(progress: Progress) -> Self {
        let phase = match progress.phase {
            Phase::Downloading => wire::Phase::Downloading,
            Phase::Verifying => wire::Phase::Verifying,
            Phase::Installing => wire::Phase::Installing,
            Phase::Preflight => wire::Phase::Preflight,
            Phase::Activating => wire::Phase::Activating,
            Phase::OnTrial => wire::Phase::OnTrial,
            Phase::Confirming => wire::Phase::Confirming,
        };
        Self {
            attempt: progress.attempt.to_string(),
            phase: phase.into(),
            percent: progress.percent.into(),
        }
    }
}

fn slot_of(slot: i32) -> Result<Option<Slot>, FrameError> {
    match wire::Slot::try_from(slot) {
        Ok(wire::Slot::None) => Ok(None),
        Ok(wire::Slot::A) => Ok(Some(Slot::A)),
        Ok(wire::Slot::B) => Ok(Some(Slot::B)),
        Err(unknown) => Err(FrameError::field("slot", "none, a or b", unknown)),
    }
}

fn wire_slot(slot: Option<Slot>) -> i32 {
    match slot {
        None => wire::Slot::None,
        Some(Slot::A) => wire::Slot::A,
        Some(Slot::B) => wire::Slot::B,
    }
    .into()
}

fn outcome_of(outcome: i32) -> Result<Outcome, FrameError> {
    let unknown =
        |found: String| FrameError::field("last_attempt.outcome", "a known outcome", found);
    match wire::Outcome::try_from(outcome).map_err(|found| unknown(found.to_string()))? {
        wire::Outcome::Unspecified => Err(unknown("none".to_owned())),
        wire::Outcome::Running => Ok(Outcome::Running),
        wire::Outcome::Confirmed => Ok(Outcome::Confirmed),
        wire::Outcome::Refused => Ok(Outcome::Refused),
        wire::Outcome::Failed => Ok(Outcome::Failed),
        wire::Outcome::Crashed => Ok(Outcome::Crashed),
        wire::Outcome::Hung => Ok(Outcome::Hung),
        wire::Outcome::NoWelcome => Ok(Outcome::NoWelcome),
        wire::Outcome::Unstable => Ok(Outcome::Unstable),
        wire::Outcome::Environment => Ok(Outcome::Environment),
        wire::Outcome::Cancelled => Ok(Outcome::Cancelled),
    }
}

fn wire_outcome(outcome: Outcome) -> wire::Outcome {
    match outcome {
        Outcome::Running => wire::Outcome::Running,
        Outcome::Confirmed => wire::Outcome::Confirmed,
        Outcome::Refused => wire::Outcome::Refused,
        Outcome::Failed => wire::Outcome::Failed,
        Outcome::Crashed => wire::Outcome::Crashed,
        Outcome::Hung => wire::Outcome::Hung,
        Outcome::NoWelcome => wire::Outcome::NoWelcome,
        Outcome::Unstable => wire::Outcome::Unstable,
        Outcome::Environment => wire::Outcome::Environment,
        Outcome::Cancelled => wire::Outcome::Cancelled,
    }
}

fn phase_of(phase: i32) -> Result<Phase, FrameError> {
    let unknown = |found: String| FrameError::field("progress.phase", "a known phase", found);
    match wire::Phase::try_from(phase).map_err(|found| unknown(found.to_string()))? {
        wire::Phase::Unspecified => Err(unknown("none".to_owned())),
        wire::Phase::Downloading => Ok(Phase::Downloading),
        wire::Phase::Verifying => Ok(Phase::Verifying),
        wire::Phase::Installing => Ok(Phase::Installing),
        wire::Phase::Preflight => Ok(Phase::Preflight),
        wire::Phase::Activating => Ok(Phase::Activating),
        wire::Phase::OnTrial => Ok(Phase::OnTrial),
        wire::Phase::Confirming => Ok(Phase::Confirming),
    }
}

fn sequence(field: &'static str, value: u64) -> Result<Sequence, FrameError> {
    Sequence::new(value).map_err(|_| FrameError::field(field, "at most 2^53-1", value))
}

fn digest(field: &'static str, bytes: &[u8]) -> Result<Sha256, FrameError> {
    <[u8; 32]>::try_from(bytes)
        .map(Sha256::from)
        .map_err(|_| FrameError::field(field, "32 bytes", format!("{} bytes", bytes.len())))
}

fn start_id(bytes: &[u8]) -> Result<Option<StartId>, FrameError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let random = <[u8; 16]>::try_from(bytes)
        .map_err(|_| FrameError::field("started", "16 bytes", format!("{} bytes", bytes.len())))?;
    Ok(Some(StartId(random)))
}

fn parsed<T: FromStr>(
    field: &'static str,
    expected: &'static str,
    text: &str,
) -> Result<T, FrameError> {
    text.parse()
        .map_err(|_| FrameError::field(field, expected, bounded(text.to_owned(), 80)))
}

/// Cuts a text at a limit: a long log is no reason to lose the fact that came with it.
fn bounded(mut text: String, bytes_max: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}

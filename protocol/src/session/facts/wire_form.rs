//! Facts as they travel.
//!
//! Takes and gives the schema's messages. What a node writes at length is cut, since a long log is no reason to lose
//! the fact that came with it; what cannot be a fact is an error that names its field.

use std::str::FromStr;

use super::{AttemptFacts, Facts, Outcome, Phase, Progress, Slot, StartId, TrialFacts};
use crate::{
    digest::Sha256,
    limits::{LOG_BYTES_MAX, MESSAGE_BYTES_MAX},
    sequence::{ReleaseFloor, Sequence},
    session::FrameError,
    text::bounded,
    wire::node as wire,
};

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

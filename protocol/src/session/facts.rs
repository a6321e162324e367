//! Everything a node says about itself.
//!
//! Facts are always whole: a reader never needs an earlier report to understand a later one.

mod wire_form;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    digest::Sha256,
    id::AttemptId,
    platform::Platform,
    sequence::{ReleaseFloor, Sequence},
    text::serde_as_text,
    version::Version,
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

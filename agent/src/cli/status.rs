//! `bcd status`

use std::fmt::Write as _;
use std::io::{self, Write as _};

use bc_protocol::digest::Sha256;
use bc_protocol::id::NodeId;
use bc_protocol::release::verify_installed;
use bc_protocol::sequence::{ReleaseFloor, Sequence};
use bc_protocol::session::{AttemptFacts, Outcome, Slot, TrialFacts};
use bc_protocol::version::Version;
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::{CommandError, Global};
use crate::Build;
use crate::hold;
use crate::identity::{self, IdentityError};
use crate::node::memory::{self, SessionNote};
use crate::shown::one_line;
use crate::updater::executor;
use crate::updater::host::{Host, PRODUCT};
use crate::updater::record::{Notice, Record};

const NODE: &str = "node";
const SESSION: &str = "session";
const HELD: &str = "held";

/// What a line says of what may not be looked at.
const NO_RIGHTS: &str = "cannot be read: run as root";

/// Show what runs on this node, what is on trial, and how the last attempt ended
#[derive(Debug, Args)]
pub(super) struct ShowStatus {
    /// For people or for programs
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    version: String,
    running: RunningStatus,
    slots: SlotsStatus,
    floor: ReleaseFloor,
    trial: Option<TrialFacts>,
    last_attempt: Option<AttemptFacts>,
    node_id: Option<NodeId>,
    session: SessionStatus,
    /// The version of the helper that answered the node last.
    helper: Option<Version>,
    /// The owner's reason to begin no update.
    held: Option<String>,
    notice: Option<Notice>,
    /// What of all that may not be looked at, and is missing for no other reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct RunningStatus {
    /// Absent where the package's own binary runs.
    slot: Option<Slot>,
    sequence: Sequence,
    digest: Option<Sha256>,
}

#[derive(Debug, Serialize)]
struct SlotsStatus {
    a: Option<SlotStatus>,
    b: Option<SlotStatus>,
}

/// What a slot's manifest says; the package's own binary has none.
#[derive(Debug, Serialize)]
struct SlotStatus {
    version: Option<Version>,
    sequence: Sequence,
}

/// As the node left it; what it leaves out is unknown.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionStatus {
    connected: bool,
    gateway: Option<String>,
    since: Option<String>,
    /// Why there is none, as of the last try.
    lost: Option<String>,
    /// Whether the fleet has removed the node.
    removed: bool,
    /// Whether the node runs.
    running: bool,
    #[serde(skip)]
    version: Option<String>,
}

impl ShowStatus {
    pub(super) fn run(self, global: &Global, build: Build) -> Result<(), CommandError> {
        let (config, paths) = global.load()?;
        let host = Host::new(paths, &config);
        // Without a right to look there, nothing there would be made of it.
        if let [copy, _] = host.paths().record_copies()
            && let Err(error) = std::fs::metadata(&copy)
            && error.kind() == io::ErrorKind::PermissionDenied
        {
            return Err(CommandError::Rights { path: copy });
        }
        let record = executor::to_run_by(&host, &config.package_binary)?;
        let status = status_of(&host, &record, build);
        let shown = match self.output {
            Format::Text => text_of(&status),
            Format::Json => {
                let mut json = serde_json::to_string(&status)
                    .map_err(|error| CommandError::Output(error.into()))?;
                json.push('\n');
                json
            }
        };
        std::io::stdout()
            .write_all(shown.as_bytes())
            .map_err(CommandError::Output)?;
        if status.unreadable.is_empty() {
            return Ok(());
        }
        let path = host.paths().root().to_owned();
        Err(CommandError::Rights { path })
    }
}

/// What a look at the node's files has found.
#[derive(Default)]
struct Seen {
    unreadable: Vec<&'static str>,
}

impl Seen {
    /// What was found; what may not be looked at is not what is not there.
    fn take<T: Default>(&mut self, name: &'static str, found: io::Result<T>) -> T {
        found.unwrap_or_else(|_| {
            self.unreadable.push(name);
            T::default()
        })
    }
}

fn status_of(host: &Host, record: &Record, build: Build) -> Status {
    let paths = host.paths();
    let running = match record.notice() {
        Some(Notice::Rescue) => RunningStatus {
            slot: None,
            sequence: Sequence::PACKAGED,
            digest: None,
        },
        Some(Notice::Recovered) | None => {
            let chosen = record.chosen();
            RunningStatus {
                slot: Some(chosen.slot),
                sequence: chosen.sequence,
                digest: Some(chosen.digest),
            }
        }
    };
    let mut seen = Seen::default();
    let node_id = match identity::node_id(&paths.identity()) {
        Err(IdentityError::File { cause, .. })
            if cause.kind() == io::ErrorKind::PermissionDenied =>
        {
            Err(cause)
        }
        read => Ok(read.ok().flatten()),
    };
    let node_id = seen.take(NODE, node_id);
    let note = seen.take(SESSION, memory::session(paths));
    let helper = note.as_ref().and_then(|note| note.helper.clone());
    let session = note.map(session_of).unwrap_or_default();
    let held = seen.take(HELD, hold::seen(paths));
    let slot_version = running
        .slot
        .and_then(|slot| slot_of(host, slot))
        .and_then(|slot| slot.version)
        .map(|version| version.to_string());
    Status {
        version: slot_version
            .or_else(|| session.version.clone())
            .unwrap_or_else(|| build.version.to_owned()),
        running,
        slots: SlotsStatus {
            a: slot_of(host, Slot::A),
            b: slot_of(host, Slot::B),
        },
        floor: record.floor(),
        trial: record.trial().map(|trial| trial.facts()),
        last_attempt: record.last_attempt().map(|attempt| attempt.facts().clone()),
        node_id,
        session,
        helper,
        held,
        notice: record.notice(),
        unreadable: seen.unreadable,
    }
}

/// The version that runs.
pub(super) fn version_of(host: &Host, record: &Record, build: Build) -> String {
    status_of(host, record, build).version
}

fn slot_of(host: &Host, slot: Slot) -> Option<SlotStatus> {
    if !host.paths().slot_binary(slot).is_file() {
        return None;
    }
    let manifest = host
        .slots()
        .published(slot)
        .and_then(|published| verify_installed(&published, host.trust(), PRODUCT).ok());
    Some(match manifest {
        Some(manifest) => SlotStatus {
            version: Some(manifest.version().clone()),
            sequence: manifest.sequence(),
        },
        None => SlotStatus {
            version: None,
            sequence: Sequence::PACKAGED,
        },
    })
}

fn session_of(note: SessionNote) -> SessionStatus {
    SessionStatus {
        connected: note.connected,
        gateway: note.gateway,
        since: Some(note.since.to_string()),
        lost: note.lost,
        removed: note.removed,
        running: note.running,
        version: Some(note.version.to_string()),
    }
}

fn text_of(status: &Status) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        if writeln!(text, "{name:<13}{}", one_line(&value)).is_err() {
            tracing::debug!("a line of the status is lost");
        }
    };
    line("version", status.version.clone());
    line(
        "running",
        match status.running.slot {
            Some(slot) => format!("slot {slot}, sequence {}", status.running.sequence),
            None => "the package's own binary".to_owned(),
        },
    );
    for (slot, content) in [("slot a", &status.slots.a), ("slot b", &status.slots.b)] {
        line(slot, slot_text(content.as_ref()));
    }
    line("floor", status.floor.to_string());
    line(
        "trial",
        match &status.trial {
            Some(trial) => format!(
                "slot {}, sequence {}, start {}",
                trial.slot, trial.sequence, trial.starts
            ),
            None => "none".to_owned(),
        },
    );
    line(
        "last attempt",
        status
            .last_attempt
            .as_ref()
            .map_or_else(|| "none".to_owned(), attempt_text),
    );
    for name in [NODE, SESSION] {
        let text = if status.unreadable.contains(&name) {
            NO_RIGHTS.to_owned()
        } else if name == SESSION {
            session_text(&status.session)
        } else {
            status
                .node_id
                .as_ref()
                .map_or_else(|| "has not joined".to_owned(), ToString::to_string)
        };
        line(name, text);
    }
    if let Some(helper) = &status.helper {
        line("helper", helper.to_string());
    }
    if status.unreadable.contains(&HELD) {
        line(HELD, NO_RIGHTS.to_owned());
    } else if let Some(reason) = &status.held {
        line(HELD, reason.clone());
    }
    match status.notice {
        Some(Notice::Rescue) => line("notice", "no slot holds a binary that may run".to_owned()),
        Some(Notice::Recovered) => line("notice", "the record was lost and made anew".to_owned()),
        None => {}
    }
    text
}

fn slot_text(slot: Option<&SlotStatus>) -> String {
    match slot {
        None => "empty".to_owned(),
        Some(SlotStatus { version: None, .. }) => "the package's own binary".to_owned(),
        Some(SlotStatus {
            version: Some(version),
            sequence,
        }) => format!("{version}, sequence {sequence}"),
    }
}

fn attempt_text(attempt: &AttemptFacts) -> String {
    let state = if attempt.is_final { "final" } else { "goes on" };
    format!(
        "{} to {}: {} ({state}, tries {}) {}",
        attempt.id,
        attempt.target,
        word(attempt.outcome),
        attempt.tries,
        attempt.message
    )
}

/// An outcome as reports and the JSON spell it.
fn word(outcome: Outcome) -> String {
    serde_json::to_value(outcome)
        .ok()
        .and_then(|word| word.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn session_text(session: &SessionStatus) -> String {
    match (session.connected, &session.gateway) {
        (true, Some(gateway)) => format!(
            "with {gateway} since {}",
            session.since.as_deref().unwrap_or("an unknown time")
        ),
        (true, None) => "connected".to_owned(),
        (false, _) if session.removed => {
            "none: the fleet has removed this node; bcd doctor says more".to_owned()
        }
        (false, _) if !session.running => "none: the node does not run".to_owned(),
        (false, _) => format!(
            "none since {}: {}",
            session.since.as_deref().unwrap_or("an unknown time"),
            session.lost.as_deref().unwrap_or("it has only begun")
        ),
    }
}

//! What keeps this node from doing its work, and how to mend it.
//!
//! Takes the owner's configuration and the node's folder, gives one finding a check. It changes nothing, and opens no
//! session: gateways see a connection that is closed again.

mod network;

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

use bc_protocol::session::Outcome;
use nix::sys::statvfs::statvfs;
use serde::Serialize;

use crate::{
    config::Config,
    helper::{Client, ClientError, DEFAULT_SOCKET},
    http::Web,
    identity::Identity,
    node::{self, limits::DISK_MARGIN_BYTES, memory},
    paths::Paths,
    updater::{
        host::{Host, HostError, with_causes},
        record::{Notice, Record},
    },
};

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    /// What was looked at.
    pub(crate) check: &'static str,
    /// Whether it is as it should be.
    pub(crate) good: bool,
    /// What was found, in a sentence.
    pub(crate) found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mend: Option<String>,
}

impl Finding {
    /// As it should be.
    pub(crate) fn good(check: &'static str, found: impl ToString) -> Self {
        Self {
            check,
            good: true,
            found: found.to_string(),
            mend: None,
        }
    }

    /// As it should be here, and yet worth somebody's look.
    fn note(check: &'static str, found: impl ToString, mend: impl ToString) -> Self {
        Self {
            good: true,
            ..Self::wrong(check, found, mend)
        }
    }

    /// To be mended.
    pub(crate) fn wrong(check: &'static str, found: impl ToString, mend: impl ToString) -> Self {
        Self {
            check,
            good: false,
            found: found.to_string(),
            mend: Some(mend.to_string()),
        }
    }
}

/// Looks at everything that a configuration which can be read allows to look at.
pub(crate) async fn examine(config: &Config, paths: &Paths) -> Vec<Finding> {
    let record = Host::new(paths.clone(), config).status();
    let mut findings = vec![pins(config, paths), sound(&record, paths), disk(paths)];
    findings.extend(record.ok().as_ref().and_then(attempt));
    findings.extend(helper(config, paths).await);
    let (identity, found) = identity(paths);
    findings.push(found);
    let removed = identity.as_ref().and_then(|_| removed(paths));
    let control = config
        .control
        .as_ref()
        .or(identity.as_ref().and_then(Identity::control));
    let web = Web {
        plain_http: config.plain_http,
        ca_file: config.ca_file.clone(),
        earliest: identity.as_ref().map(Identity::starts),
    };
    let gateways = identity
        .as_ref()
        .map(|identity| node::gateways(&config.gateways, identity))
        .unwrap_or_default();
    findings.extend(network::names(control, &gateways).await);
    findings.extend(network::control(control, &web).await);
    if let Some(removed) = removed {
        // What gateways make of a connection says nothing about a node whom they send away.
        findings.push(removed);
    } else if let Some(identity) = &identity {
        findings.extend(network::gateways(identity, &gateways).await);
        findings.push(session(paths));
    }
    findings
}

fn pins(config: &Config, paths: &Paths) -> Finding {
    let trust = &config.update.trust;
    let (pins, threshold) = (trust.pins(), trust.threshold());
    if let Ok(Some(note)) = memory::session(paths)
        && note.running
        && !note.trust.is_empty()
        && note.trust != memory::whom(trust)
    {
        let found = "the node that runs believes others than the configuration names now";
        return Finding::note("pins", found, "restart the node");
    }
    let found = format!(
        "{threshold} of {} pinned keys have to sign a release",
        pins.len()
    );
    Finding::good("pins", found)
}

/// A last attempt that this node has ended by itself, and that nobody tries again by himself.
fn attempt(record: &Record) -> Option<Finding> {
    let attempt = record.last_attempt()?.facts();
    let mend = match attempt.outcome {
        Outcome::Refused if attempt.code == "threshold" => {
            "compare release_pins and threshold with the keys that sign for the fleet; once they are right, restart the node \
             and have an operator retry the rollout, or start another one"
        }
        Outcome::Refused | Outcome::Failed if attempt.is_final => {
            "once that is mended, have an operator retry the rollout, or start another one"
        }
        Outcome::Refused
        | Outcome::Failed
        | Outcome::Running
        | Outcome::Confirmed
        | Outcome::Crashed
        | Outcome::Hung
        | Outcome::NoWelcome
        | Outcome::Unstable
        | Outcome::Environment
        | Outcome::Cancelled => return None,
    };
    let found = format!("{} was not taken: {}", attempt.target, attempt.message);
    Some(Finding::note("update", found, mend))
}

fn sound(record: &Result<Record, HostError>, paths: &Paths) -> Finding {
    const CHECK: &str = "record";
    match record {
        Ok(record) => match record.notice() {
            None => Finding::good(CHECK, format!("sound; floor {}", record.floor())),
            Some(Notice::Recovered) => {
                Finding::good(CHECK, "it was lost and made anew from the slots")
            }
            Some(Notice::Rescue) => Finding::wrong(
                CHECK,
                "no slot holds a binary that may run; the package's own runs",
                "let a rollout bring a release to this node; it takes one in this state too",
            ),
        },
        Err(error) => Finding::wrong(
            CHECK,
            with_causes(error),
            format!(
                "start the node: it makes the record anew from what lies in {}; where bcd doctor may not look there, run it as root",
                paths.root().display()
            ),
        ),
    }
}

/// Room for an update: twice the larger binary and a margin.
fn disk(paths: &Paths) -> Finding {
    const CHECK: &str = "disk";
    let root = paths.root();
    let free = match statvfs(root) {
        Ok(disk) => disk.blocks_available().saturating_mul(disk.fragment_size()),
        Err(error) => {
            let found = format!("{} cannot be looked at: {error}", root.display());
            return Finding::wrong(CHECK, found, "join this node (bcd join), or mend state_dir");
        }
    };
    let largest = [bc_protocol::session::Slot::A, bc_protocol::session::Slot::B]
        .into_iter()
        .map(|slot| size_of(&paths.slot_binary(slot)))
        .max()
        .unwrap_or(0);
    let need = largest.saturating_mul(2).saturating_add(DISK_MARGIN_BYTES);
    let found = format!(
        "{} MiB free in {}, an update needs about {} MiB",
        free >> 20,
        root.display(),
        need >> 20
    );
    if free < need {
        return Finding::wrong(CHECK, found, "make room on that file system");
    }
    Finding::good(CHECK, found)
}

fn size_of(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |file| file.len())
}

fn identity(paths: &Paths) -> (Option<Identity>, Finding) {
    const CHECK: &str = "identity";
    let identity = match Identity::load(&paths.identity()) {
        Ok(identity) => identity,
        Err(error) => {
            let mend = "join this node (bcd join, which also has control give anew what is damaged; where the key is, remove node.key first), or run bcd doctor as root";
            return (None, Finding::wrong(CHECK, with_causes(&error), mend));
        }
    };
    let (validity, now) = (identity.validity(), identity.now());
    let days = validity.ends.saturating_sub(now) / 86_400;
    let id = identity.node_id();
    let found = if validity.has_ended(now) {
        Finding::wrong(
            CHECK,
            format!("{id}; its certificate has ended"),
            "start the node: it asks control for a new one as soon as it reaches it",
        )
    } else if validity.renew_at() <= now {
        Finding::good(
            CHECK,
            format!("{id}; its certificate is due to be renewed, {days} days are left"),
        )
    } else {
        Finding::good(
            CHECK,
            format!("{id}; its certificate is good for {days} days"),
        )
    };
    (Some(identity), found)
}

/// Whether a node that may not write its slots has somebody who does.
async fn helper(config: &Config, paths: &Paths) -> Option<Finding> {
    const CHECK: &str = "helper";
    let configured = &config.node;
    if configured.user.is_none() && configured.helper_socket.is_none() {
        return None;
    }
    let socket = configured.helper_socket.clone();
    let socket = socket.unwrap_or_else(|| DEFAULT_SOCKET.into());
    let owner = fs::metadata(paths.root()).map_or(0, |root| root.uid());
    let found = match Client::new(socket, owner).version().await {
        Ok(version) => Finding::good(CHECK, format!("it answers, and is {version}")),
        Err(ClientError::Denied) => {
            Finding::good(CHECK, "it answers, and serves the node's user alone")
        }
        Err(error) => Finding::wrong(
            CHECK,
            with_causes(&error),
            "start it as root (systemctl start bcd-helper.socket, or bcd exec helper); without it no release is installed",
        ),
    };
    Some(found)
}

/// That the fleet has removed this node: then nothing else keeps it from a session, however well it stands.
fn removed(paths: &Paths) -> Option<Finding> {
    let note = memory::session(paths).ok().flatten()?;
    note.removed.then(|| {
        Finding::wrong(
            SESSION,
            format!(
                "an operator has removed this node from the fleet: no gateway has a session with it any more (since {}), \
                 and nothing on this machine mends that",
                note.since
            ),
            format!(
                "if it is to be a node again: stop it, remove {}, run bcd join with a new token, and start it; \
                 otherwise stop it and remove the package",
                paths.identity().display()
            ),
        )
    })
}

/// The check of the session.
const SESSION: &str = "session";

fn session(paths: &Paths) -> Finding {
    const CHECK: &str = SESSION;
    let note = match memory::session(paths) {
        Ok(note) => note,
        Err(error) => return Finding::wrong(CHECK, error, "run bcd doctor as root"),
    };
    match note {
        Some(note) if note.connected => {
            let gateway = note.gateway.unwrap_or_default();
            Finding::good(CHECK, format!("with {gateway} since {}", note.since))
        }
        Some(note) if note.running => Finding::wrong(
            CHECK,
            format!(
                "none since {}: {}",
                note.since,
                note.lost.unwrap_or_default()
            ),
            "mend what is wrong above",
        ),
        Some(_) | None => Finding::wrong(
            CHECK,
            "the node does not run",
            "start it (systemctl start bcd, or bcd supervise)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use bc_protocol::{digest::Sha256, id::AttemptId, session::Slot};

    use super::*;
    use crate::updater::attempt::{Attempt, Ending};

    /// What the doctor makes of a last attempt that ended so.
    fn noted(outcome: Outcome, code: &str) -> Option<Finding> {
        let ending = Ending::new(outcome, code, format!("expected no {code}"));
        let begun = Attempt::begun(AttemptId::derived(&[b"one"]), "1.4.0");
        // Some ends are final only after several tries.
        let last = (0..10).fold(begun, |attempt, _| attempt.ended(ending.clone()));
        let record = Record::seeded(Slot::A, Sha256::of(b"packaged"));
        attempt(&record.noting(last).unwrap())
    }

    #[test]
    fn a_last_attempt_that_was_not_taken_is_worth_a_note_and_no_fault() {
        let wrong_pins = noted(Outcome::Refused, "threshold").unwrap();
        assert_eq!(
            (wrong_pins.good, wrong_pins.found.as_str()),
            (true, "1.4.0 was not taken: expected no threshold")
        );
        assert!(wrong_pins.mend.unwrap().contains("release_pins"));
        let full = noted(Outcome::Failed, "disk").unwrap();
        assert!(full.mend.unwrap().contains("retry the rollout"));
        // The release's own faults, and what is no fault.
        for outcome in [Outcome::Confirmed, Outcome::Crashed, Outcome::Cancelled] {
            assert_eq!(noted(outcome, "x"), None, "{outcome:?}");
        }
    }
}

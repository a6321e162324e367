//! The events that follow from facts.
//!
//! Takes what was known before and what is known now, writes an event where the two differ in a way that people want
//! to hear of. A repeated fact is no news.

use bc_protocol::{
    link::SessionOpened,
    session::{AttemptFacts, Facts, Outcome},
};
use serde_json::{Value, json};

use super::{Before, row::Presence};
use crate::{
    clock::Moment,
    db::Tx,
    event::outbox::{Draft, publish},
};

/// Tells that the node came or went, if it did.
pub(super) fn presence(tx: &mut Tx, before: &Before, after: Presence, now: Moment) {
    match (before.online, after) {
        (false, Presence::Online) => tell(tx, before, "node.online", json!({}), now),
        (true, Presence::Offline) => offline(tx, before, now),
        (true, Presence::Online) | (false, Presence::Offline) => {}
    }
}

/// Tells that the node went.
pub(super) fn offline(tx: &mut Tx, node: &Before, now: Moment) {
    tell(tx, node, "node.offline", json!({}), now);
}

/// Tells that two daemons use the credential of one node.
pub(super) fn duplicate(tx: &mut Tx, before: &Before, opened: &SessionOpened, now: Moment) {
    let data = json!({
        "connectSeq": opened.connect_seq,
        "bootId": opened.facts.boot_id,
        "hostname": opened.labels.get("hostname"),
    });
    tell(tx, before, "node.duplicate", data, now);
}

/// Tells how an attempt ended, once.
pub(super) fn attempts(tx: &mut Tx, before: &Before, facts: &Facts, now: Moment) {
    let has_ended =
        |attempt: &&AttemptFacts| attempt.is_final || attempt.outcome == Outcome::Confirmed;
    let Some(attempt) = facts.last_attempt.as_ref().filter(has_ended) else {
        return;
    };
    let known = before
        .attempt
        .as_ref()
        .is_some_and(|(id, ended)| *ended && id == attempt.id.as_str());
    if known {
        return;
    }
    if let Some(kind) = kind_of_end(attempt.outcome) {
        tell(tx, before, kind, particulars(before, facts, attempt), now);
    }
}

fn kind_of_end(outcome: Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Confirmed => Some("node.upgraded"),
        Outcome::Refused
        | Outcome::Failed
        | Outcome::Crashed
        | Outcome::Hung
        | Outcome::NoWelcome
        | Outcome::Unstable
        | Outcome::Environment => Some("node.upgrade-failed"),
        // Somebody wanted it so: an end, but no failure of anything.
        Outcome::Cancelled => None,
        Outcome::Running => None,
    }
}

fn particulars(before: &Before, facts: &Facts, attempt: &AttemptFacts) -> Value {
    json!({
        "attempt": attempt.id,
        "target": attempt.target,
        "version": facts.version,
        "versionBefore": before.version,
        "outcome": attempt.outcome.name(),
        "code": attempt.code,
        "message": attempt.message,
    })
}

fn tell(tx: &mut Tx, about: &Before, kind: &'static str, data: Value, now: Moment) {
    let subject = format!("node/{}", about.node);
    // The node itself is the cause: nobody asked it to come, go or fail.
    let draft = Draft {
        kind,
        actor: &subject,
        subject: subject.clone(),
        tenant: &about.tenant,
        data,
    };
    publish(tx, draft, now);
}

//! The events that follow from facts.
//!
//! Takes what was known before and what is known now, writes an event where the two differ in a way that people want
//! to hear of. A repeated fact is no news.

use std::collections::BTreeSet;

use bc_protocol::{
    id::NodeId,
    link::SessionOpened,
    session::{AttemptFacts, Facts, Outcome},
};
use serde_json::{Value, json};

use super::{Before, row::Presence};
use crate::{
    clock::Moment,
    db::{Bind as _, Tx, bulk::fetch_with_rows, column::parsed},
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

/// An attempt that has ended, and what was known before.
#[derive(Clone, Copy)]
pub(super) struct End<'a> {
    before: &'a Before,
    facts: &'a Facts,
    attempt: &'a AttemptFacts,
    kind: &'static str,
}

impl<'a> End<'a> {
    /// What there is to tell of a node's last attempt, unless the very same was reported before.
    pub(super) fn of(before: &'a Before, facts: &'a Facts) -> Option<Self> {
        let attempt = facts.last_attempt.as_ref()?;
        let has_ended = attempt.is_final || attempt.outcome == Outcome::Confirmed;
        let is_repeated = before
            .attempt
            .as_ref()
            .is_some_and(|(id, ended)| *ended && id == attempt.id.as_str());
        if !has_ended || is_repeated {
            return None;
        }
        let kind = kind_of_end(attempt.outcome)?;
        Some(Self {
            before,
            facts,
            attempt,
            kind,
        })
    }
}

/// Remembers ends of different nodes' attempts as told. Gives those nodes that have not told theirs before: a node may speak
/// of an older attempt again, after one that it has refused. An attempt that control has not given the node, or gave it long
/// ago, is told to nobody: whoever holds a node's credential could else make as many events as there are reports.
pub(super) async fn untold(tx: &mut Tx, ends: &[End<'_>]) -> Result<BTreeSet<NodeId>, sqlx::Error> {
    if ends.is_empty() {
        return Ok(BTreeSet::new());
    }
    let rows = ends.iter().map(|end| {
        [
            end.before.node.as_str().value(),
            end.attempt.id.as_str().value(),
        ]
    });
    let rows = fetch_with_rows(tx, REMEMBER, rows).await?;
    rows.iter().map(|row| parsed(row, "node_id")).collect()
}

/// Keeps eight of the longest ids: a node remembers one attempt, and may refuse some others before it speaks of that again.
/// An id that is cut at the list's end is like none. No more than eight may be told at any time, so that those who say them
/// round and round are heard once: the one of the section that the node is sent, three of the newest late rows, four of the
/// newest rows in rollouts. Of these the first is nearly always it, and the others are then not looked for.
const REMEMBER: &str = "
    INSERT INTO attempts_told (node_id, attempts)
    SELECT v.column1, substr(v.column2 || coalesce(' ' || t.attempts, ''), 1, 456)
    FROM {rows} JOIN nodes n ON n.id = v.column1 LEFT JOIN attempts_told t ON t.node_id = v.column1
    WHERE (t.node_id IS NULL
           OR replace(' ' || t.attempts || ' ', ' ' || v.column2 || ' ', '') = ' ' || t.attempts || ' ')
      AND (v.column2 = n.spec_attempt
           OR v.column2 IN (SELECT l.attempt FROM rollout_late l JOIN rollouts o ON o.id = l.rollout_id
                            WHERE l.node_id = n.id ORDER BY o.number DESC LIMIT 3)
           OR v.column2 IN (SELECT h.attempt
                            FROM (SELECT number FROM rollouts WHERE tenant = n.tenant
                                  ORDER BY created_at DESC, id DESC LIMIT 64) o
                            JOIN rollout_notes h ON h.rollout = o.number AND h.node = n.number
                            WHERE h.attempt IS NOT NULL ORDER BY h.rollout DESC LIMIT 4))
    ON CONFLICT (node_id) DO UPDATE SET attempts = excluded.attempts
    RETURNING node_id";

/// Tells how an attempt ended.
pub(super) fn ended(tx: &mut Tx, end: End<'_>, now: Moment) {
    let End {
        before,
        facts,
        attempt,
        kind,
    } = end;
    tell(tx, before, kind, particulars(before, facts, attempt), now);
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

//! The statements that write what a node says. Each carries its own condition, so that it is right whatever was read
//! before it.

use std::collections::BTreeMap;

use bc_protocol::{id::NodeId, session::Facts};

use super::{Session, Source};
use crate::{
    clock::Moment,
    db::{
        Tx,
        column::{json, signed, undecodable},
        query, query_scalar,
    },
    fleet::change::merged,
};

/// A report that may be newer than what is stored.
pub(super) struct Reported<'a> {
    pub(super) report: u64,
    pub(super) facts: &'a Facts,
    pub(super) json: String,
}

/// Stores a report if its connection and number are greater than the stored pair. Tells whether they were.
pub(super) async fn store_if_newer(
    tx: &mut Tx,
    from: Source<'_>,
    session: Session<'_>,
    reported: Reported<'_>,
) -> Result<bool, sqlx::Error> {
    let facts = reported.facts;
    let trial = facts.trial.as_ref();
    let attempt = facts.last_attempt.as_ref();
    let written = query(UPSERT)
        .bind(session.node.as_str())
        .bind(signed(session.connect_seq))
        .bind(signed(reported.report))
        .bind(session.id)
        .bind(from.gateway.as_str())
        .bind(from.link)
        .bind(from.now.millis())
        .bind(facts.version.as_str())
        .bind(signed(facts.sequence.get()))
        .bind(facts.digest.to_string())
        .bind(signed(facts.floor.sequence().get()))
        .bind(trial.map(|trial| trial.attempt.as_str()))
        .bind(attempt.map(|attempt| attempt.id.as_str()))
        .bind(attempt.map(|attempt| attempt.outcome.name()))
        .bind(attempt.map(|attempt| attempt.is_final))
        .bind(attempt.map(|attempt| attempt.code.as_str()))
        .bind(attempt.map(|attempt| attempt.message.as_str()))
        .bind(facts.held.as_deref())
        .bind(signed(facts.observed_generation))
        .bind(reported.json)
        .execute(&mut **tx)
        .await?;
    Ok(written.rows_affected() == 1)
}

/// A new session makes the node online, unless it is known to have ended already; a report of the stored one leaves
/// that as it is.
const UPSERT: &str = "
INSERT INTO node_facts (node_id, connect_seq, report, session_id, gateway_id, link, upgrade_only,
    online, since, version, sequence, digest, floor, trial_attempt, attempt_id, attempt_outcome,
    attempt_final, attempt_code, attempt_message, held, observed_generation, facts, reported_at)
VALUES ($1, $2, $3, $4, $5, $6, 0,
    (SELECT CASE WHEN ended_seq < $2 THEN 1 ELSE 0 END FROM nodes WHERE id = $1), $7, $8, $9, $10, $11, $12, $13, $14,
    $15, $16, $17, $18, $19, $20, $7)
ON CONFLICT (node_id) DO UPDATE SET
    connect_seq = excluded.connect_seq, report = excluded.report,
    session_id = excluded.session_id, gateway_id = excluded.gateway_id, link = excluded.link,
    upgrade_only = CASE WHEN excluded.connect_seq > node_facts.connect_seq THEN 0 ELSE node_facts.upgrade_only END,
    since = CASE WHEN excluded.connect_seq > node_facts.connect_seq AND node_facts.online <> excluded.online
                 THEN excluded.since ELSE node_facts.since END,
    online = CASE WHEN excluded.connect_seq > node_facts.connect_seq THEN excluded.online ELSE node_facts.online END,
    version = excluded.version, sequence = excluded.sequence, digest = excluded.digest,
    floor = excluded.floor, trial_attempt = excluded.trial_attempt,
    attempt_id = excluded.attempt_id, attempt_outcome = excluded.attempt_outcome,
    attempt_final = excluded.attempt_final, attempt_code = excluded.attempt_code,
    attempt_message = excluded.attempt_message, held = excluded.held,
    observed_generation = excluded.observed_generation, facts = excluded.facts,
    reported_at = excluded.reported_at
WHERE excluded.connect_seq > node_facts.connect_seq
   OR (excluded.connect_seq = node_facts.connect_seq AND excluded.session_id = node_facts.session_id
       AND excluded.report > node_facts.report)";

/// Notes what only the opening of a session tells, and that it lives: also after its gateway was not linked for a while.
pub(super) async fn name_session(
    tx: &mut Tx,
    from: Source<'_>,
    session: Session<'_>,
    upgrade_only: bool,
) -> Result<(), sqlx::Error> {
    query(
        "UPDATE node_facts SET gateway_id = $4, link = $5, upgrade_only = $6,
             since = CASE WHEN online = 0 AND (SELECT ended_seq < $2 FROM nodes WHERE id = $1)
                          THEN $7 ELSE since END,
             online = (SELECT CASE WHEN ended_seq < $2 THEN 1 ELSE 0 END FROM nodes WHERE id = $1)
         WHERE node_id = $1 AND connect_seq = $2 AND session_id = $3",
    )
    .bind(session.node.as_str())
    .bind(signed(session.connect_seq))
    .bind(session.id)
    .bind(from.gateway.as_str())
    .bind(from.link)
    .bind(upgrade_only)
    .bind(from.now.millis())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Takes the labels of a newer Hello. One without any says nothing about them.
pub(super) async fn refresh_labels(
    tx: &mut Tx,
    session: Session<'_>,
    labels: &BTreeMap<String, String>,
) -> Result<(), sqlx::Error> {
    if labels.is_empty() {
        return Ok(());
    }
    let set = query("SELECT set_labels FROM nodes WHERE id = $1 AND labels_seq < $2")
        .bind(session.node.as_str())
        .bind(signed(session.connect_seq))
        .fetch_optional(&mut **tx)
        .await?;
    let Some(set) = set else {
        return Ok(());
    };
    let both = merged(labels.clone(), &json(&set, "set_labels")?);
    let text = |labels: &BTreeMap<String, String>| {
        serde_json::to_string(labels).map_err(|error| undecodable("labels", error))
    };
    query("UPDATE nodes SET said_labels = $3, labels = $4, labels_seq = $2 WHERE id = $1")
        .bind(session.node.as_str())
        .bind(signed(session.connect_seq))
        .bind(text(labels)?)
        .bind(text(&both)?)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Remembers that a session has ended, so that a late or repeated opening does not bring it back.
pub(super) async fn end_session(tx: &mut Tx, session: Session<'_>) -> Result<(), sqlx::Error> {
    query(
        "UPDATE nodes SET ended_seq = $2 WHERE id = $1 AND ended_seq < $2 AND NOT EXISTS (
             SELECT 1 FROM node_facts
             WHERE node_id = $1 AND connect_seq = $2 AND session_id <> $3)",
    )
    .bind(session.node.as_str())
    .bind(signed(session.connect_seq))
    .bind(session.id)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Makes the node offline, unless a newer session holds it. Tells whether it was online.
pub(super) async fn go_offline(
    tx: &mut Tx,
    session: Session<'_>,
    now: Moment,
) -> Result<bool, sqlx::Error> {
    let written = query(
        "UPDATE node_facts SET online = 0, since = $4
         WHERE node_id = $1 AND online = 1
           AND (connect_seq < $2 OR (connect_seq = $2 AND session_id = $3))",
    )
    .bind(session.node.as_str())
    .bind(signed(session.connect_seq))
    .bind(session.id)
    .bind(now.millis())
    .execute(&mut **tx)
    .await?;
    Ok(written.rows_affected() == 1)
}

/// Makes every node offline that this gateway held and has not named on its present link.
pub(super) async fn unnamed_go_offline(
    tx: &mut Tx,
    from: Source<'_>,
) -> Result<Vec<NodeId>, sqlx::Error> {
    let nodes: Vec<String> = query_scalar(
        "UPDATE node_facts SET online = 0, since = $3
         WHERE gateway_id = $1 AND online = 1 AND link < $2 RETURNING node_id",
    )
    .bind(from.gateway.as_str())
    .bind(from.link)
    .bind(from.now.millis())
    .fetch_all(&mut **tx)
    .await?;
    nodes
        .iter()
        .map(|node| {
            node.parse()
                .map_err(|source| undecodable("node_id", source))
        })
        .collect()
}

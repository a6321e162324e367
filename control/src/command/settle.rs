//! What nodes say about their commands.
//!
//! Takes answers and facts in the transaction that applies them, ends the commands that they are about. An upgrade ends
//! by facts alone, and a restart by another start: no word of a node's is enough for either.

use std::collections::BTreeSet;

use bc_protocol::{
    command::{CommandResult, Kind},
    id::NodeId,
    link::CommandEnded,
    session::{Facts, Outcome},
};

use super::{
    dispatch::UpgradePayload,
    lifecycle::Happened,
    row::{self, Known, Words},
};
use crate::{
    clock::Moment,
    db::{
        Tx,
        column::{json, undecodable},
        query, query_scalar,
    },
};

/// Takes a node's answer. Tells whether it ended a command: then its lane is free.
pub(crate) async fn answer(
    tx: &mut Tx,
    ended: &CommandEnded,
    now: Moment,
) -> Result<bool, sqlx::Error> {
    let result = &ended.result;
    // What a superseded session says changes nothing: the node answers again in the newer one.
    let row = query(
        "SELECT c.id, c.node_id, c.tenant, c.kind, c.state, c.expires_at, c.payload, c.started, f.facts
         FROM commands c JOIN node_facts f ON f.node_id = c.node_id
         WHERE c.id = $1 AND c.node_id = $2 AND f.connect_seq = $3 AND f.session_id = $4",
    )
    .bind(result.id.as_str())
    .bind(ended.node.as_str())
    .bind(crate::db::column::signed(ended.connect_seq))
    .bind(ended.session.as_str())
    .fetch_optional(&mut *tx)
    .await?;
    let Some(row) = row else {
        return Ok(false);
    };
    let (known, facts) = (row::known(&row)?, json::<Facts>(&row, "facts")?);
    if result.succeeded && !is_shown(&known, &facts) {
        tracing::info!(command = %known.id, node = %known.node, kind = %known.kind,
            "the node says that it is done, and its facts do not show it yet");
        return Ok(false);
    }
    let happened = if result.succeeded {
        Happened::Did
    } else {
        let code = &result.code;
        Happened::DidNot { code }
    };
    row::happen(tx, &known, happened, words(result), now).await
}

fn words(result: &CommandResult) -> Words<'_> {
    Words {
        code: Some(&result.code),
        message: Some(&result.message),
        report: Some(&result.report[..]).filter(|report| !report.is_empty()),
    }
}

/// Whether facts show what a node says that it has done.
fn is_shown(known: &Known, facts: &Facts) -> bool {
    match known.kind {
        // Its own facts end it, together with the row that it is for.
        Kind::Upgrade => false,
        Kind::Restart => match (&known.started, &facts.started) {
            (Some(before), Some(now)) => *before != now.to_string(),
            // A daemon that does not name its starts is believed.
            (None, _) | (_, None) => true,
        },
        Kind::Diagnostics => true,
    }
}

/// Ends the upgrades that these nodes' newest facts end. Gives the nodes whose lane is free.
pub(crate) async fn facts(
    tx: &mut Tx,
    nodes: &BTreeSet<NodeId>,
    now: Moment,
) -> Result<Vec<NodeId>, sqlx::Error> {
    let mut free = Vec::new();
    if nodes.is_empty() || !any_upgrade(tx).await? {
        return Ok(free);
    }
    for node in nodes {
        let row = query(
            "SELECT c.id, c.node_id, c.tenant, c.kind, c.state, c.expires_at, c.payload, c.started, f.facts
             FROM commands c JOIN node_facts f ON f.node_id = c.node_id
             WHERE c.node_id = $1 AND c.kind = 'daemon.upgrade' AND c.state IN ('pending', 'dispatched')",
        )
        .bind(node.as_str())
        .fetch_optional(&mut *tx)
        .await?;
        let Some(row) = row else { continue };
        let (known, facts) = (row::known(&row)?, json::<Facts>(&row, "facts")?);
        if upgraded(tx, &known, &facts, now).await? {
            free.push(node.clone());
        }
    }
    Ok(free)
}

/// Whether any restart waits.
pub(crate) async fn restarts_wait(tx: &mut Tx) -> Result<bool, sqlx::Error> {
    let any: i64 = query_scalar(
        "SELECT count(*) FROM (SELECT 1 AS one FROM commands
             WHERE state IN ('pending', 'dispatched') AND state = 'pending'
               AND kind = 'daemon.restart' LIMIT 1) AS found",
    )
    .fetch_one(tx)
    .await?;
    Ok(any > 0)
}

async fn any_upgrade(tx: &mut Tx) -> Result<bool, sqlx::Error> {
    let any: i64 = query_scalar(
        "SELECT count(*) FROM (SELECT 1 AS one FROM commands
             WHERE kind = 'daemon.upgrade' AND state IN ('pending', 'dispatched') LIMIT 1) AS found",
    )
    .fetch_one(tx)
    .await?;
    Ok(any > 0)
}

async fn upgraded(
    tx: &mut Tx,
    known: &Known,
    facts: &Facts,
    now: Moment,
) -> Result<bool, sqlx::Error> {
    let payload: UpgradePayload =
        serde_json::from_str(&known.payload).map_err(|error| undecodable("payload", error))?;
    let attempt = facts
        .last_attempt
        .as_ref()
        .filter(|attempt| attempt.id == payload.attempt);
    let runs = facts.trial.is_none()
        && facts.version.as_str() == payload.version
        && facts.digest.to_string() == payload.sha256;
    match attempt {
        Some(attempt) if attempt.is_final && attempt.outcome != Outcome::Confirmed => {
            let words = Words {
                code: Some(&attempt.code),
                message: Some(&attempt.message),
                ..Words::default()
            };
            let code = &attempt.code;
            row::happen(tx, known, Happened::DidNot { code }, words, now).await
        }
        Some(attempt) if runs && attempt.outcome == Outcome::Confirmed => {
            let message = format!("{} runs, confirmed", payload.version);
            let words = Words {
                message: Some(&message),
                ..Words::default()
            };
            row::happen(tx, known, Happened::Did, words, now).await
        }
        Some(_) | None => Ok(false),
    }
}

//! Starts of a daemon that nobody asked for.
//!
//! Takes a session's opening, keeps when the daemon last started by itself, and the time before. One that starts with
//! another binary was upgraded, or went back; one that starts with the same has crashed, or its machine has, unless a
//! command is under way that asked for it.

use bc_protocol::link::SessionOpened;

use super::Before;
use crate::{
    clock::Moment,
    db::{Tx, column::signed, query},
};

/// Notes the start that a session belongs to, if it is another than the one that is known.
pub(super) async fn note(
    tx: &mut Tx,
    before: &Before,
    opened: &SessionOpened,
    now: Moment,
) -> Result<(), sqlx::Error> {
    let Some(started) = opened.facts.started.map(|started| started.to_string()) else {
        return Ok(());
    };
    if before.started.as_deref() == Some(&started) {
        return Ok(());
    }
    let same_binary = before.digest.as_deref() == Some(&opened.facts.digest.to_string());
    let by_itself = before.started.is_some() && same_binary && !is_asked_for(tx, before).await?;
    // Only by the session that counts.
    query(
        "UPDATE node_facts SET started = $3,
             restarted_before_at = CASE WHEN $4 = 1 THEN restarted_at ELSE restarted_before_at END,
             restarted_at = CASE WHEN $4 = 1 THEN $5 ELSE restarted_at END
         WHERE node_id = $1 AND connect_seq = $2",
    )
    .bind(opened.node.as_str())
    .bind(signed(opened.connect_seq))
    .bind(started)
    .bind(by_itself)
    .bind(now.millis())
    .execute(tx)
    .await?;
    Ok(())
}

/// Whether a command to start again is under way. It ends by the same fact, after it.
async fn is_asked_for(tx: &mut Tx, node: &Before) -> Result<bool, sqlx::Error> {
    let command = query(
        "SELECT id FROM commands WHERE node_id = $1 AND kind = 'daemon.restart' AND state = 'dispatched' LIMIT 1",
    )
    .bind(node.node.as_str())
    .fetch_optional(tx)
    .await?;
    Ok(command.is_some())
}

//! Starts of a daemon that nobody asked for.
//!
//! Takes a session's opening, keeps when the daemon last started by itself, and the time before. One that starts with
//! another binary was upgraded, or went back; one that starts with the same has crashed, or its machine has, unless a
//! command is under way that asked for it.
//!
//! Every start has a random name. One that comes back after another was there is no start at all: two daemons use the
//! credential of one node, and supersede each other for as long as both run.

use std::time::Duration;

use bc_protocol::link::SessionOpened;

use super::{Before, notice};
use crate::{
    clock::Moment,
    db::{Tx, column::signed, query},
};

/// Two of one node supersede each other every few seconds; people need not hear of each time.
const DUPLICATE_TOLD_EVERY: Duration = Duration::from_secs(3600);

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
        "UPDATE node_facts SET started = $3, started_before = started,
             restarted_before_at = CASE WHEN $4 = 1 THEN restarted_at ELSE restarted_before_at END,
             restarted_at = CASE WHEN $4 = 1 THEN $5 ELSE restarted_at END
         WHERE node_id = $1 AND connect_seq = $2",
    )
    .bind(opened.node.as_str())
    .bind(signed(opened.connect_seq))
    .bind(&started)
    .bind(by_itself)
    .bind(now.millis())
    .execute(&mut *tx)
    .await?;
    if before.started_before == Some(started) && duplicate_is_news(tx, opened, now).await? {
        notice::duplicate(tx, before, opened, now);
    }
    Ok(())
}

/// Whether people have not been told for a while.
async fn duplicate_is_news(
    tx: &mut Tx,
    opened: &SessionOpened,
    now: Moment,
) -> Result<bool, sqlx::Error> {
    let told = query(
        "UPDATE node_facts SET duplicate_told_at = $3
         WHERE node_id = $1 AND connect_seq = $2 AND (duplicate_told_at IS NULL OR duplicate_told_at <= $4)",
    )
    .bind(opened.node.as_str())
    .bind(signed(opened.connect_seq))
    .bind(now.millis())
    .bind(now.minus(DUPLICATE_TOLD_EVERY).millis())
    .execute(tx)
    .await?;
    Ok(told.rows_affected() == 1)
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

//! Rows of commands, read and written.
//!
//! Whatever changes a row goes through [`happen`]: it names the state that it was decided by, so that what was read
//! before somebody else's change writes nothing.

use bc_protocol::{
    command::Kind,
    id::{CommandId, NodeId},
};
use serde_json::json;
use thiserror::Error;

use super::lifecycle::{Happened, Open};
use crate::{
    api::command::{Command, CommandState},
    clock::Moment,
    db::{
        Conn, Row, Tx,
        column::{json as column_json, moment, moment_option, parsed, undecodable},
        query,
    },
    event::outbox::{CONTROL, Draft, publish},
};

/// Why control ended an upgrade: the node is to run something else.
pub(super) const REPLACED: &str = "replaced";

/// Why control ended an upgrade: the node hears of its section in its spec.
pub(super) const NOT_NEEDED: &str = "not-needed";

/// A command about which something is to be decided.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) id: CommandId,
    pub(super) node: NodeId,
    pub(super) kind: Kind,
    pub(super) state: CommandState,
    pub(super) expires_at: Moment,
    /// As JSON.
    pub(super) payload: String,
    /// The start that it was dispatched to.
    pub(super) started: Option<String>,
    tenant: String,
}

/// What is said about an end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Words<'a> {
    pub(super) code: Option<&'a str>,
    pub(super) message: Option<&'a str>,
    pub(super) report: Option<&'a [u8]>,
}

/// A word of a row that this build does not know.
#[derive(Debug, Error)]
#[error("expected a command's state, found \"{0}\"")]
struct UnknownState(String);

impl Known {
    pub(super) fn open(&self) -> Open {
        Open {
            id: self.id.clone(),
            kind: self.kind,
            state: self.state,
            expires_at: self.expires_at,
        }
    }
}

/// A node's open commands, in order.
pub(super) async fn open(conn: &mut Conn, node: &NodeId) -> Result<Vec<Known>, sqlx::Error> {
    let rows = query(
        "SELECT id, node_id, tenant, kind, state, expires_at, payload, started FROM commands
         WHERE node_id = $1 AND state IN ('pending', 'dispatched') ORDER BY number",
    )
    .bind(node.as_str())
    .fetch_all(conn)
    .await?;
    rows.iter().map(known).collect()
}

/// One of [`Known`].
pub(super) fn known(row: &Row) -> Result<Known, sqlx::Error> {
    Ok(Known {
        id: parsed(row, "id")?,
        node: parsed(row, "node_id")?,
        kind: parsed(row, "kind")?,
        state: state(row)?,
        expires_at: moment(row, "expires_at")?,
        payload: row.try_get("payload")?,
        started: row.try_get("started")?,
        tenant: row.try_get("tenant")?,
    })
}

fn state(row: &Row) -> Result<CommandState, sqlx::Error> {
    let word: &str = row.try_get("state")?;
    CommandState::from_word(word).ok_or_else(|| undecodable("state", UnknownState(word.to_owned())))
}

/// A command as the API gives it.
pub(super) fn shown(row: &Row, report: Option<Vec<u8>>) -> Result<Command, sqlx::Error> {
    let kind: Kind = parsed(row, "kind")?;
    Ok(Command {
        id: parsed(row, "id")?,
        node_id: parsed(row, "node_id")?,
        kind,
        lane: kind.lane(),
        payload: column_json(row, "payload")?,
        idempotency_key: row.try_get("idempotency")?,
        state: state(row)?,
        expires_at: moment(row, "expires_at")?,
        created_at: moment(row, "created_at")?,
        created_by: row.try_get("created_by")?,
        dispatched_at: moment_option(row, "dispatched_at")?,
        finished_at: moment_option(row, "finished_at")?,
        code: row.try_get("code")?,
        message: row.try_get("message")?,
        report: report.map(|report| String::from_utf8_lossy(&report).into_owned()),
    })
}

/// Lets something happen to a command, and tells whether it changed anything.
pub(super) async fn happen(
    tx: &mut Tx,
    known: &Known,
    happened: Happened<'_>,
    words: Words<'_>,
    now: Moment,
) -> Result<bool, sqlx::Error> {
    let Some(after) = known.state.after(&happened) else {
        return Ok(false);
    };
    let due_at = match after {
        CommandState::Dispatched => now.plus(known.kind.timeout()),
        CommandState::Pending
        | CommandState::Succeeded
        | CommandState::Failed
        | CommandState::Expired
        | CommandState::TimedOut => known.expires_at,
    };
    let dispatched = (after == CommandState::Dispatched).then(|| now.millis());
    let finished = (!after.is_open()).then(|| now.millis());
    let written = query(
        "UPDATE commands SET state = $3, due_at = $4, dispatched_at = coalesce($5, dispatched_at),
             finished_at = $6, code = $7, message = $8, report = $9
         WHERE id = $1 AND state = $2",
    )
    .bind(known.id.as_str())
    .bind(known.state.word())
    .bind(after.word())
    .bind(due_at.millis())
    .bind(dispatched)
    .bind(finished)
    .bind(words.code.filter(|code| !code.is_empty()))
    .bind(words.message)
    .bind(words.report.map(<[u8]>::to_vec))
    .execute(&mut *tx)
    .await?;
    let changed = written.rows_affected() == 1;
    if changed && !after.is_open() {
        tell_end(tx, known, after, words, now)?;
    }
    Ok(changed)
}

fn tell_end(
    tx: &mut Tx,
    known: &Known,
    state: CommandState,
    words: Words<'_>,
    now: Moment,
) -> Result<(), sqlx::Error> {
    let tenant = known
        .tenant
        .parse()
        .map_err(|error| undecodable("tenant", error))?;
    let draft = Draft {
        kind: "command.ended",
        subject: format!("node/{}", known.node),
        tenant: &tenant,
        actor: CONTROL,
        data: json!({
            "commandId": known.id,
            "kind": known.kind,
            "state": state,
            "code": words.code.unwrap_or_default(),
            "message": words.message.unwrap_or_default(),
        }),
    };
    publish(tx, draft, now);
    tracing::info!(command = %known.id, node = %known.node, kind = %known.kind, state = state.word(),
        message = words.message.unwrap_or_default(), "a command ended");
    Ok(())
}

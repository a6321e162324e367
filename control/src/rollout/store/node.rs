//! A node as a pass sees it, read from its row and its facts.

use bc_protocol::{id::AttemptId, sequence::ReleaseFloor, session::Outcome};
use serde::de::IntoDeserializer as _;

use crate::{
    api::rollout::RowState,
    db::{
        self,
        column::{moment, moment_option, number, parsed, parsed_option, undecodable},
    },
    rollout::snapshot::{AttemptSaid, Node, Presence, Read, Row, Said, Trouble},
};

/// The columns that [`node`] reads, of `nodes` as `n` and `node_facts` as `f`.
macro_rules! node_columns {
    () => {
        "n.id AS node_id, n.number, n.pool_id, n.removed_at, n.maintenance, n.joined_at, n.generation, n.spec_attempt,
         json_extract(n.labels, '$.\"cpu.arch\"') AS arch,
         f.online, f.since, f.version, f.floor, f.trial_attempt, f.attempt_id, f.attempt_outcome, f.attempt_final,
         f.attempt_code, f.attempt_message, f.held, f.observed_generation, f.upgrade_only,
         json_extract(f.facts, '$.progress.attempt') AS working_on "
    };
}
pub(super) use node_columns;

/// The columns of a late flight, of its row as `r`.
macro_rules! flight_columns {
    () => {
        concat!(
            "r.state, r.attempt, r.from_version, r.deadline_at, r.error_code, r.error, ",
            $crate::rollout::store::node::node_columns!()
        )
    };
}
pub(super) use flight_columns;

/// The columns that [`row`] and [`node`] read, of `rollout_rows` as `r` and `rollout_notes` as `h`.
macro_rules! columns {
    () => {
        concat!(
            "r.place, r.wave, r.state, r.packed, r.deadline_at, h.attempt, h.from_version, h.error_code, h.error, ",
            $crate::rollout::store::node::node_columns!()
        )
    };
}
pub(super) use columns;

/// What the columns of a row are read from, once `r` is found.
macro_rules! joined {
    () => {
        "JOIN nodes n ON n.number = r.node
         LEFT JOIN rollout_notes h ON h.rollout = r.rollout AND h.node = r.node
         LEFT JOIN node_facts f ON f.node_id = n.id "
    };
}
pub(super) use joined;

/// A row's address and state.
pub(super) fn row(row: &db::Row) -> Result<Row, sqlx::Error> {
    Ok(Row {
        place: number(row, "place")?,
        wave: number(row, "wave")?,
        node: parsed(row, "node_id")?,
        number: row.try_get("number")?,
        pool: parsed(row, "pool_id")?,
        state: state(row)?,
    })
}

/// A row's state.
pub(super) fn state(row: &db::Row) -> Result<RowState, sqlx::Error> {
    let word: &str = row.try_get("state")?;
    RowState::from_word(word).ok_or_else(|| undecodable("state", UnknownWord(word.to_owned())))
}

/// A row's error.
pub(super) fn trouble(row: &db::Row) -> Result<Option<Trouble>, sqlx::Error> {
    let code: Option<String> = row.try_get("error_code")?;
    let message: Option<String> = row.try_get("error")?;
    Ok(code.map(|code| Trouble::new(code, message.unwrap_or_default())))
}

/// The node of a row.
pub(super) fn node(row: &db::Row) -> Result<Node, sqlx::Error> {
    let online: Option<bool> = row.try_get("online")?;
    let presence = match online {
        Some(true) => Presence::Online,
        Some(false) => Presence::Offline(moment(row, "since")?),
        None => Presence::Offline(moment(row, "joined_at")?),
    };
    Ok(Node {
        id: parsed(row, "node_id")?,
        removed: moment_option(row, "removed_at")?.is_some(),
        maintenance: row.try_get("maintenance")?,
        arch: row.try_get("arch")?,
        presence,
        said: online.map(|_| said(row)).transpose()?,
    })
}

fn said(row: &db::Row) -> Result<Said, sqlx::Error> {
    let floor: u64 = number(row, "floor")?;
    let sequence = floor
        .try_into()
        .map_err(|source| undecodable("floor", source))?;
    // A node has read a spec once it has observed its generation; before that it may know an older one.
    let has_read = number::<u64>(row, "observed_generation")? >= number::<u64>(row, "generation")?;
    let newest: Option<AttemptId> = parsed_option(row, "spec_attempt")?;
    Ok(Said {
        version: parsed(row, "version")?,
        floor: ReleaseFloor::starting_at(sequence),
        trial: parsed_option(row, "trial_attempt")?,
        working_on: parsed_option(row, "working_on")?,
        read: match (has_read, row.try_get("upgrade_only")?) {
            (false, _) => Read::Behind,
            (true, false) => Read::Newest(newest),
            (true, true) => Read::Commanded(newest),
        },
        attempt: attempt(row)?,
        held: row.try_get("held")?,
    })
}

fn attempt(row: &db::Row) -> Result<Option<AttemptSaid>, sqlx::Error> {
    let Some(id) = parsed_option(row, "attempt_id")? else {
        return Ok(None);
    };
    let code: Option<String> = row.try_get("attempt_code")?;
    let message: Option<String> = row.try_get("attempt_message")?;
    let code = code.filter(|code| !code.is_empty());
    Ok(Some(AttemptSaid {
        id,
        outcome: outcome(row)?,
        is_final: row
            .try_get::<Option<bool>>("attempt_final")?
            .unwrap_or(false),
        trouble: code.map(|code| Trouble::new(code, message.unwrap_or_default())),
    }))
}

fn outcome(row: &db::Row) -> Result<Outcome, sqlx::Error> {
    use serde::Deserialize as _;
    let word: &str = row.try_get("attempt_outcome")?;
    Outcome::deserialize(word.into_deserializer())
        .map_err(|source: serde::de::value::Error| undecodable("attempt_outcome", source))
}

/// A word of the database that this build does not know.
#[derive(Debug, thiserror::Error)]
#[error("expected a word that this build knows, found \"{0}\"")]
pub(super) struct UnknownWord(pub String);

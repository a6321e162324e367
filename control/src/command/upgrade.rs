//! The one upgrade of a node that is too old for specs.
//!
//! Takes the section that the node is to have, leaves one open command that brings it, or none where nothing is left to
//! be brought. It decides by facts: what the node runs, and which attempt it has given up.

use bc_protocol::{
    command::Kind,
    id::NodeId,
    session::{Facts, Outcome},
    spec::DaemonSection,
};
use serde_json::json;

use super::{
    dispatch::{Session, UpgradePayload},
    lifecycle::Happened,
    limits,
    row::{self, Known, NOT_NEEDED, REPLACED, Words},
    store::{Draught, with_key, write},
};
use crate::{
    api::command::CommandState,
    clock::Moment,
    db::{Row, Tx, column::undecodable, query},
    event::outbox::CONTROL,
    spec::compute::{Origin, Way},
};

/// Leaves one open upgrade for this section. Tells whether it changed anything.
pub(super) async fn ensure(
    tx: &mut Tx,
    node: &NodeId,
    session: &Session,
    wanted: Option<&(DaemonSection, Origin)>,
    now: Moment,
) -> Result<bool, sqlx::Error> {
    let wanted = wanted.filter(|(section, _)| is_work(&session.facts, section));
    let payload = wanted.map(|(section, _)| UpgradePayload {
        version: section.version.to_string(),
        sha256: section.sha256.to_string(),
        attempt: section.attempt.clone(),
    });
    let newest = newest(tx, node).await?;
    let same = |known: &Known| {
        serde_json::from_str::<UpgradePayload>(&known.payload)
            .ok()
            .as_ref()
            == payload.as_ref()
    };
    let mut changed = false;
    if let Some(Newest { known, taken_back }) = &newest {
        match (known.state, same(known)) {
            // Control took it back, and it is wanted again: nothing was ever said about it.
            (CommandState::Failed, true) if *taken_back => {}
            // It goes on, or it has ended for good: facts say no, or yes, under this very attempt.
            (
                CommandState::Pending
                | CommandState::Dispatched
                | CommandState::Succeeded
                | CommandState::Failed,
                true,
            ) => return Ok(false),
            (CommandState::Pending | CommandState::Dispatched, false) => {
                let words = Words {
                    code: Some(REPLACED),
                    message: Some("the node is to run something else by now"),
                    ..Words::default()
                };
                changed = row::happen(tx, known, Happened::Withdrawn, words, now).await?;
            }
            (CommandState::Expired | CommandState::TimedOut, true | false)
            | (CommandState::Succeeded | CommandState::Failed, false) => {}
        }
    }
    let (Some((_, origin)), Some(payload)) = (wanted, payload) else {
        return Ok(changed);
    };
    let Some(key) = free_key(tx, node, origin).await? else {
        tracing::error!(%node, rollout = %origin.rollout, "an upgrade was tried too often");
        return Ok(changed);
    };
    let draught = Draught {
        tenant: &session
            .tenant
            .parse()
            .map_err(|error| undecodable("tenant", error))?,
        node,
        kind: Kind::Upgrade,
        payload: json!(payload),
        key: &key,
        life: limits::UPGRADE_LIFE,
        actor: CONTROL,
    };
    write(tx, &draught, now).await?;
    Ok(true)
}

/// Whether the section differs from what the node runs, or from what it has been answered, and is not given up.
fn is_work(facts: &Facts, section: &DaemonSection) -> bool {
    let runs =
        facts.version == section.version && facts.digest == section.sha256 && facts.trial.is_none();
    let attempt = facts
        .last_attempt
        .as_ref()
        .filter(|attempt| attempt.id == section.attempt);
    let given_up =
        attempt.is_some_and(|attempt| attempt.is_final && attempt.outcome != Outcome::Confirmed);
    // One that runs it and was never asked under this attempt has yet to answer that.
    !given_up && (!runs || attempt.is_none())
}

/// The upgrade that a node was sent last.
struct Newest {
    known: Known,
    /// Whether control itself ended it, so that its end says nothing of the node.
    taken_back: bool,
}

async fn newest(tx: &mut Tx, node: &NodeId) -> Result<Option<Newest>, sqlx::Error> {
    let row = query(
        "SELECT id, node_id, tenant, kind, state, expires_at, payload, started, code FROM commands
         WHERE node_id = $1 AND kind = 'daemon.upgrade' ORDER BY number DESC LIMIT 1",
    )
    .bind(node.as_str())
    .fetch_optional(tx)
    .await?;
    let newest = |row| {
        let code: Option<String> = Row::try_get(row, "code")?;
        Ok(Newest {
            known: row::known(row)?,
            taken_back: matches!(code.as_deref(), Some(REPLACED | NOT_NEEDED)),
        })
    };
    row.as_ref().map(newest).transpose()
}

/// `rollout:<rollout>:<node>` with the way, and a number where that is taken by one that ended without a word.
async fn free_key(
    tx: &mut Tx,
    node: &NodeId,
    origin: &Origin,
) -> Result<Option<String>, sqlx::Error> {
    let way = match origin.way {
        Way::There => "",
        Way::Late => ":late",
        Way::Back => ":rollback",
    };
    let base = format!("rollout:{}:{node}{way}", origin.rollout);
    if with_key(tx, node, &base).await?.is_none() {
        return Ok(Some(base));
    }
    for number in 2..=limits::UPGRADE_TRIES_MAX {
        let key = format!("{base}:{number}");
        if with_key(tx, node, &key).await?.is_none() {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

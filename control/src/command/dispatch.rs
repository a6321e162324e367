//! What a node's session is to be sent now.
//!
//! Takes a node, leaves its rows as its session allows, gives the commands to send after the commit. It never sends what
//! is not committed, and what it gives may be sent again at any time: the node remembers.

use bc_protocol::{
    command::{self, Kind, Order},
    id::{AttemptId, CommandId, NodeId},
    link::CommandPush,
    session::Facts,
    spec::DaemonSection,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{
    lifecycle::{Carries, Happened, Plan, plan},
    limits,
    row::{self, Known, NOT_NEEDED, Words},
    upgrade,
};
use crate::{
    clock::Moment,
    db::{
        Db, Row, Tx,
        column::{json, number, parsed, undecodable},
        contention::{lock_nodes, retried},
        query,
    },
    rollout::service::Services,
    spec::{
        compute::Origin,
        store::{SpecError, desired},
    },
};

/// Why commands cannot be dispatched.
#[derive(Debug, Error)]
pub(crate) enum DispatchError {
    /// The database failed.
    #[error("the database failed")]
    Sql(#[from] sqlx::Error),
    /// The section that an upgrade would bring.
    #[error("the section cannot be computed")]
    Spec(#[from] SpecError),
}

/// What is kept of an upgrade: the section itself is computed whenever it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UpgradePayload {
    pub(super) version: String,
    pub(super) sha256: String,
    pub(super) attempt: AttemptId,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiagnosticsPayload {
    #[serde(default)]
    collect: Vec<String>,
}

/// A node's session, as its rows have it.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) connect_seq: u64,
    pub(super) carries: Carries,
    pub(super) facts: Facts,
    pub(super) tenant: String,
}

/// Leaves a node's commands as its session allows, and gives what it is to be sent.
pub(crate) async fn for_session(
    services: &Services,
    node: &NodeId,
) -> Result<Vec<CommandPush>, DispatchError> {
    let Some(carries) = glance(&services.db, node).await? else {
        return Ok(Vec::new());
    };
    let section = match carries {
        Carries::Everything | Carries::ButRestarts => None,
        Carries::Upgrades => {
            let (trust, url) = (&services.trust, &services.downloads_url);
            desired(&services.db, node, trust, url).await?
        }
    };
    let wanted = (carries, section.as_ref());
    retried(|| under_lock(services, node, wanted)).await
}

async fn under_lock(
    services: &Services,
    node: &NodeId,
    (carries, section): (Carries, Option<&(DaemonSection, Origin)>),
) -> Result<Vec<CommandPush>, DispatchError> {
    let mut tx = services.db.begin().await?;
    lock_nodes(&mut tx, [node]).await?;
    // The time is taken under the lock: nothing that waited for it is younger.
    let now = Moment::now();
    let Some(session) = session(&mut tx, node).await? else {
        return Ok(Vec::new());
    };
    // Turned since: what it has turned into is told on the way that told it.
    if session.carries != carries {
        return Ok(Vec::new());
    }
    let changed = match carries {
        Carries::Everything | Carries::ButRestarts => false,
        Carries::Upgrades => upgrade::ensure(&mut tx, node, &session, section, now).await?,
    };
    let carries = match (carries, &session.facts.trial) {
        (Carries::Everything, Some(_)) => Carries::ButRestarts,
        (Carries::Everything | Carries::ButRestarts | Carries::Upgrades, _) => carries,
    };
    let open = row::open(&mut tx, node).await?;
    let plan = plan(
        &open.iter().map(Known::open).collect::<Vec<_>>(),
        carries,
        now,
    );
    apply(&mut tx, &plan, (&open, &session.facts), now).await?;
    let section = section.map(|(section, _)| section);
    let mut sent = Vec::new();
    for known in plan.send.iter().filter_map(|id| find(&open, id)) {
        let order = order(known, section)?;
        sent.extend(order.map(|order| push(known, &session, order)));
    }
    if changed || !plan.changes_nothing() {
        tx.commit().await?;
        services.deadlines.wake_here();
    }
    Ok(sent)
}

fn find<'a>(open: &'a [Known], id: &CommandId) -> Option<&'a Known> {
    open.iter().find(|known| known.id == *id)
}

/// Changes the rows as planned.
async fn apply(
    tx: &mut Tx,
    plan: &Plan,
    (open, facts): (&[Known], &Facts),
    now: Moment,
) -> Result<(), sqlx::Error> {
    for known in plan.call_back.iter().filter_map(|id| find(open, id)) {
        row::happen(tx, known, Happened::CalledBack, Words::default(), now).await?;
    }
    for known in plan.withdraw.iter().filter_map(|id| find(open, id)) {
        let words = Words {
            code: Some(NOT_NEEDED),
            message: Some("the node takes its desired state over its session again"),
            ..Words::default()
        };
        row::happen(tx, known, Happened::Withdrawn, words, now).await?;
    }
    for known in plan.begin.iter().filter_map(|id| find(open, id)) {
        row::happen(tx, known, Happened::Sent, Words::default(), now).await?;
        note_start(tx, known, facts).await?;
    }
    Ok(())
}

/// Nodes with commands that wait. The first condition is the index's own.
pub(crate) async fn waiting(db: &Db) -> Result<Vec<NodeId>, sqlx::Error> {
    let rows = query(
        "SELECT DISTINCT node_id FROM commands
         WHERE state IN ('pending', 'dispatched') AND state = 'pending' LIMIT $1",
    )
    .bind(limits::WAITING_MAX)
    .fetch_all(db.reader())
    .await?;
    rows.iter().map(|row| parsed(row, "node_id")).collect()
}

/// What the node's session carries, if there may be anything to do for it. It takes no lock: in a storm of returning
/// nodes most have nothing open.
async fn glance(db: &Db, node: &NodeId) -> Result<Option<Carries>, sqlx::Error> {
    let row = query(
        "SELECT f.upgrade_only, EXISTS (SELECT 1 FROM commands
                WHERE node_id = f.node_id AND state IN ('pending', 'dispatched')) AS busy
         FROM node_facts f WHERE f.node_id = $1 AND f.online = 1",
    )
    .bind(node.as_str())
    .fetch_optional(db.reader())
    .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let busy: bool = row.try_get("busy")?;
    Ok(match carries(&row)? {
        Carries::Everything if !busy => None,
        carries @ (Carries::Everything | Carries::ButRestarts | Carries::Upgrades) => Some(carries),
    })
}

async fn session(tx: &mut Tx, node: &NodeId) -> Result<Option<Session>, sqlx::Error> {
    let row = query(
        "SELECT f.upgrade_only, f.connect_seq, f.facts, n.tenant
         FROM node_facts f JOIN nodes n ON n.id = f.node_id
         WHERE f.node_id = $1 AND f.online = 1 AND n.removed_at IS NULL",
    )
    .bind(node.as_str())
    .fetch_optional(tx)
    .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    Ok(Some(Session {
        connect_seq: number(&row, "connect_seq")?,
        carries: carries(&row)?,
        facts: json(&row, "facts")?,
        tenant: row.try_get("tenant")?,
    }))
}

fn carries(row: &Row) -> Result<Carries, sqlx::Error> {
    let upgrade_only: bool = row.try_get("upgrade_only")?;
    Ok(if upgrade_only {
        Carries::Upgrades
    } else {
        Carries::Everything
    })
}

async fn note_start(tx: &mut Tx, known: &Known, facts: &Facts) -> Result<(), sqlx::Error> {
    // Once: a command that was called back and is sent again may have had its effect in between.
    query("UPDATE commands SET started = coalesce(started, $2) WHERE id = $1")
        .bind(known.id.as_str())
        .bind(facts.started.map(|start| start.to_string()))
        .execute(tx)
        .await?;
    Ok(())
}

/// The order of a row; none for an upgrade whose section is another by now, which is replaced when that is known.
fn order(known: &Known, section: Option<&DaemonSection>) -> Result<Option<Order>, sqlx::Error> {
    let unreadable = |error| undecodable("payload", error);
    Ok(match known.kind {
        Kind::Restart => Some(Order::Restart),
        Kind::Diagnostics => {
            let DiagnosticsPayload { collect } =
                serde_json::from_str(&known.payload).map_err(unreadable)?;
            Some(Order::Diagnostics { collect })
        }
        Kind::Upgrade => {
            let payload: UpgradePayload =
                serde_json::from_str(&known.payload).map_err(unreadable)?;
            section
                .filter(|section| section.attempt == payload.attempt)
                .cloned()
                .map(Order::Upgrade)
        }
    })
}

fn push(known: &Known, session: &Session, order: Order) -> CommandPush {
    CommandPush {
        node: known.node.clone(),
        connect_seq: session.connect_seq,
        command: Ok(command::Command {
            id: known.id.clone(),
            expires_at_ms: known.expires_at.millis(),
            order,
        }),
    }
}

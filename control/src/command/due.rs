//! Commands whose time is over.
//!
//! Waits for the next deadline that a row has, or for the news that there may be an earlier one, and ends what is over.
//! It looks at those rows and no others: an index has the open ones by their deadline.

use std::{collections::BTreeSet, time::Duration};

use bc_protocol::id::NodeId;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{
    lifecycle::Happened,
    limits,
    row::{self, Words},
};
use crate::{
    api::command::CommandState,
    clock::Moment,
    db::{
        Db,
        column::moment,
        contention::{lock_nodes, retried},
        query,
    },
    metrics::Work,
    rollout::service::Services,
};

/// Starts the loop. It ends after `stop` is cancelled, between two passes.
pub(crate) fn spawn(services: Services, stop: CancellationToken) -> JoinHandle<()> {
    tokio::spawn(async move {
        while !stop.is_cancelled() {
            let rest = match pass(&services, Moment::now()).await {
                Ok(next) => next.map_or(limits::DUE_LOOK, |at| at.since(Moment::now())),
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::error!(error, "overdue commands cannot be ended");
                    services.metrics.has_failed(&Work::COMMANDS);
                    limits::DUE_LOOK
                }
            };
            let rest = rest.clamp(Duration::from_millis(1), limits::DUE_LOOK);
            tokio::select! {
                () = services.deadlines.woken() => {}
                () = tokio::time::sleep(rest) => {}
                () = stop.cancelled() => {}
            }
        }
    })
}

/// Ends what is over, tells whoever dispatches, and gives the next deadline.
pub(crate) async fn pass(services: &Services, now: Moment) -> Result<Option<Moment>, sqlx::Error> {
    let free = retried(|| end(&services.db, now)).await?;
    services.tell_commanded(free);
    retried(|| withdraw(&services.db, now)).await?;
    next(&services.db).await
}

/// Ends what is over. Gives the nodes whose lanes may be free.
async fn end(db: &Db, now: Moment) -> Result<Vec<NodeId>, sqlx::Error> {
    if next(db).await?.is_none_or(|next| next > now) {
        return Ok(Vec::new());
    }
    let mut tx = db.begin().await?;
    let rows = query(
        "SELECT id, node_id, tenant, kind, state, expires_at, payload, started FROM commands
         WHERE state IN ('pending', 'dispatched') AND due_at <= $1 ORDER BY due_at LIMIT $2",
    )
    .bind(now.millis())
    .bind(limits::DUE_MAX)
    .fetch_all(&mut tx)
    .await?;
    let over = rows.iter().map(row::known).collect::<Result<Vec<_>, _>>()?;
    let nodes: BTreeSet<NodeId> = over.iter().map(|known| known.node.clone()).collect();
    lock_nodes(&mut tx, &nodes).await?;
    for known in over {
        let (code, message) = match known.state {
            CommandState::Dispatched => (
                "timeout",
                format!(
                    "nobody heard of its end within {} s",
                    known.kind.timeout().as_secs()
                ),
            ),
            CommandState::Pending
            | CommandState::Succeeded
            | CommandState::Failed
            | CommandState::Expired
            | CommandState::TimedOut => (
                "expired",
                format!("it was not begun before {}", known.expires_at),
            ),
        };
        let words = Words {
            code: Some(code),
            message: Some(&message),
            ..Words::default()
        };
        // One that has moved on meanwhile is in another state, and stays as it is.
        row::happen(&mut tx, &known, Happened::TimeIsUp, words, now).await?;
    }
    tx.commit().await?;
    Ok(nodes.into_iter().collect())
}

/// Ends what removed nodes were to do: nobody is left to do it.
async fn withdraw(db: &Db, now: Moment) -> Result<(), sqlx::Error> {
    let left = query(OF_REMOVED)
        .bind(limits::DUE_MAX)
        .fetch_all(db.reader())
        .await?;
    if left.is_empty() {
        return Ok(());
    }
    let mut tx = db.begin().await?;
    let rows = query(OF_REMOVED)
        .bind(limits::DUE_MAX)
        .fetch_all(&mut tx)
        .await?;
    let open = rows.iter().map(row::known).collect::<Result<Vec<_>, _>>()?;
    let nodes: BTreeSet<NodeId> = open.iter().map(|known| known.node.clone()).collect();
    lock_nodes(&mut tx, &nodes).await?;
    for known in open {
        let words = Words {
            code: Some("removed"),
            message: Some("its node was removed"),
            ..Words::default()
        };
        row::happen(&mut tx, &known, Happened::Withdrawn, words, now).await?;
    }
    tx.commit().await
}

const OF_REMOVED: &str = "
    SELECT c.id, c.node_id, c.tenant, c.kind, c.state, c.expires_at, c.payload, c.started
    FROM commands c JOIN nodes n ON n.id = c.node_id
    WHERE c.state IN ('pending', 'dispatched') AND n.removed_at IS NOT NULL ORDER BY c.id LIMIT $1";

async fn next(db: &Db) -> Result<Option<Moment>, sqlx::Error> {
    let row = query(
        "SELECT due_at FROM commands WHERE state IN ('pending', 'dispatched')
         ORDER BY due_at LIMIT 1",
    )
    .fetch_optional(db.reader())
    .await?;
    row.as_ref().map(|row| moment(row, "due_at")).transpose()
}

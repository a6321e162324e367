//! Gateways that do not come back.
//!
//! A link that ends says nothing about its gateway's sessions: most often the gateway dials again and names them. One
//! that has not for a while is gone, and its sessions with it, unless control itself is cut off from everybody: then
//! nobody can tell.

use std::{sync::Arc, time::Duration};

use bc_protocol::{id::GatewayId, link::Event};
use tokio_util::sync::CancellationToken;

use super::{
    Shared,
    limits::{LOST_AFTER, LOST_LOOK},
};
use crate::{
    clock::Moment,
    db::{Db, column::undecodable, query_scalar},
    fleet::facts::{self, FactsError},
    metrics::Work,
};

/// Looks for such gateways until it is told to stop.
pub(super) async fn watch(shared: Arc<Shared>, stop: CancellationToken) {
    let look = async {
        loop {
            tokio::time::sleep(LOST_LOOK).await;
            if let Err(error) = look(&shared, LOST_AFTER).await {
                let error: &dyn std::error::Error = &error;
                tracing::error!(error, "lost gateways cannot be looked for");
                shared.services.metrics.has_failed(&Work::LOST_GATEWAYS);
            }
        }
    };
    stop.run_until_cancelled(look).await;
}

/// Ends the sessions of gateways that have had no link for `after`.
pub(super) async fn look(shared: &Shared, after: Duration) -> Result<(), FactsError> {
    let services = &shared.services;
    for gateway in lost(&services.db, after).await? {
        // One that is just coming back names its sessions itself.
        let Some(_turn) = shared.turns.take_if_free(&gateway) else {
            continue;
        };
        let now = Moment::now();
        let mut tx = services.db.begin().await?;
        // Perhaps at another process.
        if facts::is_linked(&mut tx, &gateway).await? {
            continue;
        }
        // As a link would that names nobody.
        let Some(link) = facts::link_opened(&mut tx, &gateway, now).await? else {
            continue;
        };
        let applied = facts::apply(&mut tx, &gateway, &[Event::Listed], now).await?;
        facts::link_closed(&mut tx, &gateway, link, now).await?;
        tx.commit().await?;
        let sessions = applied.changed.len();
        tracing::warn!(%gateway, sessions, "a gateway is lost: its sessions have ended");
        services.waker.wake_for_nodes(applied.changed);
    }
    Ok(())
}

async fn lost(db: &Db, after: Duration) -> Result<Vec<GatewayId>, sqlx::Error> {
    let before = Moment::now()
        .millis()
        .saturating_sub(i64::try_from(after.as_millis()).unwrap_or(i64::MAX));
    let ids: Vec<String> = query_scalar(
        "SELECT id FROM gateways
         WHERE linked = 0 AND linked_since <= $1
           AND EXISTS (SELECT 1 FROM node_facts WHERE gateway_id = gateways.id AND online = 1)
           AND EXISTS (SELECT 1 FROM gateways WHERE linked = 1)
         ORDER BY id",
    )
    .bind(before)
    .fetch_all(db.reader())
    .await?;
    ids.iter()
        .map(|id| id.parse().map_err(|error| undecodable("id", error)))
        .collect()
}

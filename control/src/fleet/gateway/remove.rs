//! The end of a gateway.
//!
//! Takes an operator's word, leaves nothing by which anybody could take it for a gateway: no row, no name, no session.
//! Its certificate stays well-formed until it ends; what it opened here is closed by whoever hears of the commit.

use std::collections::BTreeSet;

use bc_protocol::{
    id::{GatewayId, NodeId},
    link::Event,
};
use serde_json::json;

use super::GatewayError;
use crate::{
    api::gateway::{RemoveGateway, RemovedGateway},
    clock::Moment,
    db::{
        Db, Tx,
        column::{moment, undecodable},
        contention::retried,
        query, query_scalar,
    },
    event::outbox::{Draft, publish},
    fleet::facts,
};

/// Removes a gateway, and ends the sessions that it told of. Gives the nodes that had them. Repeated, it answers the same.
pub(crate) async fn remove(
    db: &Db,
    actor: &str,
    request: &RemoveGateway,
    now: Moment,
) -> Result<(RemovedGateway, BTreeSet<NodeId>), GatewayError> {
    let (removed, nodes) = retried(|| remove_once(db, actor, request, now)).await?;
    tracing::info!(gateway = %removed.id, name = removed.name, actor, "a gateway is removed");
    Ok((removed, nodes))
}

async fn remove_once(
    db: &Db,
    actor: &str,
    request: &RemoveGateway,
    now: Moment,
) -> Result<(RemovedGateway, BTreeSet<NodeId>), GatewayError> {
    let gateway = &request.gateway_id;
    let mut tx = db.begin().await?;
    let name: Option<String> = query_scalar("SELECT name FROM gateways WHERE id = $1")
        .bind(gateway.as_str())
        .for_update()
        .fetch_optional(&mut *tx)
        .await?;
    let Some(name) = name else {
        let before = before(&mut tx, gateway).await?;
        return Ok((before.ok_or(GatewayError::NotFound)?, BTreeSet::new()));
    };
    let removed = RemovedGateway {
        id: gateway.clone(),
        name,
        removed_at: now,
    };
    // As a link would that names nobody.
    facts::link_opened(&mut tx, gateway, now).await?;
    let applied = facts::apply(&mut tx, gateway, &[Event::Listed], now).await?;
    take_out(&mut tx, &removed).await?;
    let draft = Draft {
        kind: "gateway.removed",
        subject: format!("gateway/{gateway}"),
        tenant: &request.tenant_id,
        actor,
        data: json!({ "name": removed.name }),
    };
    publish(&mut tx, draft, now);
    tx.commit().await?;
    Ok((removed, applied.changed))
}

async fn take_out(tx: &mut Tx, removed: &RemovedGateway) -> Result<(), sqlx::Error> {
    query("DELETE FROM gateways WHERE id = $1")
        .bind(removed.id.as_str())
        .execute(&mut **tx)
        .await?;
    query("INSERT INTO removed_gateways (id, name, removed_at) VALUES ($1, $2, $3)")
        .bind(removed.id.as_str())
        .bind(&removed.name)
        .bind(removed.removed_at.millis())
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// What an earlier call has removed.
async fn before(tx: &mut Tx, gateway: &GatewayId) -> Result<Option<RemovedGateway>, sqlx::Error> {
    let row = query("SELECT name, removed_at FROM removed_gateways WHERE id = $1")
        .bind(gateway.as_str())
        .fetch_optional(&mut **tx)
        .await?;
    row.map(|row| {
        Ok(RemovedGateway {
            id: gateway.clone(),
            name: row.try_get("name")?,
            removed_at: moment(&row, "removed_at")?,
        })
    })
    .transpose()
}

/// Gateways that were removed at a moment or later.
pub(crate) async fn removed_since(db: &Db, since: Moment) -> Result<Vec<GatewayId>, sqlx::Error> {
    let ids: Vec<String> =
        query_scalar("SELECT id FROM removed_gateways WHERE removed_at >= $1 ORDER BY id")
            .bind(since.millis())
            .fetch_all(db.reader())
            .await?;
    ids.iter()
        .map(|id| id.parse().map_err(|error| undecodable("id", error)))
        .collect()
}

//! `rollouts.create`

use std::collections::BTreeSet;

use bc_protocol::id::{PoolId, RolloutId};

use super::{
    RolloutError, Services,
    check::{self, Checked},
};
use crate::{
    api::rollout::{CreateRollout, Rollout},
    chance,
    clock::Moment,
    db::{Tx, contention::retried},
    event::outbox::{Draft, publish},
    release::store::by_version,
    rollout::{
        snapshot::Terms,
        store::{
            self,
            create::{New, Reach},
        },
    },
};

/// Creates a rollout of every node in scope, or finds the one that an equal call created: all in one transaction, or
/// nothing.
pub(crate) async fn create(
    services: &Services,
    actor: &str,
    request: CreateRollout,
) -> Result<Rollout, RolloutError> {
    let checked = check::create(&request)?;
    retried(|| create_once(services, actor, &request, &checked)).await
}

async fn create_once(
    services: &Services,
    actor: &str,
    request: &CreateRollout,
    checked: &Checked,
) -> Result<Rollout, RolloutError> {
    let mut tx = services.db.begin().await?;
    let id = id(actor, request, Moment::now());
    if let Some(stored) = store::create::version_of(&mut tx, &id).await? {
        if stored != request.version {
            return Err(RolloutError::KeyTaken {
                rollout: id,
                stored,
                asked: request.version.clone(),
            });
        }
        return answer(&mut tx, request, &id).await;
    }
    let release = by_version(&mut tx, &request.version, &services.trust)
        .await?
        .ok_or_else(|| RolloutError::NoRelease {
            version: request.version.clone(),
        })?;
    let pools = pools(&mut tx, request, checked).await?;
    let new = New {
        terms: Terms {
            id: id.clone(),
            version: request.version.clone(),
            sequence: release.manifest.sequence(),
            max_failure_ratio: checked.max_failure_ratio,
            soak: checked.soak,
            timeout: checked.timeout,
            scope: checked.scope,
        },
        tenant: &request.tenant_id,
        actor,
        waves: checked.waves.clone(),
        reach: checked.reach.clone(),
        // Under the locks: of two over one pool, the later is the newer.
        at: Moment::now(),
    };
    let stale = write(&mut tx, &new, &pools).await?;
    let rollout = answer(&mut tx, request, &id).await?;
    tx.commit().await?;
    tracing::info!(rollout = %id, actor, version = %rollout.version, "rollout.started");
    services.tell_stale(stale);
    services.waker.wake();
    Ok(rollout)
}

/// With a key the id follows from who calls for whom with which key, so that equal calls meet.
fn id(actor: &str, request: &CreateRollout, now: Moment) -> RolloutId {
    match &request.idempotency_key {
        Some(key) => RolloutId::derived(&[
            request.tenant_id.as_str().as_bytes(),
            actor.as_bytes(),
            key.as_bytes(),
        ]),
        None => RolloutId::random(now.unix_ms(), chance::bits()),
    }
}

async fn pools(
    tx: &mut Tx,
    request: &CreateRollout,
    checked: &Checked,
) -> Result<BTreeSet<PoolId>, RolloutError> {
    let tenants = store::create::pools(tx, &request.tenant_id, checked.pools.as_ref()).await?;
    if let Reach::Nodes(nodes) = &checked.reach
        && let Some(node) = store::create::stranger(tx, &request.tenant_id, nodes).await?
    {
        return Err(RolloutError::NoNode { node });
    }
    let Some(listed) = &checked.pools else {
        return Ok(tenants);
    };
    match listed.difference(&tenants).next() {
        Some(pool) => Err(RolloutError::NoPool { pool: pool.clone() }),
        None => Ok(listed.clone()),
    }
}

async fn write(
    tx: &mut Tx,
    new: &New<'_>,
    pools: &BTreeSet<PoolId>,
) -> Result<Vec<bc_protocol::id::NodeId>, RolloutError> {
    let members = store::create::members(tx, new, pools).await?;
    if members.is_empty() {
        return Err(RolloutError::NobodyInScope);
    }
    let stale = store::create::insert(tx, new, pools, &members).await?;
    if let Some(rollout) = store::create::rival(tx, &new.terms.id).await? {
        return Err(RolloutError::Busy { rollout });
    }
    let draft = Draft {
        kind: "rollout.started",
        subject: format!("rollout/{}", new.terms.id),
        tenant: new.tenant,
        actor: new.actor,
        data: serde_json::json!({
            "version": new.terms.version,
            "waves": new.waves,
            "nodes": members.len(),
        }),
    };
    publish(tx, draft, new.at);
    Ok(stale)
}

async fn answer(
    tx: &mut Tx,
    request: &CreateRollout,
    id: &RolloutId,
) -> Result<Rollout, RolloutError> {
    store::read::one(tx, &request.tenant_id, id)
        .await?
        .ok_or_else(|| RolloutError::no_rollout(id))
}

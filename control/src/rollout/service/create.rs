//! `rollouts.create`

use std::{collections::BTreeSet, time::Duration};

use bc_protocol::id::{PoolId, RolloutId, TenantId};

use super::{
    RolloutError, Services,
    check::{self, Checked},
    freeze,
};
use crate::{
    api::rollout::{CreateRollout, Rollout},
    chance,
    clock::Moment,
    db::{
        Conn, Tx,
        column::{moment, moment_option},
        contention::retried,
        query,
    },
    event::outbox::{Draft, publish},
    release::store::by_version,
    rollout::{
        snapshot::{Offer, Terms},
        store::{
            self,
            create::{New, Reach},
        },
        target::Target,
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
    let listed = checked.pools.as_ref();
    store::create::lock_pools(&mut tx, &request.tenant_id, listed).await?;
    // Under the locks: of two over one pool, the later is the newer.
    let at = (id.clone(), newest(&mut tx, &request.tenant_id).await?);
    let (new, pools) = intended(&mut tx, (actor, request), at, services).await?;
    let stale = write(&mut tx, &new, &pools).await?;
    let rollout = answer(&mut tx, request, &id).await?;
    tx.commit().await?;
    tracing::info!(rollout = %id, actor, version = %rollout.version, "rollout.started");
    services.tell_stale(stale);
    services.waker.wake_for(&id);
    Ok(rollout)
}

/// When a rollout is created: newer than all that the tenant has. What nodes should run depends on which of two is the
/// newer, so it must not depend on whose clock was ahead: the database's counts, and a rollout of a restored copy or of
/// a clock that was put back is still older than this one.
async fn newest(tx: &mut Tx, tenant: &TenantId) -> Result<Moment, sqlx::Error> {
    let row = query(
        "SELECT cast(unixepoch('subsec') * 1000 AS BIGINT) AS now,
                (SELECT max(created_at) FROM rollouts WHERE tenant = $1) AS newest",
    )
    .bind(tenant.as_str())
    .fetch_one(tx)
    .await?;
    let now = moment(&row, "now")?;
    let newest = moment_option(&row, "newest")?;
    let next = newest.map(|newest| newest.plus(Duration::from_millis(1)));
    Ok(next.map_or(now, |next| next.max(now)))
}

async fn intended<'a>(
    conn: &mut Conn,
    asked: (&'a str, &'a CreateRollout),
    at: (RolloutId, Moment),
    services: &Services,
) -> Result<(New<'a>, BTreeSet<PoolId>), RolloutError> {
    let (new, pools, _) = offered(conn, asked, at, services).await?;
    Ok((new, pools))
}

/// The rollout that a request asks for, its pools and what it offers; or why there is none to be had.
pub(super) async fn offered<'a>(
    conn: &mut Conn,
    (actor, request): (&'a str, &'a CreateRollout),
    (id, at): (RolloutId, Moment),
    services: &Services,
) -> Result<(New<'a>, BTreeSet<PoolId>, Offer), RolloutError> {
    let checked = check::create(request)?;
    let release = by_version(conn, &request.version, &services.trust)
        .await?
        .ok_or_else(|| RolloutError::NoRelease {
            version: request.version.clone(),
        })?;
    let pools = pools(conn, request, &checked).await?;
    let new = New {
        terms: Terms {
            id,
            version: request.version.clone(),
            sequence: release.manifest.sequence(),
            max_failure_ratio: checked.max_failure_ratio,
            soak: checked.soak,
            timeout: checked.timeout,
            scope: checked.scope,
        },
        tenant: &request.tenant_id,
        actor,
        waves: checked.waves,
        reach: checked.reach,
        at,
    };
    Ok((new, pools, Offer::Good(Target::of(&release.manifest))))
}

/// With a key the id follows from who calls for whom with which key, so that equal calls meet.
pub(super) fn id(actor: &str, request: &CreateRollout, now: Moment) -> RolloutId {
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
    conn: &mut Conn,
    request: &CreateRollout,
    checked: &Checked,
) -> Result<BTreeSet<PoolId>, RolloutError> {
    let tenants = store::create::pools(conn, &request.tenant_id).await?;
    if let Reach::Nodes(nodes) = &checked.reach
        && let Some(node) = store::create::stranger(conn, &request.tenant_id, nodes).await?
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
    let mut rollout = store::read::one(tx, &request.tenant_id, id)
        .await?
        .ok_or_else(|| RolloutError::no_rollout(id))?;
    freeze::mark(tx, &request.tenant_id, &mut rollout).await?;
    Ok(rollout)
}

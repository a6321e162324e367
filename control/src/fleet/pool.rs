//! Pools.
//!
//! Takes a tenant's wishes, gives its pools. A pool of another tenant is like one that does not exist.

use bc_protocol::{
    id::{PoolId, TenantId},
    share::Share,
};
use serde_json::json;
use thiserror::Error;

use crate::{
    api::fleet::{CreatePool, OnePool, Pool, PoolPolicy, UpdatePool},
    chance,
    clock::Moment,
    db::{
        Conn, Db, Row, Tx,
        column::{moment, moment_option, number, parsed, undecodable},
        contention::retried,
        query,
    },
    event::outbox::{Draft, publish},
    fleet::late,
};

pub(crate) const NAME_CHARS_MAX: usize = 100;

/// Why a pool is not made, changed or found.
#[derive(Debug, Error)]
pub(crate) enum PoolError {
    /// The database failed.
    #[error("the database failed")]
    Sql(#[from] sqlx::Error),
    /// The name is no name.
    #[error(
        "expected a name of 1 to {NAME_CHARS_MAX} printable characters without spaces at its ends"
    )]
    Name,
    /// Another pool has the name.
    #[error("expected a name that no other pool has, found one named {name}")]
    Taken {
        /// The name.
        name: String,
    },
    /// An archived pool has the name, and still has nodes: two of one name would be mixed up.
    #[error(
        "expected a name that no other pool has, found the archived pool {id} named {name} with {nodes} nodes in it: unarchive that one, or take another name"
    )]
    TakenArchived {
        /// The name.
        name: String,
        /// The pool.
        id: PoolId,
        /// Its nodes.
        nodes: u32,
    },
    /// Not a pool of this tenant.
    #[error("expected a pool of this tenant, found none")]
    NotFound,
    /// Archived pools do not change.
    #[error("expected a pool that is in use, found an archived one")]
    Archived,
}

/// Makes a pool.
pub(crate) async fn create(
    db: &Db,
    actor: &str,
    request: &CreatePool,
    now: Moment,
) -> Result<Pool, PoolError> {
    check_name(&request.name)?;
    // Two of one name at once: the index refuses one of them, and trying it again says why.
    retried(|| create_once(db, actor, request, now)).await
}

async fn create_once(
    db: &Db,
    actor: &str,
    request: &CreatePool,
    now: Moment,
) -> Result<Pool, PoolError> {
    let id = PoolId::random(now.unix_ms(), chance::bits());
    let mut tx = db.begin().await?;
    refuse_taken(&mut tx, &request.tenant_id, &request.name, &id).await?;
    query(
        "INSERT INTO pools (id, tenant, name, budget_ppm, created_at) VALUES ($1, $2, $3, $4, $5)",
    )
    .bind(id.as_str())
    .bind(request.tenant_id.as_str())
    .bind(&request.name)
    .bind(request.policy.disruption_budget.millionths())
    .bind(now.millis())
    .execute(&mut *tx)
    .await?;
    let pool = find(&mut tx, &request.tenant_id, &id).await?;
    tell(
        &mut tx,
        "pool.created",
        (&request.tenant_id, actor),
        &pool,
        now,
    );
    tx.commit().await?;
    Ok(pool)
}

/// An event about what somebody did to a pool.
fn tell(
    tx: &mut Tx,
    kind: &'static str,
    (tenant, actor): (&TenantId, &str),
    pool: &Pool,
    now: Moment,
) {
    let draft = Draft {
        kind,
        subject: format!("pool/{}", pool.id),
        tenant,
        actor,
        data: json!({ "name": pool.name, "policy": pool.policy }),
    };
    publish(tx, draft, now);
}

/// The tenant's pools, by name; archived ones too.
pub(crate) async fn list(db: &Db, tenant: &TenantId) -> Result<Vec<Pool>, PoolError> {
    let rows = query("SELECT * FROM pools WHERE tenant = $1 ORDER BY name, id")
        .bind(tenant.as_str())
        .fetch_all(db.reader())
        .await?;
    Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
}

/// One pool.
pub(crate) async fn get(db: &Db, request: &OnePool) -> Result<Pool, PoolError> {
    let mut conn = db.reader().begin().await?;
    find(&mut conn, &request.tenant_id, &request.pool_id).await
}

/// Changes what is given and leaves the rest.
pub(crate) async fn update(
    db: &Db,
    actor: &str,
    request: &UpdatePool,
    now: Moment,
) -> Result<Pool, PoolError> {
    if let Some(name) = &request.name {
        check_name(name)?;
    }
    retried(|| update_once(db, actor, request, now)).await
}

async fn update_once(
    db: &Db,
    actor: &str,
    request: &UpdatePool,
    now: Moment,
) -> Result<Pool, PoolError> {
    let (tenant, id) = (&request.tenant_id, &request.pool_id);
    let mut tx = db.begin().await?;
    let pool = find_to_change(&mut tx, tenant, id).await?;
    if pool.archived_at.is_some() {
        return Err(PoolError::Archived);
    }
    if let Some(name) = &request.name {
        refuse_taken(&mut tx, tenant, name, id).await?;
    }
    let policy = request.policy.unwrap_or(pool.policy);
    query("UPDATE pools SET name = $2, budget_ppm = $3 WHERE id = $1")
        .bind(id.as_str())
        .bind(request.name.as_ref().unwrap_or(&pool.name))
        .bind(policy.disruption_budget.millionths())
        .execute(&mut *tx)
        .await?;
    let pool = find(&mut tx, tenant, id).await?;
    tell(&mut tx, "pool.updated", (tenant, actor), &pool, now);
    tx.commit().await?;
    Ok(pool)
}

/// Archives a pool: it takes no new nodes and is in no new rollout. Nodes that are in it stay members and keep what they are
/// told to run; passes skip those that wait in a rollout. Repeated, it answers the same.
pub(crate) async fn archive(
    db: &Db,
    actor: &str,
    request: &OnePool,
    now: Moment,
) -> Result<Pool, PoolError> {
    let mut tx = db.begin().await?;
    let before = find_to_change(&mut tx, &request.tenant_id, &request.pool_id).await?;
    if before.archived_at.is_some() {
        return Ok(before);
    }
    query("UPDATE pools SET archived_at = $2 WHERE id = $1 AND archived_at IS NULL")
        .bind(request.pool_id.as_str())
        .bind(now.millis())
        .execute(&mut *tx)
        .await?;
    let pool = find(&mut tx, &request.tenant_id, &request.pool_id).await?;
    tell(
        &mut tx,
        "pool.archived",
        (&request.tenant_id, actor),
        &pool,
        now,
    );
    tx.commit().await?;
    Ok(pool)
}

/// Takes an archived pool into use again, with the nodes that are in it. Repeated, it answers the same.
pub(crate) async fn unarchive(
    db: &Db,
    actor: &str,
    request: &OnePool,
    now: Moment,
) -> Result<Pool, PoolError> {
    retried(|| unarchive_once(db, actor, request, now)).await
}

async fn unarchive_once(
    db: &Db,
    actor: &str,
    request: &OnePool,
    now: Moment,
) -> Result<Pool, PoolError> {
    let (tenant, id) = (&request.tenant_id, &request.pool_id);
    let mut tx = db.begin().await?;
    let before = find_to_change(&mut tx, tenant, id).await?;
    if before.archived_at.is_none() {
        return Ok(before);
    }
    refuse_taken(&mut tx, tenant, &before.name, id).await?;
    query("UPDATE pools SET archived_at = NULL WHERE id = $1")
        .bind(id.as_str())
        .execute(&mut *tx)
        .await?;
    // Rollouts have passed its nodes over meanwhile.
    late::add_all_of(&mut tx, id).await?;
    let pool = find(&mut tx, tenant, id).await?;
    tell(&mut tx, "pool.unarchived", (tenant, actor), &pool, now);
    tx.commit().await?;
    Ok(pool)
}

/// One pool of a tenant, in the caller's transaction or reader.
pub(crate) async fn find(
    conn: &mut Conn,
    tenant: &TenantId,
    id: &PoolId,
) -> Result<Pool, PoolError> {
    let row = query("SELECT * FROM pools WHERE id = $1 AND tenant = $2")
        .bind(id.as_str())
        .bind(tenant.as_str())
        .fetch_optional(conn)
        .await?
        .ok_or(PoolError::NotFound)?;
    Ok(read(&row)?)
}

/// As [`find`], and nobody else may change it until the transaction ends.
pub(super) async fn find_to_change(
    tx: &mut Tx,
    tenant: &TenantId,
    id: &PoolId,
) -> Result<Pool, PoolError> {
    query("SELECT id FROM pools WHERE id = $1")
        .bind(id.as_str())
        .for_update()
        .fetch_optional(&mut *tx)
        .await?;
    find(tx, tenant, id).await
}

fn read(row: &Row) -> Result<Pool, sqlx::Error> {
    let disruption_budget = Share::from_millionths(number(row, "budget_ppm")?)
        .map_err(|error| undecodable("budget_ppm", error))?;
    Ok(Pool {
        id: parsed(row, "id")?,
        name: row.try_get("name")?,
        policy: PoolPolicy { disruption_budget },
        nodes: number(row, "nodes")?,
        disrupted: number(row, "disrupted")?,
        created_at: moment(row, "created_at")?,
        archived_at: moment_option(row, "archived_at")?,
    })
}

fn check_name(name: &str) -> Result<(), PoolError> {
    let length = name.chars().count();
    let plain = (1..=NAME_CHARS_MAX).contains(&length)
        && name.trim() == name
        && !name.chars().any(char::is_control);
    if plain { Ok(()) } else { Err(PoolError::Name) }
}

async fn refuse_taken(
    conn: &mut Conn,
    tenant: &TenantId,
    name: &str,
    id: &PoolId,
) -> Result<(), PoolError> {
    let row = query(
        "SELECT * FROM pools WHERE tenant = $1 AND name = $2 AND id <> $3
           AND (archived_at IS NULL OR nodes > 0)
         ORDER BY CASE WHEN archived_at IS NULL THEN 0 ELSE 1 END, id LIMIT 1",
    )
    .bind(tenant.as_str())
    .bind(name)
    .bind(id.as_str())
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else {
        return Ok(());
    };
    let pool = read(&row)?;
    Err(match pool.archived_at {
        None => PoolError::Taken { name: pool.name },
        Some(_) => PoolError::TakenArchived {
            name: pool.name,
            id: pool.id,
            nodes: pool.nodes,
        },
    })
}

//! Join tokens, once they are made.
//!
//! Takes a tenant's wishes, gives its tokens without their secrets. A token that is taken back lets nobody in from the
//! commit on, not even with a key that it let in before.

use bc_protocol::id::PoolId;
use serde_json::json;

use super::join::JoinError;
use crate::{
    api::access::{JoinToken, ListJoinTokens, OneJoinToken},
    clock::Moment,
    db::{
        Db, Row,
        column::{moment, moment_option, number, parsed},
        query,
    },
    event::outbox::{Draft, publish},
    fleet::pool,
};

/// The tenant's tokens, or those of one pool, oldest first.
pub(crate) async fn list(db: &Db, request: &ListJoinTokens) -> Result<Vec<JoinToken>, JoinError> {
    let mut conn = db.reader().begin().await?;
    if let Some(pool) = &request.pool_id {
        pool::find(&mut conn, &request.tenant_id, pool).await?;
    }
    let rows = query(
        "SELECT * FROM join_tokens WHERE tenant = $1 AND ($2 = '' OR pool_id = $2)
         ORDER BY created_at, id",
    )
    .bind(request.tenant_id.as_str())
    .bind(request.pool_id.as_ref().map_or("", |pool| pool.as_str()))
    .fetch_all(&mut conn)
    .await?;
    Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
}

/// The pool of a token of the tenant, for whoever decides who may.
pub(crate) async fn pool_of(db: &Db, request: &OneJoinToken) -> Result<Option<PoolId>, JoinError> {
    let row = query("SELECT pool_id FROM join_tokens WHERE id = $1 AND tenant = $2")
        .bind(request.join_token_id.as_str())
        .bind(request.tenant_id.as_str())
        .fetch_optional(db.reader())
        .await?;
    Ok(row.as_ref().map(|row| parsed(row, "pool_id")).transpose()?)
}

/// Takes a token back. Repeated, it answers the same.
pub(crate) async fn revoke(
    db: &Db,
    actor: &str,
    request: &OneJoinToken,
    now: Moment,
) -> Result<JoinToken, JoinError> {
    let mut tx = db.begin().await?;
    let row = query("SELECT * FROM join_tokens WHERE id = $1 AND tenant = $2")
        .bind(request.join_token_id.as_str())
        .bind(request.tenant_id.as_str())
        .for_update()
        .fetch_optional(&mut tx)
        .await?
        .ok_or(JoinError::NotFound)?;
    let mut token = read(&row)?;
    if token.revoked_at.is_some() {
        return Ok(token);
    }
    query("UPDATE join_tokens SET revoked_at = $2 WHERE id = $1")
        .bind(token.id.as_str())
        .bind(now.millis())
        .execute(&mut tx)
        .await?;
    let draft = Draft {
        kind: "join-token.revoked",
        subject: format!("join-token/{}", token.id),
        tenant: &request.tenant_id,
        actor,
        data: json!({ "poolId": token.pool_id, "used": token.used }),
    };
    publish(&mut tx, draft, now);
    tx.commit().await?;
    token.revoked_at = Some(now);
    Ok(token)
}

fn read(row: &Row) -> Result<JoinToken, sqlx::Error> {
    Ok(JoinToken {
        id: parsed(row, "id")?,
        pool_id: parsed(row, "pool_id")?,
        used: number(row, "uses")?,
        uses: number(row, "uses_max")?,
        expires_at: moment(row, "expires_at")?,
        revoked_at: moment_option(row, "revoked_at")?,
        created_at: moment(row, "created_at")?,
        created_by: row.try_get("created_by")?,
    })
}

//! Joining: a token and a key become a node.
//!
//! Takes a join token and a certificate request, gives an identity. One transaction counts the use, makes the node and
//! counts it in its pool; the same token with the same key is the same node, so that a lost answer makes no ghost and
//! spends no second use.

use std::{collections::BTreeMap, time::Duration};

use bc_protocol::{
    id::{JoinTokenId, NodeId, PoolId, TenantId},
    limits::{LABEL_BYTES_MAX, LABELS_MAX},
};
use serde_json::json;
use thiserror::Error;

use super::{
    authority::{Authority, AuthorityError, CertifiedKey, RequestError},
    late,
    pool::{self, PoolError},
};
use crate::{
    access::bearer::Bearer,
    api::fleet::{CreateJoinToken, JoinNode, JoinedNode, NewJoinToken},
    chance,
    clock::Moment,
    db::{
        Conn, Db, Tx,
        column::{moment, number, parsed, undecodable},
        contention::retried,
        query, query_scalar,
    },
    event::outbox::{Draft, publish},
};

pub(crate) const USES_MAX: u32 = 100_000;

/// A year: longer than any sensible installation goes on.
pub(crate) const EXPIRY_SECONDS_MAX: f64 = 365.0 * 24.0 * 3600.0;

/// Why a token is not made, or a node does not join.
#[derive(Debug, Error)]
pub(crate) enum JoinError {
    /// The database failed.
    #[error("the database failed")]
    Sql(#[from] sqlx::Error),
    /// The certificate cannot be made.
    #[error("the node's certificate cannot be made")]
    Authority(#[from] AuthorityError),
    /// The pool of the token.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The request is no good.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// How many nodes may join.
    #[error("expected 1 to {USES_MAX} uses, found {found}")]
    Uses {
        /// The number given.
        found: u32,
    },
    /// For how long.
    #[error("expected more than 0 and at most {EXPIRY_SECONDS_MAX} seconds, found {found}")]
    Expiry {
        /// The number given.
        found: f64,
    },
    /// Labels that would not fit.
    #[error(
        "expected at most {LABELS_MAX} labels with names of 1 to {LABEL_BYTES_MAX} bytes and values of at most as many, without control characters, found others"
    )]
    Labels,
    /// Not a token of this tenant.
    #[error("expected a join token of this tenant, found none")]
    NotFound,
    /// No token of that text.
    #[error("expected a join token of this control, found one that it does not know")]
    UnknownToken,
    /// Its time is over.
    #[error("expected a join token that is valid, found one that expired at {at}")]
    Expired {
        /// When.
        at: Moment,
    },
    /// Somebody took it back.
    #[error("expected a join token that is valid, found one that was revoked")]
    Revoked,
    /// Every use is spent.
    #[error("expected a join token with a use left, found all {uses} spent")]
    UsedUp {
        /// How many there were.
        uses: u32,
    },
    /// Nobody joins an archived pool.
    #[error("expected a join token of a pool in use, found one of an archived pool")]
    Archived,
    /// The node that this token and key made was removed.
    #[error("expected a key that may join, found that of a removed node")]
    Removed,
}

/// Makes a join token.
pub(crate) async fn create_token(
    db: &Db,
    actor: &str,
    request: &CreateJoinToken,
    now: Moment,
) -> Result<NewJoinToken, JoinError> {
    if !(1..=USES_MAX).contains(&request.uses) {
        return Err(JoinError::Uses {
            found: request.uses,
        });
    }
    let seconds = request.expires_in_seconds;
    if !(seconds > 0.0 && seconds <= EXPIRY_SECONDS_MAX) {
        return Err(JoinError::Expiry { found: seconds });
    }
    let expires_at = now.plus(Duration::from_secs_f64(seconds));
    let bearer = Bearer::fresh(JoinTokenId::random(now.unix_ms(), chance::bits()));
    let mut tx = db.begin().await?;
    let pool = pool::find_to_change(&mut tx, &request.tenant_id, &request.pool_id).await?;
    if pool.archived_at.is_some() {
        return Err(PoolError::Archived.into());
    }
    query(
        "INSERT INTO join_tokens
             (id, tenant, pool_id, secret_sha256, uses_max, expires_at, created_at, created_by)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(bearer.id().as_str())
    .bind(request.tenant_id.as_str())
    .bind(pool.id.as_str())
    .bind(bearer.digest().as_bytes().as_slice())
    .bind(request.uses)
    .bind(expires_at.millis())
    .bind(now.millis())
    .bind(actor)
    .execute(&mut *tx)
    .await?;
    let draft = Draft {
        kind: "join-token.created",
        subject: format!("join-token/{}", bearer.id()),
        tenant: &request.tenant_id,
        actor,
        data: json!({ "poolId": pool.id, "uses": request.uses, "expiresAt": expires_at }),
    };
    publish(&mut tx, draft, now);
    tx.commit().await?;
    Ok(NewJoinToken {
        id: bearer.id().clone(),
        token: bearer.reveal(),
        expires_at,
    })
}

/// Lets the holder of a key join, or join again after a lost answer.
pub(crate) async fn join(
    db: &Db,
    authority: &Authority,
    bearer: &str,
    request: &JoinNode,
    now: Moment,
) -> Result<JoinedNode, JoinError> {
    let bearer = Bearer::<JoinTokenId>::parse(bearer).ok_or(JoinError::UnknownToken)?;
    retried(|| join_once(db, authority, &bearer, request, now)).await
}

async fn join_once(
    db: &Db,
    authority: &Authority,
    bearer: &Bearer<JoinTokenId>,
    request: &JoinNode,
    now: Moment,
) -> Result<JoinedNode, JoinError> {
    let key = CertifiedKey::from_request(&request.csr);
    let mut tx = db.begin().await?;
    // The token first: whoever has none learns nothing, not even about his own request.
    let token = Token::find(&mut tx, bearer).await?;
    let key = key?;
    check_labels(&request.labels)?;
    let node = match node_of(&mut tx, &token, &key).await? {
        Some(node) => node,
        None => admit(&mut tx, &token, &key, &request.labels, now).await?,
    };
    let gateways = gateway_urls(&mut tx).await?;
    let certificate = authority.issue_node(&key, &node, &gateways, now)?;
    tx.commit().await?;
    tracing::info!(%node, pool = %token.pool, key = %key.pin(), "a node has joined");
    Ok(JoinedNode {
        node_id: node,
        certificate,
        authorities: authority.pem().to_owned(),
        gateways,
    })
}

struct Token {
    id: JoinTokenId,
    tenant: TenantId,
    pool: PoolId,
    uses: u32,
    uses_max: u32,
    expires_at: Moment,
    revoked: bool,
    archived: bool,
}

impl Token {
    async fn find(tx: &mut Tx, bearer: &Bearer<JoinTokenId>) -> Result<Self, JoinError> {
        let row = query("SELECT * FROM join_tokens WHERE id = $1")
            .bind(bearer.id().as_str())
            .for_update()
            .fetch_optional(&mut **tx)
            .await?
            .ok_or(JoinError::UnknownToken)?;
        if !bearer.matches(row.try_get("secret_sha256")?) {
            return Err(JoinError::UnknownToken);
        }
        let pool: PoolId = parsed(&row, "pool_id")?;
        let archived_at: Option<i64> = query_scalar("SELECT archived_at FROM pools WHERE id = $1")
            .bind(pool.as_str())
            .for_update()
            .fetch_one(&mut **tx)
            .await?;
        Ok(Self {
            id: bearer.id().clone(),
            tenant: parsed(&row, "tenant")?,
            pool,
            uses: number(&row, "uses")?,
            uses_max: number(&row, "uses_max")?,
            expires_at: moment(&row, "expires_at")?,
            revoked: row.try_get::<Option<i64>>("revoked_at")?.is_some(),
            archived: archived_at.is_some(),
        })
    }

    /// Whether one more node may join with it.
    fn check(&self, now: Moment) -> Result<(), JoinError> {
        if self.revoked {
            return Err(JoinError::Revoked);
        }
        if self.expires_at <= now {
            return Err(JoinError::Expired {
                at: self.expires_at,
            });
        }
        if self.archived {
            return Err(JoinError::Archived);
        }
        if self.uses >= self.uses_max {
            return Err(JoinError::UsedUp {
                uses: self.uses_max,
            });
        }
        Ok(())
    }
}

/// The node that this token and this key made before. It needs no use, and no token that is still valid: the use was
/// counted when the node joined, and only the answer was lost.
async fn node_of(
    tx: &mut Tx,
    token: &Token,
    key: &CertifiedKey,
) -> Result<Option<NodeId>, JoinError> {
    let row = query("SELECT id, removed_at FROM nodes WHERE join_token_id = $1 AND spki = $2")
        .bind(token.id.as_str())
        .bind(key.spki())
        .fetch_optional(&mut **tx)
        .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    if row.try_get::<Option<i64>>("removed_at")?.is_some() {
        return Err(JoinError::Removed);
    }
    if token.revoked {
        return Err(JoinError::Revoked);
    }
    Ok(Some(parsed(&row, "id")?))
}

async fn admit(
    tx: &mut Tx,
    token: &Token,
    key: &CertifiedKey,
    labels: &BTreeMap<String, String>,
    now: Moment,
) -> Result<NodeId, JoinError> {
    token.check(now)?;
    let node = NodeId::random(now.unix_ms(), chance::bits());
    query("UPDATE join_tokens SET uses = uses + 1 WHERE id = $1")
        .bind(token.id.as_str())
        .execute(&mut **tx)
        .await?;
    let labels_json =
        serde_json::to_string(labels).map_err(|error| undecodable("labels", error))?;
    query(
        "INSERT INTO nodes (id, tenant, pool_id, join_token_id, spki, labels, said_labels, joined_at)
         VALUES ($1, $2, $3, $4, $5, $6, $6, $7)",
    )
    .bind(node.as_str())
    .bind(token.tenant.as_str())
    .bind(token.pool.as_str())
    .bind(token.id.as_str())
    .bind(key.spki())
    .bind(labels_json)
    .bind(now.millis())
    .execute(&mut **tx)
    .await?;
    query("UPDATE pools SET nodes = nodes + 1 WHERE id = $1")
        .bind(token.pool.as_str())
        .execute(&mut **tx)
        .await?;
    late::await_change(tx, &node, &token.pool).await?;
    let draft = Draft {
        kind: "node.joined",
        subject: format!("node/{node}"),
        tenant: &token.tenant,
        actor: token.id.as_str(),
        data: json!({ "poolId": token.pool, "labels": labels }),
    };
    publish(tx, draft, now);
    Ok(node)
}

/// Labels that fit.
pub(super) fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), JoinError> {
    let fits = |(name, value): (&String, &String)| {
        (1..=LABEL_BYTES_MAX).contains(&name.len())
            && value.len() <= LABEL_BYTES_MAX
            && !name.chars().chain(value.chars()).any(char::is_control)
    };
    if labels.len() <= LABELS_MAX && labels.iter().all(fits) {
        Ok(())
    } else {
        Err(JoinError::Labels)
    }
}

/// Where nodes find gateways.
pub(super) async fn gateway_urls(conn: &mut Conn) -> Result<Vec<String>, sqlx::Error> {
    query_scalar("SELECT url FROM gateways WHERE enrolled_at IS NOT NULL ORDER BY id")
        .fetch_all(conn)
        .await
}

#[cfg(test)]
mod tests;

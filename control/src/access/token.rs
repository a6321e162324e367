//! API tokens.
//!
//! Takes a bearer text, gives the subject that holds it; makes, lists and revokes tokens. Only digests of secrets are stored.

mod first;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, io, time::Duration};

use bc_protocol::id::{TenantId, TokenId};
use serde_json::json;
use thiserror::Error;

use super::{
    action::{Action, ROOT_TENANT},
    bearer::Bearer,
};
use crate::{
    api::{
        access::{OneToken, Token},
        fleet::{CreateToken, NewToken},
    },
    chance,
    clock::Moment,
    db::{
        Db, Row, Tx,
        column::{json as column_json, moment, moment_option, parsed, undecodable},
        contention::turn,
        query,
    },
    event::outbox::{CONTROL, Draft, publish},
};

pub(crate) use first::{FirstToken, ensure_first};

/// Longer names would not fit into tables.
pub(crate) const SUBJECT_CHARS_MAX: usize = 128;

/// A token that works for longer may as well have no end.
pub(crate) const LIFE_SECONDS_MAX: f64 = 365.0 * 24.0 * 3600.0;

/// How old the time of a token's last use may get before it is written again: a call is no write, but for one an hour.
const USE_KEPT_EVERY: Duration = Duration::from_secs(60 * 60);

/// How long a call waits for that write: it is worth no more.
const USE_PATIENCE: Duration = Duration::from_secs(1);

/// Who holds a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    /// The actor in events.
    pub name: String,
    /// The tenant that the token is for.
    pub tenant: TenantId,
    /// What it allows.
    pub permissions: BTreeSet<Action>,
}

/// Why there is no subject, or no new token.
#[derive(Debug, Error)]
pub(crate) enum TokenError {
    /// The database failed.
    #[error("the database failed")]
    Sql(#[from] sqlx::Error),
    /// No token of that text. It says no more than that.
    #[error(
        "expected an API token of this control, found one that it does not know, or knows no longer"
    )]
    Unknown,
    /// A token that had an end. Only who holds it is told.
    #[error("expected an API token that still works, found one that ended at {at}")]
    Expired {
        /// When.
        at: Moment,
    },
    /// Not a token of this tenant.
    #[error("expected a token of this tenant, found none")]
    NotFound,
    /// Nobody could make another one after that.
    #[error(
        "expected another token of tenant root with compute:tenant:admin to be left, found none that works without an end: make one first"
    )]
    LastAdministrator,
    /// The subject's name is no name.
    #[error(
        "expected a subject of 1 to {SUBJECT_CHARS_MAX} printable characters, found {found} characters"
    )]
    Subject {
        /// Its length.
        found: usize,
    },
    /// The subject's name is another's.
    #[error("expected a subject other than {CONTROL:?}, which stands for control itself in events")]
    Reserved,
    /// A permission that does not exist.
    #[error(
        "expected permissions of compute:fleet:admin, compute:pool:read, compute:pool:admin and compute:tenant:admin, found {}",
        found.as_ref().map_or_else(|| "none".to_owned(), |word| format!("{word:?}"))
    )]
    Permission {
        /// The first that is none, if any was given.
        found: Option<String>,
    },
    /// A life that is none.
    #[error("expected more than 0 and at most {LIFE_SECONDS_MAX} seconds, found {found}")]
    Life {
        /// The number given.
        found: f64,
    },
    /// The first token's file cannot be written.
    #[error("the first token cannot be written to {path}")]
    File {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
}

/// The subject that holds a bearer text.
pub(crate) async fn authenticate(db: &Db, text: &str, now: Moment) -> Result<Subject, TokenError> {
    let bearer = Bearer::<TokenId>::parse(text).ok_or(TokenError::Unknown)?;
    let row = query(
        "SELECT tenant, subject, secret_sha256, permissions, expires_at, last_used_at FROM api_tokens
         WHERE id = $1 AND revoked_at IS NULL",
    )
    .bind(bearer.id().as_str())
    .fetch_optional(db.reader())
    .await?
    .ok_or(TokenError::Unknown)?;
    if !bearer.matches(row.try_get("secret_sha256")?) {
        return Err(TokenError::Unknown);
    }
    if let Some(at) = moment_option(&row, "expires_at")?.filter(|at| *at <= now) {
        return Err(TokenError::Expired { at });
    }
    let last = moment_option(&row, "last_used_at")?;
    if last.is_none_or(|last| last.plus(USE_KEPT_EVERY) <= now) {
        keep_use(db, bearer.id(), now).await;
    }
    Ok(subject(&row)?)
}

/// Keeps that a token was used. It is for people who tidy up: where it fails, the call goes on.
async fn keep_use(db: &Db, id: &TokenId, now: Moment) {
    let written = async {
        let mut tx = db.begin().await?;
        query(
            "UPDATE api_tokens SET last_used_at = $2
             WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)",
        )
        .bind(id.as_str())
        .bind(now.millis())
        .execute(&mut *tx)
        .await?;
        tx.commit().await
    };
    match tokio::time::timeout(USE_PATIENCE, written).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            let error: &dyn std::error::Error = &error;
            tracing::debug!(error, %id, "a token's last use is not kept");
        }
        Err(_) => tracing::debug!(%id, "a token's last use is not kept: others write"),
    }
}

/// Who holds the token of a row.
pub(super) fn subject(row: &Row) -> Result<Subject, sqlx::Error> {
    let words: Vec<String> = column_json(row, "permissions")?;
    let permissions = words
        .iter()
        .map(|word| word.parse())
        .collect::<Result<_, _>>()
        .map_err(|error| undecodable("permissions", error))?;
    Ok(Subject {
        name: row.try_get("subject")?,
        tenant: parsed(row, "tenant")?,
        permissions,
    })
}

/// Makes a token.
pub(crate) async fn create(
    db: &Db,
    actor: &str,
    request: &CreateToken,
    now: Moment,
) -> Result<NewToken, TokenError> {
    let length = request.subject.chars().count();
    if !(1..=SUBJECT_CHARS_MAX).contains(&length) || request.subject.chars().any(char::is_control) {
        return Err(TokenError::Subject { found: length });
    }
    if request.subject == CONTROL {
        return Err(TokenError::Reserved);
    }
    let subject = Subject {
        name: request.subject.clone(),
        tenant: request.tenant_id.clone(),
        permissions: permissions(request)?,
    };
    let expires_at = end(request, now)?;
    let bearer = Bearer::fresh(TokenId::random(now.unix_ms(), chance::bits()));
    let mut tx = db.begin().await?;
    insert(&mut tx, &bearer, &subject, (now, expires_at)).await?;
    let draft = Draft {
        kind: "token.created",
        subject: format!("token/{}", bearer.id()),
        tenant: &request.tenant_id,
        actor,
        data: json!({
            "subject": request.subject,
            "permissions": request.permissions,
            "expiresAt": expires_at,
        }),
    };
    publish(&mut tx, draft, now);
    tx.commit().await?;
    Ok(NewToken {
        id: bearer.id().clone(),
        token: bearer.reveal(),
        expires_at,
    })
}

/// When a token that is asked for stops working.
fn end(request: &CreateToken, now: Moment) -> Result<Option<Moment>, TokenError> {
    let Some(found) = request.expires_in_seconds else {
        return Ok(None);
    };
    if found > 0.0 && found <= LIFE_SECONDS_MAX {
        return Ok(Some(now.plus(Duration::from_secs_f64(found))));
    }
    Err(TokenError::Life { found })
}

/// The tenant's tokens, oldest first.
pub(crate) async fn list(db: &Db, tenant: &TenantId) -> Result<Vec<Token>, TokenError> {
    let rows = query("SELECT * FROM api_tokens WHERE tenant = $1 ORDER BY created_at, id")
        .bind(tenant.as_str())
        .fetch_all(db.reader())
        .await?;
    Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
}

/// Takes a token back: from the commit on nobody is known by it. Repeated, it answers the same.
pub(crate) async fn revoke(
    db: &Db,
    actor: &str,
    request: &OneToken,
    now: Moment,
) -> Result<Token, TokenError> {
    let mut tx = db.begin().await?;
    let row = query("SELECT * FROM api_tokens WHERE id = $1 AND tenant = $2")
        .bind(request.token_id.as_str())
        .bind(request.tenant_id.as_str())
        .for_update()
        .fetch_optional(&mut tx)
        .await?
        .ok_or(TokenError::NotFound)?;
    let mut token = read(&row)?;
    if token.revoked_at.is_some() {
        return Ok(token);
    }
    let of_root = request.tenant_id.as_str() == ROOT_TENANT;
    if of_root && is_administrator(&token) && !others_administrate(&mut tx, &token).await? {
        return Err(TokenError::LastAdministrator);
    }
    query("UPDATE api_tokens SET revoked_at = $2 WHERE id = $1")
        .bind(token.id.as_str())
        .bind(now.millis())
        .execute(&mut tx)
        .await?;
    let draft = Draft {
        kind: "token.revoked",
        subject: format!("token/{}", token.id),
        tenant: &request.tenant_id,
        actor,
        data: json!({ "subject": token.subject }),
    };
    publish(&mut tx, draft, now);
    tx.commit().await?;
    token.revoked_at = Some(now);
    Ok(token)
}

fn read(row: &Row) -> Result<Token, sqlx::Error> {
    Ok(Token {
        id: parsed(row, "id")?,
        subject: row.try_get("subject")?,
        permissions: column_json(row, "permissions")?,
        created_at: moment(row, "created_at")?,
        expires_at: moment_option(row, "expires_at")?,
        last_used_at: moment_option(row, "last_used_at")?,
        revoked_at: moment_option(row, "revoked_at")?,
    })
}

/// Whether a token of the root tenant lets its holder make others.
fn is_administrator(token: &Token) -> bool {
    let word = Action::TenantAdmin.word();
    token
        .permissions
        .iter()
        .any(|permission| permission == word)
}

/// Whether a token of the root tenant that makes others is left beside this one, without an end of its own.
async fn others_administrate(tx: &mut Tx, token: &Token) -> Result<bool, sqlx::Error> {
    turn(tx, "last-administrator").await?;
    let rows = query(
        "SELECT * FROM api_tokens
         WHERE tenant = $1 AND id <> $2 AND revoked_at IS NULL AND expires_at IS NULL",
    )
    .bind(ROOT_TENANT)
    .bind(token.id.as_str())
    .fetch_all(&mut *tx)
    .await?;
    let tokens: Vec<Token> = rows.iter().map(read).collect::<Result<_, _>>()?;
    Ok(tokens.iter().any(is_administrator))
}

/// The permissions that a request is for: at least one, and none that does not exist.
pub(crate) fn permissions(request: &CreateToken) -> Result<BTreeSet<Action>, TokenError> {
    let wanted = request.permissions.iter().map(|word| {
        word.parse().map_err(|_| TokenError::Permission {
            found: Some(word.clone()),
        })
    });
    let permissions: BTreeSet<Action> = wanted.collect::<Result<_, _>>()?;
    if permissions.is_empty() {
        return Err(TokenError::Permission { found: None });
    }
    Ok(permissions)
}

fn words(subject: &Subject) -> Vec<&'static str> {
    let permissions = subject.permissions.iter();
    permissions.map(|permission| permission.word()).collect()
}

async fn insert(
    tx: &mut Tx,
    bearer: &Bearer<TokenId>,
    subject: &Subject,
    (now, expires_at): (Moment, Option<Moment>),
) -> Result<(), sqlx::Error> {
    query(
        "INSERT INTO api_tokens (id, tenant, subject, secret_sha256, permissions, created_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(bearer.id().as_str())
    .bind(subject.tenant.as_str())
    .bind(&subject.name)
    .bind(bearer.digest().as_bytes().as_slice())
    .bind(json!(words(subject)).to_string())
    .bind(now.millis())
    .bind(expires_at.map(Moment::millis))
    .execute(&mut **tx)
    .await?;
    Ok(())
}

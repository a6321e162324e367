//! API tokens.
//!
//! Takes a bearer text, gives the subject that holds it. Only digests of secrets are stored; the first token is
//! written to a file that its owner alone can read.

use std::{collections::BTreeSet, io, path::Path};

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
        query, query_scalar,
    },
    event::outbox::{Draft, publish},
    files,
};

/// Longer names would not fit into tables.
const SUBJECT_CHARS_MAX: usize = 128;

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
    #[error("expected an API token of this control, found one that it does not know")]
    Unknown,
    /// Not a token of this tenant.
    #[error("expected a token of this tenant, found none")]
    NotFound,
    /// The subject's name is no name.
    #[error(
        "expected a subject of 1 to {SUBJECT_CHARS_MAX} printable characters, found {found} characters"
    )]
    Subject {
        /// Its length.
        found: usize,
    },
    /// A permission that does not exist.
    #[error(
        "expected permissions of compute:fleet:admin, compute:pool:read, compute:pool:admin and compute:tenant:admin, found another one or none"
    )]
    Permission,
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
pub(crate) async fn authenticate(db: &Db, text: &str) -> Result<Subject, TokenError> {
    let bearer = Bearer::<TokenId>::parse(text).ok_or(TokenError::Unknown)?;
    let row = query(
        "SELECT tenant, subject, secret_sha256, permissions FROM api_tokens
         WHERE id = $1 AND revoked_at IS NULL",
    )
    .bind(bearer.id().as_str())
    .fetch_optional(db.reader())
    .await?
    .ok_or(TokenError::Unknown)?;
    if !bearer.matches(row.try_get("secret_sha256")?) {
        return Err(TokenError::Unknown);
    }
    Ok(subject(&row)?)
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
    let subject = Subject {
        name: request.subject.clone(),
        tenant: request.tenant_id.clone(),
        permissions: permissions(request)?,
    };
    let bearer = Bearer::fresh(TokenId::random(now.unix_ms(), chance::bits()));
    let mut tx = db.begin().await?;
    insert(&mut tx, &bearer, &subject, now).await?;
    let draft = Draft {
        kind: "token.created",
        subject: format!("token/{}", bearer.id()),
        tenant: &request.tenant_id,
        actor,
        data: json!({ "subject": request.subject, "permissions": request.permissions }),
    };
    publish(&mut tx, draft, now);
    tx.commit().await?;
    Ok(NewToken {
        id: bearer.id().clone(),
        token: bearer.reveal(),
    })
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
        revoked_at: moment_option(row, "revoked_at")?,
    })
}

/// The permissions that a request is for: at least one, and none that does not exist.
pub(crate) fn permissions(request: &CreateToken) -> Result<BTreeSet<Action>, TokenError> {
    let wanted = request.permissions.iter().map(|word| word.parse());
    let permissions: BTreeSet<Action> = wanted
        .collect::<Result<_, _>>()
        .map_err(|_| TokenError::Permission)?;
    if permissions.is_empty() {
        return Err(TokenError::Permission);
    }
    Ok(permissions)
}

/// Makes the first token, if there has never been one, and writes it to `admin.token` in the data folder.
pub(crate) async fn ensure_first(db: &Db, data_dir: &Path, now: Moment) -> Result<(), TokenError> {
    let mut tx = db.begin().await?;
    turn(&mut tx, "first-token").await?;
    let any: bool = query_scalar("SELECT EXISTS (SELECT 1 FROM api_tokens)")
        .fetch_one(&mut *tx)
        .await?;
    if any {
        return Ok(());
    }
    let subject = Subject {
        name: "admin".to_owned(),
        tenant: ROOT_TENANT
            .parse()
            .map_err(|error| undecodable("tenant", error))?,
        permissions: Action::ALL.into(),
    };
    let bearer = Bearer::fresh(TokenId::random(now.unix_ms(), chance::bits()));
    insert(&mut tx, &bearer, &subject, now).await?;
    let path = data_dir.join("admin.token");
    // The file comes first: a token that works and that nobody knows would keep the next start from making another.
    files::replace_private(&path, format!("{}\n", bearer.reveal()).as_bytes()).map_err(
        |source| TokenError::File {
            path: path.display().to_string(),
            source,
        },
    )?;
    tx.commit().await?;
    tracing::info!(path = %path.display(), "the first admin token is written");
    Ok(())
}

async fn insert(
    tx: &mut Tx,
    bearer: &Bearer<TokenId>,
    subject: &Subject,
    now: Moment,
) -> Result<(), sqlx::Error> {
    let permissions: Vec<String> = subject.permissions.iter().map(Action::to_string).collect();
    query(
        "INSERT INTO api_tokens (id, tenant, subject, secret_sha256, permissions, created_at)
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(bearer.id().as_str())
    .bind(subject.tenant.as_str())
    .bind(&subject.name)
    .bind(bearer.digest().as_bytes().as_slice())
    .bind(json!(permissions).to_string())
    .bind(now.millis())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

//! The administrator's token that the service makes by itself.
//!
//! Takes the data folder, gives `admin.token` in it, a file that its owner alone can read. It makes one where there has
//! never been a token, or where whoever starts the service asks for another.

use std::path::Path;

use bc_protocol::id::TokenId;
use serde_json::json;

use super::{Subject, TokenError, insert, words};
use crate::{
    access::{
        action::{Action, ROOT_TENANT},
        bearer::Bearer,
    },
    chance,
    clock::Moment,
    db::{Db, column::undecodable, contention::turn, query_scalar},
    event::outbox::{Draft, publish},
    files,
};

/// When an administrator's token is made as the service starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstToken {
    /// If there has never been a token.
    IfNone,
    /// Also if there has: nobody has kept one.
    Anew,
}

/// Makes an administrator's token where it is wanted, and writes it to `admin.token` in the data folder. Whoever starts the
/// service owns all that it knows.
pub(crate) async fn ensure_first(
    db: &Db,
    data_dir: &Path,
    (wanted, now): (FirstToken, Moment),
) -> Result<(), TokenError> {
    let mut tx = db.begin().await?;
    turn(&mut tx, "first-token").await?;
    let any: bool = query_scalar("SELECT EXISTS (SELECT 1 FROM api_tokens)")
        .fetch_one(&mut *tx)
        .await?;
    if any && wanted == FirstToken::IfNone {
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
    insert(&mut tx, &bearer, &subject, (now, None)).await?;
    let path = data_dir.join("admin.token");
    // The file comes first: a token that works and that nobody knows would keep the next start from making another.
    files::replace_private(&path, format!("{}\n", bearer.reveal()).as_bytes()).map_err(
        |source| TokenError::File {
            path: path.display().to_string(),
            source,
        },
    )?;
    let draft = Draft {
        kind: "token.created",
        subject: format!("token/{}", bearer.id()),
        tenant: &subject.tenant,
        actor: "control",
        data: json!({ "subject": subject.name, "permissions": words(&subject), "expiresAt": null }),
    };
    if any {
        publish(&mut tx, draft, now);
    }
    tx.commit().await?;
    tracing::info!(path = %path.display(), "an admin token is written");
    Ok(())
}

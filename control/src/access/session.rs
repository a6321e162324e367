//! Sessions of people who signed in with an API token.
//!
//! Takes a token once, gives a secret for the browser to keep; takes the secret, gives the token's holder. Only digests
//! are stored. A session ends with its token, when its time is over, and when its holder says so; what its holder may do
//! is asked anew every time.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bc_protocol::{digest::Sha256, id::TokenId};
use serde_json::json;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::{
    bearer::Bearer,
    token::{self, Subject, TokenError},
};
use crate::{
    chance,
    clock::Moment,
    db::{Db, column::moment, query},
    event::outbox::{Draft, publish},
};

/// A working day: whoever comes back tomorrow shows the token again.
pub(crate) const LIFE: Duration = Duration::from_secs(12 * 60 * 60);

/// Sessions of one token that are kept, the newest ones: browsers that were closed never say so.
const KEPT_MAX: u32 = 20;

/// What the browser keeps. `Debug` does not show it.
pub(crate) struct Secret(Zeroizing<String>);

/// A secret's length as text.
const SECRET_CHARS: usize = 43;

/// Somebody who has signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// Who.
    pub subject: Subject,
    /// Until when.
    pub expires_at: Moment,
}

impl Secret {
    fn fresh() -> Self {
        let bytes = Zeroizing::new(chance::secret());
        Self(Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes.as_slice())))
    }

    /// Reads what a browser sends; nothing where it is no secret of ours.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let well_formed = text.len() == SECRET_CHARS
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        well_formed.then(|| Self(Zeroizing::new(text.to_owned())))
    }

    /// What the browser is given, once.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    fn digest(&self) -> Sha256 {
        Sha256::of(self.0.as_bytes())
    }

    /// What the session's own forms carry, and others' cannot: it says nothing of the secret, and only who knows that can
    /// make it.
    pub(crate) fn form_token(&self) -> String {
        let text = Zeroizing::new(format!("a form of the session {}", self.0.as_str()));
        URL_SAFE_NO_PAD.encode(Sha256::of(text.as_bytes()).as_bytes())
    }

    /// Whether a form carries this session's token. It takes as long for every answer.
    pub(crate) fn made_form(&self, shown: &str) -> bool {
        self.form_token().as_bytes().ct_eq(shown.as_bytes()).into()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Secret").finish_non_exhaustive()
    }
}

/// Begins a session for whoever shows a token.
pub(crate) async fn begin(
    db: &Db,
    text: &str,
    now: Moment,
) -> Result<(Secret, Subject), TokenError> {
    let subject = token::authenticate(db, text, now).await?;
    let bearer = Bearer::<TokenId>::parse(text).ok_or(TokenError::Unknown)?;
    let secret = Secret::fresh();
    let mut tx = db.begin().await?;
    query("DELETE FROM console_sessions WHERE expires_at <= $1")
        .bind(now.millis())
        .execute(&mut *tx)
        .await?;
    query(
        "INSERT INTO console_sessions (secret_sha256, token_id, created_at, expires_at)
         VALUES ($1, $2, $3, $4)",
    )
    .bind(secret.digest().as_bytes().as_slice())
    .bind(bearer.id().as_str())
    .bind(now.millis())
    .bind(now.plus(LIFE).millis())
    .execute(&mut *tx)
    .await?;
    query(
        "DELETE FROM console_sessions WHERE token_id = $1 AND secret_sha256 NOT IN (
             SELECT secret_sha256 FROM console_sessions WHERE token_id = $1
             ORDER BY created_at DESC, secret_sha256 LIMIT $2)",
    )
    .bind(bearer.id().as_str())
    .bind(KEPT_MAX)
    .execute(&mut *tx)
    .await?;
    let draft = Draft {
        kind: "token.signed-in",
        subject: format!("token/{}", bearer.id()),
        tenant: &subject.tenant,
        actor: &subject.name,
        data: json!({ "subject": subject.name }),
    };
    publish(&mut tx, draft, now);
    tx.commit().await?;
    Ok((secret, subject))
}

/// The session of a secret, if it lasts.
pub(crate) async fn find(
    db: &Db,
    secret: &Secret,
    now: Moment,
) -> Result<Option<Session>, sqlx::Error> {
    let row = query(
        "SELECT t.tenant, t.subject, t.permissions, s.expires_at
         FROM console_sessions s JOIN api_tokens t ON t.id = s.token_id
         WHERE s.secret_sha256 = $1 AND s.expires_at > $2 AND t.revoked_at IS NULL
           AND (t.expires_at IS NULL OR t.expires_at > $2)",
    )
    .bind(secret.digest().as_bytes().as_slice())
    .bind(now.millis())
    .fetch_optional(db.reader())
    .await?;
    row.map(|row| {
        Ok(Session {
            subject: token::subject(&row)?,
            expires_at: moment(&row, "expires_at")?,
        })
    })
    .transpose()
}

/// Ends a session. One that has ended stays so.
pub(crate) async fn end(db: &Db, secret: &Secret) -> Result<(), sqlx::Error> {
    let mut tx = db.begin().await?;
    query("DELETE FROM console_sessions WHERE secret_sha256 = $1")
        .bind(secret.digest().as_bytes().as_slice())
        .execute(&mut *tx)
        .await?;
    tx.commit().await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LIFE, Secret, begin, end, find};
    use crate::{
        access::token::{TokenError, create, revoke},
        api::{access::OneToken, fleet::CreateToken},
        clock::Moment,
        db::{Db, query_scalar, tests::fresh},
    };

    const NOW: Moment = Moment::from_millis(1_700_000_000_000);

    async fn token(db: &Db) -> (OneToken, String) {
        let request = CreateToken {
            tenant_id: "root".parse().unwrap(),
            subject: "alice".to_owned(),
            permissions: vec!["compute:fleet:admin".to_owned()],
            expires_in_seconds: Some(LIFE.as_secs_f64() * 2.0),
        };
        let made = create(db, "admin", &request, NOW).await.unwrap();
        let one = OneToken {
            tenant_id: request.tenant_id,
            token_id: made.id,
        };
        (one, made.token)
    }

    #[tokio::test]
    async fn a_session_lasts_until_its_time_its_end_or_its_tokens() {
        let (db, _dir) = fresh().await;
        let (one, text) = token(&db).await;
        let (first, subject) = begin(&db, &text, NOW).await.unwrap();
        let (second, _) = begin(&db, &text, NOW).await.unwrap();
        let found = find(&db, &first, NOW).await.unwrap().unwrap();
        assert_eq!(found.subject, subject);
        assert_eq!(found.expires_at, NOW.plus(LIFE));
        let just = NOW.plus(LIFE).minus(Duration::from_millis(1));
        assert!(find(&db, &first, just).await.unwrap().is_some());
        assert!(find(&db, &first, NOW.plus(LIFE)).await.unwrap().is_none());
        end(&db, &first).await.unwrap();
        assert!(find(&db, &first, NOW).await.unwrap().is_none());
        assert!(find(&db, &second, NOW).await.unwrap().is_some());
        revoke(&db, "admin", &one, NOW).await.unwrap();
        assert!(find(&db, &second, NOW).await.unwrap().is_none());
        let again = begin(&db, &text, NOW).await;
        assert!(matches!(again, Err(TokenError::Unknown)), "{again:?}");
    }

    #[tokio::test]
    async fn a_session_ends_with_its_token() {
        let (db, _dir) = fresh().await;
        let (_, text) = token(&db).await;
        let over = NOW.plus(LIFE * 2);
        let before = over.minus(Duration::from_millis(1));
        let (secret, _) = begin(&db, &text, before).await.unwrap();
        assert!(find(&db, &secret, before).await.unwrap().is_some());
        assert!(find(&db, &secret, over).await.unwrap().is_none());
        let again = begin(&db, &text, over).await;
        assert!(
            matches!(again, Err(TokenError::Expired { .. })),
            "{again:?}"
        );
    }

    #[tokio::test]
    async fn what_the_browser_keeps_is_stored_nowhere() {
        let (db, _dir) = fresh().await;
        let (_, text) = token(&db).await;
        let (secret, _) = begin(&db, &text, NOW).await.unwrap();
        let stored: Vec<u8> = query_scalar("SELECT secret_sha256 FROM console_sessions")
            .fetch_one(db.reader())
            .await
            .unwrap();
        assert_eq!(stored, secret.digest().as_bytes());
        assert!(!format!("{secret:?}").contains(secret.reveal()));
        assert!(!secret.form_token().contains(secret.reveal()));
    }

    #[tokio::test]
    async fn old_sessions_of_a_token_give_way() {
        let (db, _dir) = fresh().await;
        let (_, text) = token(&db).await;
        let (first, _) = begin(&db, &text, NOW).await.unwrap();
        let mut last = None;
        for later in 1..=super::KEPT_MAX {
            let at = NOW.plus(Duration::from_millis(later.into()));
            last = Some(begin(&db, &text, at).await.unwrap().0);
        }
        assert!(find(&db, &first, NOW).await.unwrap().is_none());
        assert!(find(&db, &last.unwrap(), NOW).await.unwrap().is_some());
    }

    #[test]
    fn forms_belong_to_one_session() {
        let (one, other) = (Secret::fresh(), Secret::fresh());
        assert!(one.made_form(&one.form_token()));
        assert!(!one.made_form(&other.form_token()));
        assert!(!one.made_form(""));
    }

    #[test]
    fn only_secrets_of_ours_are_looked_up() {
        let secret = Secret::fresh();
        assert!(Secret::parse(secret.reveal()).is_some());
        for text in ["", "x", &"!".repeat(43), &"a".repeat(44)] {
            assert!(Secret::parse(text).is_none(), "{text}");
        }
    }
}

//! Ends, last uses, and who can always make another.

use std::time::Duration;

use bc_protocol::id::TokenId;

use super::{
    FirstToken, TokenError, USE_KEPT_EVERY, authenticate, create, ensure_first, list, revoke,
};
use crate::{
    access::action::Action,
    api::{access::OneToken, fleet::CreateToken},
    clock::Moment,
    db::{Db, tests::fresh},
};

const NOW: Moment = Moment::from_millis(1_700_000_000_000);

fn request(expires_in_seconds: Option<f64>) -> CreateToken {
    CreateToken {
        tenant_id: "root".parse().unwrap(),
        subject: "alice".to_owned(),
        permissions: vec!["compute:pool:read".to_owned()],
        expires_in_seconds,
    }
}

async fn last_use(db: &Db) -> Option<Moment> {
    let tokens = list(db, &"root".parse().unwrap()).await.unwrap();
    tokens.first().unwrap().last_used_at
}

#[tokio::test]
async fn a_token_with_an_end_works_until_then() {
    let (db, _dir) = fresh().await;
    let made = create(&db, "admin", &request(Some(60.0)), NOW)
        .await
        .unwrap();
    let end = NOW.plus(Duration::from_secs(60));
    assert_eq!(made.expires_at, Some(end));
    let just = end.minus(Duration::from_millis(1));
    authenticate(&db, &made.token, just).await.unwrap();
    let over = authenticate(&db, &made.token, end).await;
    assert!(
        matches!(over, Err(TokenError::Expired { at }) if at == end),
        "{over:?}"
    );
    // Who does not hold it learns nothing of its end.
    let guess = format!("{}.x", made.id);
    let unknown = authenticate(&db, &guess, end).await;
    assert!(matches!(unknown, Err(TokenError::Unknown)), "{unknown:?}");
}

#[tokio::test]
async fn nobody_is_called_as_control_is_in_events() {
    let (db, _dir) = fresh().await;
    let posing = CreateToken {
        subject: "control".to_owned(),
        ..request(None)
    };
    let refused = create(&db, "admin", &posing, NOW).await;
    assert!(matches!(refused, Err(TokenError::Reserved)));
}

#[tokio::test]
async fn a_life_is_more_than_nothing_and_at_most_a_year() {
    let (db, _dir) = fresh().await;
    for found in [0.0, -1.0, f64::NAN, f64::INFINITY, 31_536_001.0] {
        let refused = create(&db, "admin", &request(Some(found)), NOW).await;
        assert!(matches!(refused, Err(TokenError::Life { .. })), "{found}");
    }
    create(&db, "admin", &request(Some(31_536_000.0)), NOW)
        .await
        .unwrap();
}

#[tokio::test]
async fn the_last_use_is_kept_once_an_hour() {
    let (db, _dir) = fresh().await;
    let made = create(&db, "admin", &request(None), NOW).await.unwrap();
    assert_eq!(last_use(&db).await, None);
    let soon = NOW.plus(USE_KEPT_EVERY).minus(Duration::from_millis(1));
    let later = NOW.plus(USE_KEPT_EVERY);
    for (at, kept) in [(NOW, NOW), (soon, NOW), (later, later)] {
        authenticate(&db, &made.token, at).await.unwrap();
        assert_eq!(last_use(&db).await, Some(kept));
    }
}

#[tokio::test]
async fn somebody_can_always_make_another_token() {
    let (db, dir) = fresh().await;
    let admin = |life| CreateToken {
        permissions: vec!["compute:tenant:admin".to_owned()],
        ..request(life)
    };
    let revoked = async |token: &TokenId| {
        let one = OneToken {
            tenant_id: "root".parse().unwrap(),
            token_id: token.clone(),
        };
        revoke(&db, "admin", &one, NOW).await
    };
    let one = create(&db, "admin", &admin(None), NOW).await.unwrap();
    // Neither a token that will end nor one that may only look makes up for it.
    for other in [admin(Some(60.0)), request(None)] {
        let other = create(&db, "admin", &other, NOW).await.unwrap();
        let refused = revoked(&one.id).await;
        assert!(
            matches!(refused, Err(TokenError::LastAdministrator)),
            "{refused:?}"
        );
        revoked(&other.id).await.unwrap();
    }
    let two = create(&db, "admin", &admin(None), NOW).await.unwrap();
    revoked(&one.id).await.unwrap();
    revoked(&one.id).await.unwrap();
    let refused = revoked(&two.id).await;
    assert!(
        matches!(refused, Err(TokenError::LastAdministrator)),
        "{refused:?}"
    );
    // Who has lost it makes another where the service runs.
    let path = dir.path().join("admin.token");
    ensure_first(&db, dir.path(), (FirstToken::IfNone, NOW))
        .await
        .unwrap();
    assert!(!path.exists());
    ensure_first(&db, dir.path(), (FirstToken::Anew, NOW))
        .await
        .unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let subject = authenticate(&db, text.trim(), NOW).await.unwrap();
    assert_eq!(subject.permissions, Action::ALL.into());
    revoked(&two.id).await.unwrap();
}

#[test]
fn a_permission_that_is_none_is_named() {
    let mut wrong = request(None);
    wrong.permissions.push("compute:pool:write".to_owned());
    let said = super::permissions(&wrong).unwrap_err().to_string();
    assert!(said.ends_with(", found \"compute:pool:write\""), "{said}");
    wrong.permissions.clear();
    let said = super::permissions(&wrong).unwrap_err().to_string();
    assert!(said.ends_with(", found none"), "{said}");
}

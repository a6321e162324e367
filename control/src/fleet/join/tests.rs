use std::{collections::BTreeMap, time::Duration};

use bc_protocol::id::TenantId;
use rcgen::{CertificateParams, KeyPair};

use super::{JoinError, create_token, join};
use crate::{
    api::fleet::{CreateJoinToken, CreatePool, JoinNode, JoinedNode, OnePool, PoolPolicy},
    clock::Moment,
    db::{Db, query, query_scalar, tests::fresh},
    fleet::{
        authority::{Authority, CertifiedKey, Lifetimes},
        pool,
        renew::{self, RenewError},
    },
};

const NOW: Moment = Moment::from_millis(1_790_000_000_000);

struct Site {
    db: Db,
    authority: Authority,
    pool: OnePool,
    _dir: tempfile::TempDir,
}

fn tenant() -> TenantId {
    "root".parse().unwrap()
}

fn request(key: &KeyPair) -> JoinNode {
    let csr = CertificateParams::default().serialize_request(key).unwrap();
    JoinNode {
        csr: csr.pem().unwrap(),
        labels: [("cpu.arch".to_owned(), "x86_64".to_owned())].into(),
    }
}

impl Site {
    async fn new() -> Self {
        let (db, dir) = fresh().await;
        let authority = Authority::open(dir.path(), Lifetimes::default(), NOW).unwrap();
        let pool = CreatePool {
            tenant_id: tenant(),
            name: "edge".to_owned(),
            policy: PoolPolicy::default(),
        };
        let pool = pool::create(&db, "alice", &pool, NOW).await.unwrap();
        let pool = OnePool {
            tenant_id: tenant(),
            pool_id: pool.id,
        };
        Self {
            db,
            authority,
            pool,
            _dir: dir,
        }
    }

    async fn token(&self, uses: u32) -> String {
        let request = CreateJoinToken {
            tenant_id: tenant(),
            pool_id: self.pool.pool_id.clone(),
            uses,
            expires_in_seconds: 60.0,
        };
        let token = create_token(&self.db, "alice", &request, NOW)
            .await
            .unwrap();
        token.token
    }

    async fn join(&self, token: &str, request: &JoinNode) -> Result<JoinedNode, JoinError> {
        join(&self.db, &self.authority, token, request, NOW).await
    }

    /// Nodes in the pool, uses of all tokens, `node.joined` events.
    async fn counts(&self) -> (u32, i64, i64) {
        let pool = pool::get(&self.db, &self.pool).await.unwrap();
        let count = |sql: &'static str| query_scalar(sql).fetch_one(self.db.reader());
        let uses = count("SELECT cast(coalesce(sum(uses), 0) AS BIGINT) FROM join_tokens").await;
        let events = count("SELECT count(*) FROM events WHERE type = 'node.joined'").await;
        (pool.nodes, uses.unwrap(), events.unwrap())
    }
}

#[tokio::test]
async fn a_lost_answer_makes_no_ghost_and_spends_no_use() {
    let site = Site::new().await;
    let token = site.token(1).await;
    let node = request(&KeyPair::generate().unwrap());
    let first = site.join(&token, &node).await.unwrap();
    let again = site.join(&token, &node).await.unwrap();
    assert_eq!(first.node_id, again.node_id);
    assert_eq!(site.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_after_the_tokens_end_too() {
    let site = Site::new().await;
    let token = site.token(1).await;
    let node = request(&KeyPair::generate().unwrap());
    let first = site.join(&token, &node).await.unwrap();
    let later = NOW.plus(Duration::from_secs(3600));
    let again = join(&site.db, &site.authority, &token, &node, later).await;
    assert_eq!(again.unwrap().node_id, first.node_id);
}

#[tokio::test]
async fn equal_calls_at_once_make_one_node() {
    let site = Site::new().await;
    let token = site.token(5).await;
    let node = request(&KeyPair::generate().unwrap());
    let calls = (0..20).map(|_| site.join(&token, &node));
    let ids: std::collections::BTreeSet<_> = futures_util::future::join_all(calls)
        .await
        .into_iter()
        .map(|joined| joined.unwrap().node_id)
        .collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(site.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn a_token_is_good_for_so_many_nodes_and_no_more() {
    let site = Site::new().await;
    let token = site.token(2).await;
    let keys: Vec<KeyPair> = (0..5).map(|_| KeyPair::generate().unwrap()).collect();
    let requests: Vec<JoinNode> = keys.iter().map(request).collect();
    let calls = requests.iter().map(|node| site.join(&token, node));
    let joined = futures_util::future::join_all(calls).await;
    let refused = joined
        .iter()
        .filter(|joined| matches!(joined, Err(JoinError::UsedUp { uses: 2 })));
    assert_eq!(refused.count(), 3);
    assert_eq!(site.counts().await, (2, 2, 2));
}

#[tokio::test]
async fn one_key_with_two_tokens_is_two_nodes() {
    let site = Site::new().await;
    let (one, other) = (site.token(1).await, site.token(1).await);
    let node = request(&KeyPair::generate().unwrap());
    let first = site.join(&one, &node).await.unwrap();
    let second = site.join(&other, &node).await.unwrap();
    assert_ne!(first.node_id, second.node_id);
}

#[tokio::test]
async fn a_token_that_is_over_lets_nobody_in() {
    let site = Site::new().await;
    let node = request(&KeyPair::generate().unwrap());
    let (expired, revoked) = (site.token(1).await, site.token(1).await);
    let mut tx = site.db.begin().await.unwrap();
    let (id, _) = revoked.split_once('.').unwrap();
    query("UPDATE join_tokens SET revoked_at = 1 WHERE id = $1")
        .bind(id)
        .execute(&mut *tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let end = NOW.plus(Duration::from_secs(60));
    let refused = join(&site.db, &site.authority, &expired, &node, end).await;
    assert!(
        matches!(refused, Err(JoinError::Expired { .. })),
        "{refused:?}"
    );
    let refused = site.join(&revoked, &node).await;
    assert!(matches!(refused, Err(JoinError::Revoked)), "{refused:?}");
    let known = site.token(1).await;
    let archive = OnePool {
        tenant_id: site.pool.tenant_id.clone(),
        pool_id: site.pool.pool_id.clone(),
    };
    pool::archive(&site.db, "alice", &archive, NOW)
        .await
        .unwrap();
    let refused = site.join(&known, &node).await;
    assert!(matches!(refused, Err(JoinError::Archived)), "{refused:?}");
    assert_eq!(site.counts().await, (0, 0, 0));
}

#[tokio::test]
async fn a_wrong_token_is_unknown_whatever_is_wrong() {
    let site = Site::new().await;
    let token = site.token(1).await;
    let node = request(&KeyPair::generate().unwrap());
    let (id, secret) = token.split_once('.').unwrap();
    let mut flipped = secret.to_owned();
    flipped.replace_range(0..1, if secret.starts_with('A') { "B" } else { "A" });
    for wrong in [
        format!("{id}.{flipped}"),
        format!("{id}."),
        format!("{id}.{secret}x"),
        id.to_owned(),
        format!("bcjt_00000000000000000000000000.{secret}"),
        String::new(),
    ] {
        let refused = site.join(&wrong, &node).await;
        assert!(
            matches!(refused, Err(JoinError::UnknownToken)),
            "{wrong}: {refused:?}"
        );
    }
    assert_eq!(site.counts().await, (0, 0, 0));
}

#[tokio::test]
async fn a_bad_request_spends_nothing() {
    let site = Site::new().await;
    let token = site.token(1).await;
    let good = request(&KeyPair::generate().unwrap());
    let no_request = JoinNode {
        csr: "nonsense".to_owned(),
        labels: BTreeMap::new(),
    };
    let refused = site.join(&token, &no_request).await;
    assert!(matches!(refused, Err(JoinError::Request(_))), "{refused:?}");
    for (name, value) in [
        ("x", "y".repeat(257)),
        ("x\0", String::new()),
        ("x", "\u{1}".to_owned()),
    ] {
        let wrong = JoinNode {
            csr: good.csr.clone(),
            labels: [(name.to_owned(), value)].into(),
        };
        let refused = site.join(&token, &wrong).await;
        assert!(matches!(refused, Err(JoinError::Labels)), "{refused:?}");
    }
    assert_eq!(site.counts().await, (0, 0, 0));
    site.join(&token, &good).await.unwrap();
}

#[tokio::test]
async fn a_removed_node_does_not_come_back_with_its_key() {
    let site = Site::new().await;
    let token = site.token(5).await;
    let node = request(&KeyPair::generate().unwrap());
    site.join(&token, &node).await.unwrap();
    let mut tx = site.db.begin().await.unwrap();
    query("UPDATE nodes SET removed_at = 1")
        .execute(&mut *tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let refused = site.join(&token, &node).await;
    assert!(matches!(refused, Err(JoinError::Removed)), "{refused:?}");
}

#[tokio::test]
async fn a_token_needs_uses_and_time() {
    let site = Site::new().await;
    let wanted = |uses, expires_in_seconds| CreateJoinToken {
        tenant_id: tenant(),
        pool_id: site.pool.pool_id.clone(),
        uses,
        expires_in_seconds,
    };
    for uses in [0, 100_001] {
        let refused = create_token(&site.db, "alice", &wanted(uses, 1.0), NOW).await;
        assert!(matches!(refused, Err(JoinError::Uses { .. })), "{uses}");
    }
    for seconds in [0.0, -0.0, -1.0, 31_536_000.1, f64::NAN, f64::INFINITY] {
        let refused = create_token(&site.db, "alice", &wanted(1, seconds), NOW).await;
        assert!(
            matches!(refused, Err(JoinError::Expiry { .. })),
            "{seconds}"
        );
    }
    create_token(&site.db, "alice", &wanted(1, 0.5), NOW)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_node_renews_with_the_key_it_joined_with() {
    let site = Site::new().await;
    let token = site.token(1).await;
    let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let joined = site.join(&token, &request(&key)).await.unwrap();
    let renew = async |key: &KeyPair| {
        let key = CertifiedKey::from_request(&request(key).csr).unwrap();
        renew::node(&site.db, &site.authority, &joined.node_id, &key, NOW).await
    };
    let renewed = renew(&key).await.unwrap();
    assert_ne!(renewed.certificate, joined.certificate);
    assert_eq!(renewed.authorities, joined.authorities);
    assert!(matches!(renew(&other).await, Err(RenewError::Unknown)));
    let mut tx = site.db.begin().await.unwrap();
    query("UPDATE nodes SET removed_at = 1")
        .execute(&mut *tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert!(matches!(renew(&key).await, Err(RenewError::Removed)));
    assert!(matches!(renew(&other).await, Err(RenewError::Unknown)));
}

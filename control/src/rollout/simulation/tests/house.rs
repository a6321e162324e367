//! The store and the model side by side, from empty on: pools, nodes and links, in both.

use std::collections::{BTreeMap, BTreeSet};

use bc_protocol::{
    digest::Sha256,
    id::{GatewayId, NodeId, PoolId, RolloutId},
    link::Event,
    sequence::{ReleaseFloor, Sequence},
    session::Facts,
    share::Share,
};
use rand::{SeedableRng as _, rngs::StdRng};

use super::super::view::GRACE;
use crate::{
    clock::Moment,
    db::{query, tests::fresh},
    fleet::{facts, late::await_change},
    rollout::{service::Services, tests::signed},
    simulation::Control,
};

pub(super) const RELEASES: [(&str, u64); 3] = [("1.0.0", 10), ("1.1.0", 11), ("1.2.0", 12)];

/// What passes read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// Small waves, and everything of them.
    Whole,
    /// Of large waves whose turn it is, and of what flies, what is new.
    Part,
}

impl Reads {
    /// The pools: nodes, and the share of them that may be disrupted.
    fn pools(self) -> [(u8, u32); 2] {
        match self {
            Self::Whole => [(4, 500_000), (3, 50_000)],
            Self::Part => [(70, 100_000), (45, 50_000)],
        }
    }
}

/// The store and the model of it.
pub(super) struct Both {
    pub(super) services: Services,
    pub(super) control: Control,
    pub(super) now: Moment,
    pub(super) pools: Vec<PoolId>,
    pub(super) nodes: Vec<(NodeId, PoolId)>,
    pub(super) facts: BTreeMap<NodeId, Facts>,
    /// Connection, report, and whether the session lives.
    pub(super) sessions: BTreeMap<NodeId, (u64, u64, bool)>,
    pub(super) removed: BTreeSet<NodeId>,
    pub(super) rollouts: Vec<RolloutId>,
    pub(super) link: u64,
    pub(super) reads: Reads,
    /// The nodes of which something is new since the last passes; none where it may be anybody.
    pub(super) news: Option<BTreeSet<NodeId>>,
    /// Plans that were made from a part.
    pub(super) parts: u32,
    pub(super) random: StdRng,
    _dir: tempfile::TempDir,
}

pub(super) fn gateway() -> GatewayId {
    GatewayId::derived(&[b"gateway"])
}

pub(super) fn first_facts() -> Facts {
    Facts {
        version: "1.0.0".parse().unwrap(),
        platform: "linux-amd64".parse().unwrap(),
        boot_id: "boot".to_owned(),
        slot: None,
        sequence: Sequence::new(10).unwrap(),
        digest: Sha256::of(b"1.0.0"),
        floor: ReleaseFloor::starting_at(Sequence::new(10).unwrap()),
        trial: None,
        last_attempt: None,
        progress: None,
        observed_generation: 1,
        held: None,
        notice: None,
        helper: None,
        started: Some([1; 16].into()),
    }
}

impl Both {
    pub(super) async fn new(seed: u64, reads: Reads) -> Self {
        let (db, dir) = fresh().await;
        let mut control = Control::new(None);
        for (version, sequence) in RELEASES {
            signed::register(&db, version, sequence).await;
            let digest = Sha256::of(version.as_bytes());
            control.register(
                version.parse().unwrap(),
                Sequence::new(sequence).unwrap(),
                digest,
            );
        }
        let services = Services::new(db, signed::trust(), "http://downloads", GRACE);
        let mut both = Self {
            now: Moment::now(),
            services,
            control,
            pools: Vec::new(),
            nodes: Vec::new(),
            facts: BTreeMap::new(),
            sessions: BTreeMap::new(),
            removed: BTreeSet::new(),
            rollouts: Vec::new(),
            link: 0,
            reads,
            news: None,
            parts: 0,
            random: StdRng::seed_from_u64(seed),
            _dir: dir,
        };
        let mut tx = both.services.db.begin().await.unwrap();
        query(
            "INSERT INTO gateways (id, name, url, token_sha256, token_expires_at, created_at, created_by)
             VALUES ($1, 'g', 'wss://x/session', cast('' AS BLOB), 0, 0, 'x')",
        )
        .bind(gateway().as_str())
        .execute(&mut tx)
        .await
        .unwrap();
        tx.commit().await.unwrap();
        both.links().await;
        for (nodes, ppm) in reads.pools() {
            both.pool(nodes, ppm).await;
        }
        both
    }

    async fn pool(&mut self, nodes: u8, ppm: u32) {
        let number = u8::try_from(self.pools.len()).unwrap();
        let pool = PoolId::derived(&[&[number]]);
        let mut tx = self.services.db.begin().await.unwrap();
        query("INSERT INTO pools (id, tenant, name, budget_ppm, created_at) VALUES ($1, 'root', $1, $2, 0)")
            .bind(pool.as_str())
            .bind(ppm)
            .execute(&mut tx)
            .await
            .unwrap();
        query(
            "INSERT INTO join_tokens (id, tenant, pool_id, secret_sha256, uses_max, expires_at, created_at, created_by)
             VALUES ($1, 'root', $1, cast('' AS BLOB), 1, 0, 0, 'x')",
        )
        .bind(pool.as_str())
        .execute(&mut tx)
        .await
        .unwrap();
        tx.commit().await.unwrap();
        self.control
            .add_pool(pool.clone(), Share::from_millionths(ppm).unwrap());
        self.pools.push(pool.clone());
        for node in 0..nodes {
            self.joins(NodeId::derived(&[&[number, node]]), &pool).await;
        }
    }

    async fn joins(&mut self, node: NodeId, pool: &PoolId) {
        let mut tx = self.services.db.begin().await.unwrap();
        query(
            "INSERT INTO nodes (id, tenant, pool_id, join_token_id, spki, labels, joined_at)
             VALUES ($1, 'root', $2, $2, cast($1 AS BLOB), '{}', $3)",
        )
        .bind(node.as_str())
        .bind(pool.as_str())
        .bind(self.now.millis())
        .execute(&mut tx)
        .await
        .unwrap();
        query("UPDATE pools SET nodes = nodes + 1 WHERE id = $1")
            .bind(pool.as_str())
            .execute(&mut tx)
            .await
            .unwrap();
        await_change(&mut tx, &node, pool).await.unwrap();
        tx.commit().await.unwrap();
        self.control
            .join(node.clone(), pool.clone(), self.now.millis());
        self.facts.insert(node.clone(), first_facts());
        self.sessions.insert(node.clone(), (0, 0, false));
        self.nodes.push((node.clone(), pool.clone()));
        self.comes(&node).await;
    }

    /// A new link names every session that lives.
    pub(super) async fn links(&mut self) {
        let mut tx = self.services.db.begin().await.unwrap();
        let link = facts::link_opened(&mut tx, &gateway(), self.now)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        self.link = self.control.link_opened(&gateway(), self.now.millis());
        assert_eq!(link, Some(self.link));
        let live: Vec<NodeId> = self
            .sessions
            .iter()
            .filter(|(_, session)| session.2)
            .map(|(node, _)| node.clone())
            .collect();
        let mut events: Vec<Event> = live.iter().map(|node| self.opened(node)).collect();
        events.push(Event::Listed);
        self.say(&events).await;
        self.news = None;
    }

    pub(super) async fn say(&mut self, events: &[Event]) {
        let mut tx = self.services.db.begin().await.unwrap();
        let applied = facts::apply(&mut tx, &gateway(), events, self.now)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        let at_ms = self.now.millis();
        let followed = self
            .control
            .facts((&gateway(), self.link), events, at_ms)
            .unwrap();
        assert_eq!(applied.changed, followed.changed);
        if let Some(news) = &mut self.news {
            news.extend(applied.changed);
        }
        assert_eq!(
            applied.superseded.len() + applied.strangers.len(),
            followed.closings.len()
        );
    }
}

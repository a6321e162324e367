//! A small fleet in a database of its own: facts enter by their one door, nodes read their specs and do as they say.

use std::{collections::BTreeMap, time::Duration};

use bc_protocol::{
    digest::Sha256,
    id::{AttemptId, GatewayId, NodeId, PoolId, RolloutId, SessionId},
    link::{Event, NodeReport, SessionClosed, SessionOpened},
    sequence::{ReleaseFloor, Sequence},
    session::{AttemptFacts, Facts, Outcome},
    spec::{DaemonSection, NodeSpec},
};

use crate::{
    api::rollout::{CreateRollout, ListRollouts, OneRollout, Rollout, RowState},
    clock::Moment,
    db::{query, query_scalar, tests::fresh},
    fleet::{facts, late},
    rollout::{
        controller,
        service::{self, RolloutError, Services},
        tests::signed,
    },
    spec::store::current,
};

/// The release that crashes wherever it is tried.
pub(crate) const BAD: &str = "1.2.0";

const RELEASES: [(&str, u64); 3] = [("1.0.0", 10), ("1.1.0", 11), (BAD, 12)];

pub(crate) struct Fleet {
    pub(crate) services: Services,
    pub(crate) pools: Vec<PoolId>,
    pub(crate) nodes: Vec<NodeId>,
    facts: BTreeMap<NodeId, (u64, Facts)>,
    connections: BTreeMap<NodeId, u64>,
    _dir: tempfile::TempDir,
}

pub(crate) fn gateway() -> GatewayId {
    GatewayId::derived(&[b"gateway"])
}

fn first_facts() -> Facts {
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
        started: None,
    }
}

impl Fleet {
    /// Pools of that many nodes, each with a budget in parts per million; all nodes online and on 1.0.0.
    pub(crate) async fn of(pools: &[(u32, u32)]) -> Self {
        let (db, dir) = fresh().await;
        for (version, sequence) in RELEASES {
            signed::register(&db, version, sequence).await;
        }
        let grace = Duration::from_secs(300);
        let services = Services::new(db, signed::trust(), "http://127.0.0.1/d/", grace);
        let mut fleet = Self {
            services,
            pools: Vec::new(),
            nodes: Vec::new(),
            facts: BTreeMap::new(),
            connections: BTreeMap::new(),
            _dir: dir,
        };
        fleet.gateway().await;
        for (nodes, ppm) in pools {
            fleet.pool(*nodes, *ppm).await;
        }
        fleet
    }

    async fn gateway(&self) {
        let mut tx = self.services.db.begin().await.unwrap();
        query(
            "INSERT INTO gateways (id, name, url, token_sha256, token_expires_at, created_at, created_by)
             VALUES ($1, 'g', 'wss://x/session', cast('' AS BLOB), 0, 0, 'x')",
        )
        .bind(gateway().as_str())
        .execute(&mut *tx)
        .await
        .unwrap();
        facts::link_opened(&mut tx, &gateway(), Moment::now())
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }

    async fn pool(&mut self, nodes: u32, ppm: u32) {
        let pool = PoolId::derived(&[&self.pools.len().to_be_bytes()]);
        let mut tx = self.services.db.begin().await.unwrap();
        query(
            "INSERT INTO pools (id, tenant, name, budget_ppm, nodes, created_at) VALUES ($1, 'root', $1, $2, $3, 0)",
        )
        .bind(pool.as_str())
        .bind(ppm)
        .bind(nodes)
        .execute(&mut *tx)
        .await
        .unwrap();
        query(
            "INSERT INTO join_tokens (id, tenant, pool_id, secret_sha256, uses_max, expires_at, created_at, created_by)
             VALUES ($1, 'root', $1, cast('' AS BLOB), 1, 0, 0, 'x')",
        )
        .bind(pool.as_str())
        .execute(&mut *tx)
        .await
        .unwrap();
        tx.commit().await.unwrap();
        self.pools.push(pool.clone());
        for _ in 0..nodes {
            self.joins(&pool).await;
        }
        // They were there from the beginning.
        let mut tx = self.services.db.begin().await.unwrap();
        query("UPDATE pools SET nodes = $2 WHERE id = $1")
            .bind(pool.as_str())
            .bind(nodes)
            .execute(&mut tx)
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }

    /// A node joins, as joining writes it, and comes.
    pub(crate) async fn joins(&mut self, pool: &PoolId) -> NodeId {
        let mut tx = self.services.db.begin().await.unwrap();
        let node = NodeId::derived(&[b"n", &self.nodes.len().to_be_bytes()]);
        query(
            "INSERT INTO nodes (id, tenant, pool_id, join_token_id, spki, labels, joined_at)
                 VALUES ($1, 'root', $2, $2, cast($1 AS BLOB), '{}', 0)",
        )
        .bind(node.as_str())
        .bind(pool.as_str())
        .execute(&mut tx)
        .await
        .unwrap();
        query("UPDATE pools SET nodes = nodes + 1 WHERE id = $1")
            .bind(pool.as_str())
            .execute(&mut tx)
            .await
            .unwrap();
        late::await_change(&mut tx, &node, pool).await.unwrap();
        tx.commit().await.unwrap();
        self.nodes.push(node.clone());
        self.facts.insert(node.clone(), (0, first_facts()));
        self.comes(&node).await;
        node
    }

    /// A node connects, anew if it was there before.
    pub(crate) async fn comes(&mut self, node: &NodeId) {
        let connection = self.connections.entry(node.clone()).or_default();
        *connection += 1;
        self.facts.get_mut(node).unwrap().0 = 0;
        let opened = self.opened(node);
        self.say(opened).await;
    }

    /// A node's daemon starts again, with the same binary, and connects.
    pub(crate) async fn restarts(&mut self, node: &NodeId) {
        let next = u8::try_from(self.connections[node] + 1).unwrap();
        self.facts.get_mut(node).unwrap().1.started = Some([next; 16].into());
        self.comes(node).await;
    }

    fn opened(&self, node: &NodeId) -> Event {
        Event::Opened(SessionOpened {
            node: node.clone(),
            session: self.session(node),
            connect_seq: self.connections[node],
            protocol: 1,
            upgrade_only: false,
            report: 0,
            facts: self.facts_of(node),
            labels: BTreeMap::from([("cpu.arch".to_owned(), "x86_64".to_owned())]),
            company: None,
        })
    }

    fn session(&self, node: &NodeId) -> SessionId {
        let connection = self.connections[node];
        SessionId::derived(&[node.as_str().as_bytes(), &connection.to_be_bytes()])
    }

    pub(crate) async fn create(&self, version: &str) -> Result<Rollout, RolloutError> {
        service::create(&self.services, "alice", request(version)).await
    }

    pub(crate) async fn get(&self, id: &RolloutId) -> Rollout {
        let request = OneRollout {
            tenant_id: "root".parse().unwrap(),
            rollout_id: id.clone(),
        };
        let rollout = service::get(&self.services, request).await.unwrap();
        let listed = rollout.node_list.as_ref().unwrap();
        assert_eq!(rollout.nodes.total() as usize, listed.len(), "I24");
        rollout
    }

    pub(crate) async fn list(&self) -> Vec<Rollout> {
        let request = ListRollouts {
            tenant_id: "root".parse().unwrap(),
        };
        service::list(&self.services, request)
            .await
            .unwrap()
            .rollouts
    }

    pub(crate) async fn spec(&self, node: &NodeId) -> NodeSpec {
        let Services {
            db,
            trust,
            downloads_url,
            ..
        } = &self.services;
        current(db, node, trust, downloads_url)
            .await
            .unwrap()
            .unwrap()
    }

    /// The version and floor that a node reports.
    pub(crate) fn runs(&self, node: &NodeId) -> (String, u64) {
        let (_, facts) = &self.facts[node];
        (facts.version.to_string(), facts.floor.sequence().get())
    }

    /// What a node said last.
    pub(crate) fn facts_of(&self, node: &NodeId) -> Facts {
        self.facts[node].1.clone()
    }

    pub(crate) async fn pass(&self) {
        controller::pass_all(&self.services).await;
    }

    /// Every node that is told to run something else does so, or fails to.
    pub(crate) async fn nodes_obey(&mut self) {
        for node in self.nodes.clone() {
            self.obeys(&node).await;
        }
    }

    /// One node does what it is told.
    pub(crate) async fn obeys(&mut self, node: &NodeId) {
        let spec = self.spec(node).await;
        if let Some(section) = spec.daemon
            && let Some(facts) = after(&self.facts[node].1, &section, spec.generation)
        {
            self.report(node, facts).await;
        }
    }

    pub(crate) async fn report(&mut self, node: &NodeId, facts: Facts) {
        let number = self.facts[node].0 + 1;
        self.facts.insert(node.clone(), (number, facts.clone()));
        let report = Event::Report(NodeReport {
            node: node.clone(),
            session: self.session(node),
            connect_seq: self.connections[node],
            report: number,
            facts,
        });
        self.say(report).await;
    }

    pub(crate) async fn leave(&self, node: &NodeId) {
        let closed = SessionClosed {
            node: node.clone(),
            session: self.session(node),
            connect_seq: self.connections[node],
            reason: "gone".to_owned(),
        };
        self.say(Event::Closed(closed)).await;
    }

    async fn say(&self, event: Event) {
        let mut tx = self.services.db.begin().await.unwrap();
        let applied = facts::apply(&mut tx, &gateway(), &[event], Moment::now())
            .await
            .unwrap();
        tx.commit().await.unwrap();
        self.services.waker.wake_for_nodes(applied.changed);
    }

    pub(crate) async fn events(&self) -> Vec<String> {
        query_scalar("SELECT type FROM events WHERE type LIKE 'rollout.%' ORDER BY position")
            .fetch_all(self.services.db.reader())
            .await
            .unwrap()
    }

    pub(crate) async fn count(&self, table: &'static str) -> i64 {
        let query = match table {
            "rollouts" => "SELECT count(*) FROM rollouts",
            "rollout_nodes" => "SELECT count(*) FROM rollout_nodes",
            "disruptions" => "SELECT count(*) FROM disruptions",
            "disrupted" => "SELECT cast(sum(disrupted) AS BIGINT) FROM pools",
            _ => panic!("no such count: {table}"),
        };
        query_scalar(query)
            .fetch_one(self.services.db.reader())
            .await
            .unwrap()
    }
}

pub(crate) fn request(version: &str) -> CreateRollout {
    CreateRollout {
        tenant_id: "root".parse().unwrap(),
        version: version.parse().unwrap(),
        pool_ids: None,
        node_ids: None,
        selector: None,
        include_maintenance: false,
        waves: Some(vec!["10".parse().unwrap(), "100".parse().unwrap()]),
        max_failure_ratio: None,
        soak_seconds: Some(0.0),
        upgrade_timeout_seconds: None,
        idempotency_key: None,
    }
}

pub(crate) fn states(rollout: &Rollout, state: RowState) -> Vec<NodeId> {
    let listed = rollout.node_list.iter().flatten();
    listed
        .filter(|row| row.state == state)
        .map(|row| row.node_id.clone())
        .collect()
}

/// What a node says once it has followed a section; nothing where it has answered that attempt already.
pub(crate) fn after(before: &Facts, section: &DaemonSection, generation: u64) -> Option<Facts> {
    let answered = before
        .last_attempt
        .as_ref()
        .is_some_and(|last| last.id == section.attempt);
    if answered {
        return None;
    }
    let attempt = |outcome, code: &str| AttemptFacts {
        id: section.attempt.clone(),
        target: section.version.to_string(),
        outcome,
        is_final: true,
        tries: 1,
        code: code.to_owned(),
        message: String::new(),
        exit_status: None,
        signal: None,
        log: String::new(),
    };
    if section.version.as_str() == BAD {
        return Some(Facts {
            last_attempt: Some(attempt(Outcome::NoWelcome, "no-welcome")),
            observed_generation: generation,
            ..before.clone()
        });
    }
    let (_, sequence) = RELEASES
        .into_iter()
        .find(|(version, _)| *version == section.version.as_str())?;
    let sequence = Sequence::new(sequence).unwrap();
    Some(Facts {
        version: section.version.clone(),
        sequence,
        digest: section.sha256,
        floor: before.floor.raised_to(sequence),
        last_attempt: Some(attempt(Outcome::Confirmed, "")),
        observed_generation: generation,
        ..before.clone()
    })
}

/// An attempt of no rollout.
pub(crate) fn foreign_attempt() -> AttemptId {
    AttemptId::derived(&[b"foreign"])
}

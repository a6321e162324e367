//! The model against the store: one sequence of facts and calls into both, and the same plans, rows and specs out.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bc_protocol::{
    digest::Sha256,
    id::{AttemptId, GatewayId, NodeId, PoolId, RolloutId, SessionId},
    link::{Event, NodeReport, SessionClosed, SessionOpened},
    sequence::{ReleaseFloor, Sequence},
    session::{AttemptFacts, Facts, Outcome},
    share::Share,
    spec::NodeSpec,
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::{create::Wanted, view::GRACE};
use crate::{
    api::{
        fleet::{OneNode, UpdateNode},
        rollout::{CreateRollout, OneRollout},
    },
    clock::Moment,
    db::{query, query_scalar, tests::fresh},
    fleet::{change, disruption, facts, late::await_change},
    rollout::{
        late,
        operator::{self, Call, Flights},
        plan::{Follow, plan},
        service::{self, Services},
        snapshot::{Freeze, Scope},
        store::{self, load::Look},
        tests::signed,
        waker::{Extent, News},
    },
    simulation::Control,
    spec::store::current,
};

const RELEASES: [(&str, u64); 3] = [("1.0.0", 10), ("1.1.0", 11), ("1.2.0", 12)];

/// The store and the model of it.
struct Both {
    services: Services,
    control: Control,
    now: Moment,
    pools: Vec<PoolId>,
    nodes: Vec<(NodeId, PoolId)>,
    facts: BTreeMap<NodeId, Facts>,
    /// Connection, report, and whether the session lives.
    sessions: BTreeMap<NodeId, (u64, u64, bool)>,
    removed: BTreeSet<NodeId>,
    rollouts: Vec<RolloutId>,
    link: u64,
    random: StdRng,
    _dir: tempfile::TempDir,
}

fn gateway() -> GatewayId {
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
        started: Some([1; 16].into()),
    }
}

impl Both {
    async fn new(seed: u64) -> Self {
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
        for (nodes, ppm) in [(4_u8, 500_000), (3, 50_000)] {
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
    async fn links(&mut self) {
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
    }

    async fn say(&mut self, events: &[Event]) {
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
        assert_eq!(
            applied.superseded.len() + applied.strangers.len(),
            followed.closings.len()
        );
    }

    fn session(&self, node: &NodeId) -> SessionId {
        SessionId::derived(&[
            node.as_str().as_bytes(),
            &self.sessions[node].0.to_be_bytes(),
        ])
    }

    fn opened(&self, node: &NodeId) -> Event {
        let (connect_seq, report, _) = self.sessions[node];
        Event::Opened(SessionOpened {
            node: node.clone(),
            session: self.session(node),
            connect_seq,
            protocol: 2,
            upgrade_only: false,
            report,
            facts: self.facts[node].clone(),
            labels: BTreeMap::from([("cpu.arch".to_owned(), "x86_64".to_owned())]),
        })
    }

    async fn comes(&mut self, node: &NodeId) {
        let session = self.sessions.get_mut(node).unwrap();
        *session = (session.0 + 1, 0, true);
        let opened = self.opened(node);
        self.say(&[opened]).await;
    }

    async fn goes(&mut self, node: &NodeId) {
        let closed = SessionClosed {
            node: node.clone(),
            session: self.session(node),
            connect_seq: self.sessions[node].0,
            reason: String::new(),
        };
        self.sessions.get_mut(node).unwrap().2 = false;
        self.say(&[Event::Closed(closed)]).await;
    }

    /// Tells the facts as they are; sometimes twice, and sometimes what was told before once more.
    async fn reports(&mut self, node: &NodeId) {
        let session = self.sessions.get_mut(node).unwrap();
        session.1 += 1;
        let number = session.1;
        let report = NodeReport {
            node: node.clone(),
            session: self.session(node),
            connect_seq: self.sessions[node].0,
            report: number,
            facts: self.facts[node].clone(),
        };
        let older = NodeReport {
            report: number - 1,
            facts: first_facts(),
            ..report.clone()
        };
        let events = [
            Event::Report(report.clone()),
            Event::Report(older),
            Event::Report(report),
        ];
        let told = self.random.random_range(1..=3);
        self.say(&events[..told]).await;
    }

    /// The node does what its spec says, or fails to, or only reads it.
    async fn obeys(&mut self, node: &NodeId, outcome: Outcome) {
        let Some(spec) = self.spec(node).await else {
            return;
        };
        let facts = self.facts.get_mut(node).unwrap();
        facts.observed_generation = spec.generation;
        if let Some(section) = spec.daemon {
            if outcome == Outcome::Confirmed {
                let sequence = RELEASES
                    .iter()
                    .find(|(version, _)| *version == section.version.as_str())
                    .unwrap()
                    .1;
                facts.sequence = Sequence::new(sequence).unwrap();
                facts.floor = facts.floor.raised_to(facts.sequence);
                facts.version = section.version.clone();
                facts.digest = section.sha256;
            }
            facts.last_attempt = Some(attempt(section.attempt, outcome));
        }
        if self.sessions[node].2 {
            self.reports(node).await;
        }
    }

    async fn creates(&mut self) {
        let version = RELEASES[self.random.random_range(0..3)].0;
        let narrow = self.random.random_bool(0.2);
        let nodes: Vec<NodeId> = self
            .nodes
            .iter()
            .step_by(2)
            .map(|(node, _)| node.clone())
            .collect();
        let nodes: Vec<NodeId> = nodes
            .into_iter()
            .filter(|node| !self.removed.contains(node))
            .collect();
        let key = self.rollouts.len().to_string();
        let request = CreateRollout {
            tenant_id: "root".parse().unwrap(),
            version: version.parse().unwrap(),
            pool_ids: None,
            node_ids: narrow.then(|| nodes.clone()),
            selector: None,
            include_maintenance: false,
            waves: Some(
                ["10", "50", "100"]
                    .map(|wave| wave.parse().unwrap())
                    .to_vec(),
            ),
            max_failure_ratio: Some("0.3".parse().unwrap()),
            soak_seconds: Some(60.0),
            upgrade_timeout_seconds: Some(300.0),
            idempotency_key: Some(key.clone()),
        };
        let made = service::create(&self.services, "alice", request).await;
        let id = RolloutId::derived(&[b"root", b"alice", key.as_bytes()]);
        let created_at: Option<i64> = query_scalar("SELECT created_at FROM rollouts WHERE id = $1")
            .bind(id.as_str())
            .fetch_optional(self.services.db.reader())
            .await
            .unwrap();
        let wanted = Wanted {
            id: id.clone(),
            version: version.parse().unwrap(),
            pools: None,
            nodes: narrow.then(|| nodes.into_iter().collect()),
            waves: ["10", "50", "100"]
                .map(|wave| wave.parse().unwrap())
                .to_vec(),
            ratio: "0.3".parse().unwrap(),
            soak: Duration::from_secs(60),
            timeout: Duration::from_secs(300),
            scope: Scope::NotInMaintenance,
        };
        let at = created_at.map_or(self.now, Moment::from_millis);
        let model = self.control.rows.create(&wanted, at);
        assert_eq!(made.is_ok(), model.is_ok(), "{made:?} {model:?}");
        if made.is_ok() {
            self.rollouts.push(id);
        }
    }

    async fn calls(&mut self, call: &Call) {
        let Some(id) = self.rollouts.last().cloned() else {
            return;
        };
        let around = self.services.surroundings();
        let mut tx = self.services.db.begin().await.unwrap();
        store::lock(&mut tx, &id).await.unwrap();
        let stored = store::load::snapshot(&mut tx, &id, (Look::Everything, around))
            .await
            .unwrap()
            .unwrap();
        let made = operator::plan(&stored, call, "alice", self.now);
        let started_at = self.services.started_at;
        let model = self.control.rows.snapshot(&id, started_at).unwrap();
        assert_eq!(made, operator::plan(&model, call, "alice", self.now));
        if let Ok(made) = made {
            store::apply::apply(&mut tx, &stored, &made).await.unwrap();
            tx.commit().await.unwrap();
            self.control.rows.apply(&made).unwrap();
        }
    }

    async fn passes(&mut self) {
        for id in self.control.active() {
            self.pass(&id).await;
        }
        let news = News {
            extent: Extent::Unknown,
            nodes: BTreeSet::new(),
            rollouts: BTreeSet::new(),
        };
        let due = store::late::due(&self.services.db, &news).await.unwrap();
        assert_eq!(due, self.control.rows.due_late());
        for id in due {
            self.pass_late(&id).await;
        }
    }

    async fn pass(&mut self, id: &RolloutId) {
        for _ in 0..32 {
            let around = self.services.surroundings();
            let mut tx = self.services.db.begin().await.unwrap();
            store::lock(&mut tx, id).await.unwrap();
            let stored = store::load::snapshot(&mut tx, id, (Look::Everything, around))
                .await
                .unwrap()
                .unwrap();
            let made = plan(&stored, self.now);
            let model = self
                .control
                .rows
                .snapshot(id, self.services.started_at)
                .unwrap();
            assert_eq!(made, plan(&model, self.now));
            if made.is_idle(&stored) {
                return;
            }
            store::apply::apply(&mut tx, &stored, &made).await.unwrap();
            tx.commit().await.unwrap();
            self.control.rows.apply(&made).unwrap();
            if made.follow == Follow::Rest {
                return;
            }
        }
    }

    async fn pass_late(&mut self, id: &RolloutId) {
        for _ in 0..32 {
            let around = self.services.surroundings();
            let mut tx = self.services.db.begin().await.unwrap();
            store::lock(&mut tx, id).await.unwrap();
            let stored = store::late::snapshot(&mut tx, id, around).await.unwrap();
            let model = self
                .control
                .rows
                .late_snapshot(id, self.services.started_at);
            let made = stored.map(|stored| late::plan(&stored, self.now));
            assert_eq!(made, model.map(|model| late::plan(&model, self.now)));
            let Some(made) = made.filter(|made| !made.is_idle()) else {
                return;
            };
            store::late::apply(&mut tx, &made).await.unwrap();
            tx.commit().await.unwrap();
            self.control.rows.apply_late(&made).unwrap();
        }
    }

    async fn disrupts(&mut self, (node, pool): &(NodeId, PoolId), runs: bool) {
        let mut tx = self.services.db.begin().await.unwrap();
        if runs {
            disruption::occupy(&mut tx, node, pool, "wf_1", self.now)
                .await
                .unwrap();
        } else {
            disruption::vacate(&mut tx, node, "wf_1").await.unwrap();
        }
        tx.commit().await.unwrap();
        self.control.workflow(node, runs);
    }

    async fn freezes(&mut self, frozen: bool) {
        let word = Freeze {
            reason: "incident".to_owned(),
            by: "alice".to_owned(),
            since: self.now,
        };
        let mut tx = self.services.db.begin().await.unwrap();
        let tenant = "root".parse().unwrap();
        store::freeze::write(&mut tx, &tenant, frozen.then_some(&word))
            .await
            .unwrap();
        tx.commit().await.unwrap();
        self.control.freeze(frozen, self.now.millis());
    }

    async fn maintains(&mut self, node: &NodeId, maintenance: bool) {
        let request = UpdateNode {
            tenant_id: "root".parse().unwrap(),
            node_id: node.clone(),
            labels: BTreeMap::new(),
            maintenance: Some(maintenance),
        };
        change::update(&self.services.db, "alice", &request, self.now)
            .await
            .unwrap();
        self.control.maintain(node, maintenance);
    }

    async fn removes(&mut self, node: &NodeId) {
        let request = OneNode {
            tenant_id: "root".parse().unwrap(),
            node_id: node.clone(),
        };
        change::remove(&self.services.db, "alice", &request, self.now)
            .await
            .unwrap();
        self.control.remove(node, self.now.millis());
        self.removed.insert(node.clone());
        self.sessions.get_mut(node).unwrap().2 = false;
    }

    /// One thing that happens, to both.
    async fn step(&mut self) {
        let node = self.random.random_range(0..self.nodes.len());
        let (node, pool) = self.nodes[node].clone();
        let lives = !self.removed.contains(&node);
        match self.random.random_range(0..32) {
            0..4 => self.creates().await,
            4 => self.calls(&Call::Pause { reason: "p".into() }).await,
            5..8 => self.calls(&Call::Resume).await,
            8 => {
                let flights = if self.random.random_bool(0.5) {
                    Flights::Fail
                } else {
                    Flights::RollBack
                };
                self.calls(&Call::Abort {
                    reason: "a".into(),
                    flights,
                })
                .await;
            }
            9 => self.links().await,
            10 => self.freezes(true).await,
            11..13 => self.freezes(false).await,
            13..16 => {
                let waits = [1, 61, 301];
                self.now = self
                    .now
                    .plus(Duration::from_secs(waits[self.random.random_range(0..3)]));
            }
            _ if !lives => {}
            16..22 => self.obeys(&node, Outcome::Confirmed).await,
            22 => self.obeys(&node, Outcome::Crashed).await,
            23 => self.obeys(&node, Outcome::Running).await,
            24 => self.comes(&node).await,
            25 => {
                let start = u8::try_from(self.sessions[&node].0 % 200).unwrap();
                self.facts.get_mut(&node).unwrap().started = Some([start; 16].into());
                self.comes(&node).await;
            }
            26..28 => self.goes(&node).await,
            28 => self.disrupts(&(node, pool), true).await,
            29 => self.disrupts(&(node, pool), false).await,
            30 => {
                let maintenance = self.random.random_bool(0.4);
                self.maintains(&node, maintenance).await;
            }
            _ if self.removed.len() < 2 && self.random.random_bool(0.3) => {
                self.removes(&node).await
            }
            _ => {}
        }
    }

    /// What both say that a node should run.
    async fn spec(&mut self, node: &NodeId) -> Option<NodeSpec> {
        let Services {
            db,
            trust,
            downloads_url,
            ..
        } = &self.services;
        let stored = current(db, node, trust, downloads_url).await.unwrap();
        let model = self.control.spec(node);
        let named = |spec: &NodeSpec| {
            let section = spec.daemon.clone();
            let named = section.map(|section| (section.version, section.sha256, section.attempt));
            (spec.generation, named)
        };
        assert_eq!(
            stored.as_ref().map(named),
            model.as_ref().map(named),
            "{node}"
        );
        model
    }

    async fn are_alike(&mut self) {
        for (node, _) in self.nodes.clone() {
            self.spec(&node).await;
        }
        for id in &self.rollouts {
            let request = OneRollout {
                tenant_id: "root".parse().unwrap(),
                rollout_id: id.clone(),
            };
            let stored = service::get(&self.services, request).await.unwrap();
            let model = &self.control.rows.rollouts[id];
            assert_eq!(stored.state, model.head.state);
            let rows = stored.node_list.unwrap();
            assert_eq!(rows.len(), model.rows.len());
            for (stored, model) in rows.iter().zip(&model.rows) {
                assert_eq!(
                    (&stored.node_id, stored.wave, stored.state),
                    (&model.node, model.wave, model.state)
                );
                assert_eq!(
                    (&stored.from_version, stored.finished_at),
                    (&model.from, model.finished)
                );
            }
        }
        assert_eq!(self.control.check(), []);
    }
}

fn attempt(id: AttemptId, outcome: Outcome) -> AttemptFacts {
    AttemptFacts {
        id,
        target: String::new(),
        outcome,
        is_final: outcome != Outcome::Running,
        tries: 1,
        code: if outcome == Outcome::Crashed {
            "crashed".to_owned()
        } else {
            String::new()
        },
        message: String::new(),
        exit_status: None,
        signal: None,
        log: String::new(),
    }
}

/// I18 to I25, as the store has them: what the simulator runs on does what the store does.
#[tokio::test]
async fn the_model_and_the_store_are_alike() {
    for seed in 0..24 {
        let mut both = Both::new(seed).await;
        for _ in 0..60 {
            both.step().await;
            both.passes().await;
        }
        both.are_alike().await;
    }
}

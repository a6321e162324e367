//! Two controls on one PostgreSQL: whichever of them is killed, stopped or cut off from the database in the middle of a
//! rollout, the other one goes on, and everything ends as it should.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::{sync::Arc, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use packaging::{build, cluster::Cluster, pair::Pair, simulated::SimulatedNode};
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet};

const NODES: usize = 48;
/// A tenth of the nodes.
const PLACES: i64 = 4;
const PATIENCE: Duration = Duration::from_secs(120);

/// Longer than a transaction may rest, a link may be silent, and a process may give no sign.
const FROZEN: Duration = Duration::from_secs(25);

/// Everything that runs. Processes end before the database does.
struct House {
    pair: Pair,
    cluster: Cluster,
}

#[tokio::test(flavor = "multi_thread")]
#[allow(
    clippy::print_stderr,
    reason = "a test that passes itself over says so"
)]
async fn either_of_two_controls_carries_a_rollout_to_its_end() {
    let Some(cluster) = Cluster::start().unwrap() else {
        let required = std::env::var_os("BCD_TESTS_REQUIRE_EVERYTHING").is_some();
        assert!(!required, "expected PostgreSQL's server, found none");
        eprintln!("passed over: there is no PostgreSQL server under /usr/lib/postgresql");
        return;
    };
    let programs = build::programs().await.unwrap();
    let url = cluster.create("bc").unwrap();
    let pair = Pair::start(&programs, [url.clone(), url]).await.unwrap();
    let mut house = House { pair, cluster };
    let pool = house.pool();
    let nodes = house.nodes(&pool).await;
    house.online().await;
    for (sequence, version) in (1..).zip(["1.0.0", "1.1.0"]) {
        house.pair.register(version, sequence).unwrap();
    }
    let id = equal_creates_make_one(&house).await;

    // Both live: the first wave, and into the second.
    house.wave(&id, 1).await;
    house.pair.controls[0].service.kill().unwrap();
    house.wave(&id, 2).await;
    house.pair.controls[0].service.start().unwrap();
    house.pair.ready(0).await.unwrap();

    // The other one stands still for longer than anybody waits for it, and goes on as if nothing had been.
    let frozen = house.pair.controls[1].service.pid().unwrap();
    let frozen = Pid::from_raw(frozen.try_into().unwrap());
    kill(frozen, Signal::SIGSTOP).unwrap();
    let thawed = tokio::time::Instant::now() + FROZEN;
    house.wave(&id, 3).await;
    tokio::time::sleep_until(thawed).await;
    kill(frozen, Signal::SIGCONT).unwrap();

    // And the database goes away under both.
    house.cluster.restart().unwrap();
    house.ended(&id).await;
    house.is_whole(&id).await;
    commands_go_through_either(&mut house).await;
    drop(nodes);
}

impl House {
    fn pool(&self) -> String {
        let pool = ["pools", "create", "pool", "--budget", "0.1"];
        let made = self.pair.controls[0].operator.json(&pool).unwrap();
        made["id"].as_str().unwrap().to_owned()
    }

    /// Half of them through either gateway. They join at either control.
    async fn nodes(&self, pool: &str) -> JoinSet<anyhow::Result<()>> {
        let file = self.pair.dir().join("join.token");
        let (uses, out) = (NODES.to_string(), file.to_str().unwrap());
        let token = ["join-tokens", "create", "--pool", pool, "--uses", &uses];
        let token = [&token[..], &["--expires", "1h", "--out", out]].concat();
        self.pair.controls[1].operator.run(&token).unwrap();
        let token = std::fs::read_to_string(&file).unwrap();
        let mut sessions = JoinSet::new();
        for number in 0..NODES {
            let url = self.pair.controls[number / 2 % 2].operator.url();
            let node = SimulatedNode::join(url, token.trim()).await.unwrap();
            let (moments, _) = mpsc::unbounded_channel();
            sessions.spawn(node.through(number).run(moments));
        }
        sessions
    }

    /// What the database says, whoever of the controls lives.
    async fn number(&self, sql: &str) -> i64 {
        self.cluster.sql("bc", sql).await.unwrap().parse().unwrap()
    }

    /// Asks until it is so; whenever it asks, no more nodes are disrupted than may be.
    async fn until(&self, what: &str, sql: &str) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while self.number(sql).await == 0 {
            let disrupted = "SELECT count(DISTINCT node_id) FROM disruptions";
            let disrupted = self.number(disrupted).await;
            assert!(disrupted <= PLACES, "I21: {disrupted}");
            let late = tokio::time::Instant::now() > deadline;
            assert!(!late, "waited in vain until {what}:\n{}", self.pair.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn online(&self) {
        let sql = format!("SELECT (count(*) = {NODES})::int FROM node_facts WHERE online = 1");
        self.until("every node is online", &sql).await;
    }

    /// In the middle of that wave.
    async fn wave(&self, id: &str, wave: u32) {
        let sql = format!(
            "SELECT (wave >= {wave} AND EXISTS (SELECT 1 FROM rollout_nodes r WHERE r.rollout_id = o.id
                 AND r.wave = {wave} AND r.state = 'succeeded'))::int FROM rollouts o WHERE id = '{id}'"
        );
        self.until("the wave is under way", &sql).await;
    }

    async fn ended(&self, id: &str) {
        let sql = format!("SELECT (state = 'completed')::int FROM rollouts WHERE id = '{id}'");
        self.until("the rollout is completed", &sql).await;
    }

    /// Rows, counters and events agree.
    async fn is_whole(&self, id: &str) {
        let nodes = i64::try_from(NODES).unwrap();
        let waves = "SELECT sum(succeeded) FROM rollout_waves";
        assert_eq!(self.number(waves).await, nodes, "I24");
        let rows = "SELECT count(*) FROM rollout_nodes WHERE state = 'succeeded'";
        assert_eq!(self.number(rows).await, nodes);
        let places = "SELECT sum(disrupted) + (SELECT count(*) FROM disruptions) FROM pools";
        assert_eq!(self.number(places).await, 0, "every place is given back");
        for (kind, times) in [
            ("rollout.started", 1),
            ("rollout.wave", 3),
            ("rollout.completed", 1),
        ] {
            let told = format!(
                "SELECT count(*) FROM events WHERE type = '{kind}' AND subject = 'rollout/{id}'"
            );
            assert_eq!(self.number(&told).await, times, "I30: {kind}");
        }
        let upgraded = "SELECT count(*) FROM events WHERE type = 'node.upgraded'";
        assert_eq!(self.number(upgraded).await, nodes, "I30");
        let gaps = "SELECT max(position) - count(*) FROM events";
        assert_eq!(self.number(gaps).await, 0, "positions have no gap");
        let attempts = "SELECT count(*) - count(DISTINCT attempt) FROM rollout_nodes";
        assert_eq!(self.number(attempts).await, 0);
    }
}

/// I26: a command that one control takes reaches a node whose gateway is linked to the other, also when the one that took
/// it is killed right behind its answer; and each ends once.
async fn commands_go_through_either(house: &mut House) {
    let ids = "SELECT string_agg(id, ' ') FROM nodes";
    let ids = house.cluster.sql("bc", ids).await.unwrap();
    let nodes: Vec<&str> = ids.split(' ').collect();
    for (number, node) in nodes.iter().enumerate() {
        ask(house, number % 2, node, "first").await;
    }
    let ended = "SELECT (count(*) = 48)::int FROM commands WHERE state = 'succeeded'";
    house.until("every command has ended", ended).await;
    for node in nodes.iter().take(4) {
        ask(house, 0, node, "second").await;
    }
    house.pair.controls[0].service.kill().unwrap();
    let ended = "SELECT (count(*) = 52)::int FROM commands WHERE state = 'succeeded'";
    house
        .until("the survivor has seen the others to their end", ended)
        .await;
    let events = "SELECT count(*) FROM events WHERE type = 'command.ended'";
    assert_eq!(house.number(events).await, 52, "I30");
}

/// Asks until control answers: on a machine that is busy elsewhere its database may not do so in time. One key makes one
/// command, however often it is sent.
async fn ask(house: &House, control: usize, node: &str, key: &str) {
    let create = ["commands", "create", "--node", node, "--key", key];
    let create = [&create[..], &["--kind", "diagnostics.collect"]].concat();
    let operator = &house.pair.controls[control].operator;
    let asked = operator.until("the command is made", PATIENCE, |operator| {
        let done = operator.try_run(&create)?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        let later = said.contains("does not answer just now");
        anyhow::ensure!(done.status.success() || later, "{said}");
        Ok(done.status.success().then_some(()))
    });
    asked.await.unwrap();
}

/// I28: as many equal calls at once as a client's retries may make, at both controls.
async fn equal_creates_make_one(house: &House) -> String {
    let client = client();
    let token = house.pair.token().unwrap();
    let request = json!({
        "tenantId": "root",
        "version": "1.1.0",
        "waves": [10, 40, 70, 100],
        "soakSeconds": 2,
        "maxFailureRatio": 0,
        "idempotencyKey": "once",
    });
    let mut calls = JoinSet::new();
    for number in 0..100 {
        let url = house.pair.controls[number % 2].operator.url();
        let call = client.post(format!("{url}/api/compute/rollouts/create"));
        let call = call.bearer_auth(&token).json(&request);
        calls.spawn(async move {
            let answer = call.send().await.unwrap();
            let status = answer.status();
            let answer: Value = answer.json().await.unwrap();
            assert!(status.is_success(), "{answer}");
            answer["id"].as_str().unwrap().to_owned()
        });
    }
    let mut ids = calls.join_all().await;
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(house.number("SELECT count(*) FROM rollouts").await, 1);
    let started = "SELECT count(*) FROM events WHERE type = 'rollout.started'";
    assert_eq!(house.number(started).await, 1, "one event");
    ids.remove(0)
}

fn client() -> reqwest::Client {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let builder = reqwest::Client::builder().tls_backend_preconfigured(config);
    builder.timeout(Duration::from_secs(30)).build().unwrap()
}

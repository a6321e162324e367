//! Two controls on one PostgreSQL: whichever of them is killed, stopped or cut off from the database in the middle of a
//! rollout, the other one goes on, and everything ends as it should.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

#[path = "../../control/tests/postgres/cluster.rs"]
mod cluster;

use std::{
    net::{Ipv4Addr, TcpListener as StdListener},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use cluster::Cluster;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use packaging::{
    build::{self, Programs},
    fleet::{Keys, Operator, Release, Service},
    simulated::SimulatedNode,
};
use serde_json::{Value, json};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};

const NODES: usize = 48;
/// A tenth of the nodes.
const PLACES: i64 = 4;
const PATIENCE: Duration = Duration::from_secs(120);

/// Longer than a transaction may rest, a link may be silent, and a process may give no sign.
const FROZEN: Duration = Duration::from_secs(25);

struct Control {
    service: Service,
    operator: Operator,
    link: u16,
}

/// Everything that runs. Processes end before their folder goes, and before the database does.
struct House {
    controls: [Control; 2],
    gateways: Vec<Service>,
    keys: Keys,
    cluster: Cluster,
    dir: tempfile::TempDir,
}

#[tokio::test(flavor = "multi_thread")]
async fn either_of_two_controls_carries_a_rollout_to_its_end() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let programs = build::programs().await.unwrap();
    let mut house = House::build(&programs, cluster).await;
    let pool = house.pool();
    let nodes = house.nodes(&pool).await;
    house.online(NODES).await;
    house.register();
    let id = equal_creates_make_one(&house).await;

    // Both live: the first wave, and into the second.
    house.wave(&id, 1).await;
    house.controls[0].service.kill().unwrap();
    house.wave(&id, 2).await;
    house.controls[0].service.start().unwrap();
    house.ready(0).await;

    // The other one stands still for longer than anybody waits for it, and goes on as if nothing had been.
    let frozen = Pid::from_raw(house.controls[1].service.pid().unwrap().try_into().unwrap());
    kill(frozen, Signal::SIGSTOP).unwrap();
    let thawed = tokio::time::Instant::now() + FROZEN;
    house.wave(&id, 3).await;
    tokio::time::sleep_until(thawed).await;
    kill(frozen, Signal::SIGCONT).unwrap();

    // And the database goes away under both.
    house.cluster.restart();
    house.ended(&id).await;
    house.is_whole(&id);
    drop(nodes);
}

impl House {
    async fn build(programs: &Programs, cluster: Cluster) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("bcd-shared-")
            .tempdir()
            .unwrap();
        let root = dir.path();
        let keys = Keys::make(&programs.control, &root.join("keys")).unwrap();
        cluster.create("bc", "template1");
        let balancer = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let link = balancer.local_addr().unwrap().port();
        let mut controls = Vec::new();
        for name in ["one", "two"] {
            let data = root.join(name);
            std::fs::create_dir_all(&data).unwrap();
            // The authority is copied, as the documentation says.
            if name == "two" {
                for file in ["authority.pem", "authority.key"] {
                    std::fs::copy(root.join("one").join(file), data.join(file)).unwrap();
                }
            }
            let mut control = control(programs, root, name, (&cluster.url("bc"), link), &keys);
            control.service.start().unwrap();
            let Control {
                service, operator, ..
            } = &mut control;
            operator.ready(service).await.unwrap();
            controls.push(control);
        }
        let links = [controls[0].link, controls[1].link];
        tokio::spawn(balance(balancer, links));
        let mut gateways = Vec::new();
        for (control, name) in controls.iter().zip(["a", "b"]) {
            gateways.push(gateway(programs, root, name, &control.operator));
        }
        let controls = controls.try_into().ok().unwrap();
        Self {
            controls,
            gateways,
            keys,
            cluster,
            dir,
        }
    }

    fn pool(&self) -> String {
        let pool = ["pools", "create", "pool", "--budget", "0.1"];
        let made = self.controls[0].operator.json(&pool).unwrap();
        made["id"].as_str().unwrap().to_owned()
    }

    /// Half of them through either gateway. They join at either control.
    async fn nodes(&self, pool: &str) -> JoinSet<anyhow::Result<()>> {
        let file = self.dir.path().join("join.token");
        let uses = NODES.to_string();
        let token = [
            "join-tokens",
            "create",
            "--pool",
            pool,
            "--uses",
            &uses,
            "--expires",
            "1h",
            "--out",
        ];
        let token = [&token[..], &[file.to_str().unwrap()]].concat();
        self.controls[1].operator.run(&token).unwrap();
        let token = std::fs::read_to_string(&file).unwrap();
        let mut sessions = JoinSet::new();
        for number in 0..NODES {
            let url = self.controls[number / 2 % 2].operator.url();
            let node = SimulatedNode::join(url, token.trim()).await.unwrap();
            // Somebody has to listen to what happens to it.
            let (moments, mut told) = mpsc::unbounded_channel();
            sessions.spawn(async move {
                while told.recv().await.is_some() {}
                Ok(())
            });
            sessions.spawn(node.through(number).run(moments));
        }
        sessions
    }

    fn register(&self) {
        for (sequence, version) in (1..).zip(["1.0.0", "1.1.0"]) {
            let binary = self.dir.path().join(version);
            std::fs::copy("/bin/true", &binary).unwrap();
            let version = version.to_owned();
            let manifest = self
                .keys
                .sign(&Release {
                    version,
                    sequence,
                    binary,
                })
                .unwrap();
            let register = ["releases", "register", manifest.to_str().unwrap()];
            self.controls[0].operator.run(&register).unwrap();
        }
    }

    /// What the database says, whoever of the controls lives. None while it is away.
    fn number(&self, sql: &str) -> i64 {
        self.cluster.sql("bc", sql).parse().unwrap()
    }

    /// Asks until it is so; whenever it asks, no more nodes are disrupted than may be.
    async fn until(&self, what: &str, sql: &str) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while self.number(sql) == 0 {
            let disrupted = self.number("SELECT count(DISTINCT node_id) FROM disruptions");
            assert!(disrupted <= PLACES, "I21: {disrupted}");
            let late = tokio::time::Instant::now() > deadline;
            assert!(!late, "waited in vain until {what}:\n{}", self.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn online(&self, nodes: usize) {
        let sql = format!("SELECT (count(*) = {nodes})::int FROM node_facts WHERE online = 1");
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

    async fn ready(&mut self, number: usize) {
        let Control {
            service, operator, ..
        } = &mut self.controls[number];
        operator.ready(service).await.unwrap();
    }

    /// Rows, counters and events agree.
    fn is_whole(&self, id: &str) {
        let waves = "SELECT sum(succeeded) FROM rollout_waves";
        assert_eq!(self.number(waves), i64::try_from(NODES).unwrap(), "I24");
        let rows = "SELECT count(*) FROM rollout_nodes WHERE state = 'succeeded'";
        assert_eq!(self.number(rows), i64::try_from(NODES).unwrap());
        let places = "SELECT sum(disrupted) + (SELECT count(*) FROM disruptions) FROM pools";
        assert_eq!(self.number(places), 0, "every place is given back");
        let told = |kind: &str| {
            self.number(&format!(
                "SELECT count(*) FROM events WHERE type = '{kind}' AND subject = 'rollout/{id}'"
            ))
        };
        let events = ["rollout.started", "rollout.wave", "rollout.completed"].map(told);
        assert_eq!(events, [1, 3, 1], "I30");
        let upgraded = "SELECT count(*) FROM events WHERE type = 'node.upgraded'";
        assert_eq!(self.number(upgraded), i64::try_from(NODES).unwrap(), "I30");
        let gaps = "SELECT max(position) - count(*) FROM events";
        assert_eq!(self.number(gaps), 0, "positions have no gap");
        let attempts = "SELECT count(*) - count(DISTINCT attempt) FROM rollout_nodes";
        assert_eq!(self.number(attempts), 0);
    }

    fn logs(&self) -> String {
        let services = self.controls.iter().map(|control| &control.service);
        let services = services.chain(&self.gateways);
        services
            .map(|service| format!("--- {}\n{}", service.name(), service.log()))
            .collect()
    }
}

/// I28: as many equal calls at once as a client's retries may make, at both controls.
async fn equal_creates_make_one(house: &House) -> String {
    let client = client();
    let token = std::fs::read_to_string(house.controls[0].operator.token_file()).unwrap();
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
        let url = house.controls[number % 2].operator.url();
        let call = client.post(format!("{url}/api/compute/rollouts/create"));
        let call = call.bearer_auth(token.trim()).json(&request);
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
    assert_eq!(house.number("SELECT count(*) FROM rollouts"), 1);
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

/// One that does not run yet.
fn control(
    programs: &Programs,
    root: &Path,
    name: &str,
    (database, balancer): (&str, u16),
    keys: &Keys,
) -> Control {
    let [api, link] = [(); 2].map(|()| {
        let held = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        held.local_addr().unwrap().port()
    });
    let config = root.join(format!("{name}.toml"));
    let text = format!(
        "data_dir = {data:?}\ndatabase_url = {database:?}\nlisten = \"127.0.0.1:{api}\"\n\
         link_listen = \"127.0.0.1:{link}\"\nlink_url = \"wss://127.0.0.1:{balancer}/link\"\n\
         downloads_url = \"http://127.0.0.1:9\"\n\n[release]\npins = {pins:?}\nthreshold = 2\n",
        data = root.join(name),
        pins = keys.pins(),
    );
    std::fs::write(&config, text).unwrap();
    let mut service = Service::new(name, &programs.control, &root.join("logs"));
    service.args(["serve", "--config"]).arg(&config);
    let url = format!("http://127.0.0.1:{api}");
    let token: PathBuf = root.join("one/admin.token");
    let operator = Operator::new(&programs.control, &url, &token);
    Control {
        service,
        operator,
        link,
    }
}

fn gateway(programs: &Programs, root: &Path, name: &str, operator: &Operator) -> Service {
    let held = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = held.local_addr().unwrap().port();
    drop(held);
    let token = root.join(format!("{name}.token"));
    let url = format!("wss://127.0.0.1:{port}/session");
    let enrol = [
        "gateways",
        "enrol",
        name,
        "--url",
        &url,
        "--out",
        token.to_str().unwrap(),
    ];
    operator.run(&enrol).unwrap();
    let config = root.join(format!("gateway-{name}.toml"));
    let text = format!(
        "listen = \"127.0.0.1:{port}\"\ncontrol = {control:?}\nstate_dir = {state:?}\nenrol_token_file = {token:?}\n\
         drain = \"1s\"\n",
        control = operator.url(),
        state = root.join(format!("gateway-{name}")),
    );
    std::fs::write(&config, text).unwrap();
    let mut gateway = Service::new(
        &format!("gateway-{name}"),
        &programs.gateway,
        &root.join("logs"),
    );
    gateway.arg("--config").arg(&config);
    gateway.start().unwrap();
    gateway
}

/// Stands before both links, as a balancer of connections does: each goes to the next control that takes it.
async fn balance(listener: StdListener, links: [u16; 2]) {
    listener.set_nonblocking(true).unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    let turn = Arc::new(AtomicUsize::new(0));
    loop {
        let (mut from, _) = listener.accept().await.unwrap();
        let turn = Arc::clone(&turn);
        tokio::spawn(async move {
            let first = turn.fetch_add(1, Ordering::Relaxed);
            for link in [links[first % 2], links[(first + 1) % 2]] {
                if let Ok(mut to) = TcpStream::connect((Ipv4Addr::LOCALHOST, link)).await {
                    copy_bidirectional(&mut from, &mut to).await.ok();
                    return;
                }
            }
        });
    }
}

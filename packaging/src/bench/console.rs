//! How long the console's pages take, and how much of them goes over the wire, with ten thousand nodes.
//!
//! Control and the gateway are real processes on loopback, optimised ones where the figures are to be kept. The nodes are simulated: they joined and hold real sessions,
//! so that every row is one that control has written itself. One browser's worth of requests is made at a time, over one
//! connection, as a person who looks around would.

use std::{fmt, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use reqwest::{Client, header, redirect::Policy};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    browser::{FORM, form},
    build::{self, Speed},
    fleet::{Fleet, Patience, Plan, PoolPlan, Release, now},
    load::{self, Manner, Source, Speech, Swarm},
};

/// How long all sessions may take to open.
const PATIENCE: Duration = Duration::from_secs(600);

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    nodes: usize,
    requests: usize,
    speed: Speed,
}

impl Extent {
    /// Figures worth keeping.
    pub const FULL: Self = Self {
        nodes: 10_000,
        requests: 200,
        speed: Speed::Optimised,
    };
    /// Whether it works.
    pub const SHORT: Self = Self {
        nodes: 500,
        requests: 40,
        speed: Speed::Daily,
    };
}

/// One page.
#[derive(Clone, Debug)]
struct Page {
    name: &'static str,
    bytes: usize,
    times: Vec<Duration>,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Figures {
    nodes: usize,
    assets: usize,
    pages: Vec<Page>,
}

impl Page {
    fn ms(&self, percent: usize) -> f64 {
        let last = self.times.len().saturating_sub(1);
        let time = self.times.get(last * percent / 100);
        time.copied().unwrap_or_default().as_secs_f64() * 1000.0
    }
}

impl Figures {
    /// What the first page brings, style and script included.
    fn first_bytes(&self) -> usize {
        self.assets + self.pages.first().map_or(0, |page| page.bytes)
    }

    /// Goals that were missed.
    pub fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        if self.first_bytes() >= 100 << 10 {
            let bytes = self.first_bytes();
            missed.push(format!(
                "the first page: expected less than 100 KiB, found {bytes} bytes"
            ));
        }
        let p95 = self.pages.first().map_or(0.0, |page| page.ms(95));
        if p95 >= 200.0 {
            missed.push(format!(
                "the first page: expected p95 under 200 ms, found {p95:.0} ms"
            ));
        }
        missed
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "nodes={} first_page_bytes={}",
            self.nodes,
            self.first_bytes()
        )?;
        for page in &self.pages {
            let Page { name, bytes, .. } = page;
            let (p50, p95) = (page.ms(50), page.ms(95));
            write!(
                f,
                " {name}_bytes={bytes} {name}_p50_ms={p50:.1} {name}_p95_ms={p95:.1}"
            )?;
        }
        Ok(())
    }
}

/// Measures.
pub async fn run(extent: Extent, tell: fn(&str)) -> Result<Figures> {
    load::open_files()?;
    let fleet = control(extent.speed).await?;
    let _swarm = crowd(&fleet, extent.nodes, tell).await?;
    let made = fleet.operator.json(&[
        "rollouts",
        "create",
        "--version",
        "1.1.0",
        "--waves",
        "1,10,50,100",
        "--yes",
    ])?;
    let id = made.get("id").and_then(Value::as_str);
    let id = id.context("the rollout has no id")?;
    tell("looking at pages");
    let visitor = Visitor::sign_in(&fleet).await?;
    let mut pages = Vec::new();
    for (name, path) in [
        ("rollouts", "rollouts".to_owned()),
        ("rollout", format!("rollouts/{id}")),
        ("rows", format!("rollouts/{id}/nodes")),
        (
            "rows_found",
            format!("rollouts/{id}/nodes?q=node_0&sort=-state&page=3"),
        ),
        ("fleet", "fleet".to_owned()),
        ("nodes", "nodes".to_owned()),
        ("late", "nodes?standing=late".to_owned()),
        ("releases", "releases".to_owned()),
        ("events", "events".to_owned()),
    ] {
        pages.push(visitor.look(name, &path, extent.requests).await?);
    }
    let mut assets = 0;
    for asset in ["console.css", "console.js", "icon.svg"] {
        assets += visitor
            .bytes(&format!("{}/console/assets/{asset}", visitor.url))
            .await?;
    }
    Ok(Figures {
        nodes: extent.nodes,
        assets,
        pages,
    })
}

async fn control(speed: Speed) -> Result<Fleet> {
    let programs = build::programs_for(speed).await?;
    let pool = |name| PoolPlan {
        name,
        nodes: 0,
        budget: "0.05",
    };
    let plan = Plan {
        pools: vec![pool("compute"), pool("storage")],
        patience: Patience {
            watchdog: Duration::from_secs(60),
            stable: Duration::from_secs(1),
        },
    };
    // No node runs, so what their package's binary would be does not matter.
    let all_at_once = "\n[limits]\njoins_per_second = 10000\n";
    let fleet = Fleet::start_with(programs.clone(), &programs.gateway, &plan, all_at_once).await?;
    for (sequence, version) in (1..).zip(["1.0.0", "1.1.0"]) {
        fleet.publish(&Release {
            version: version.to_owned(),
            sequence,
            binary: programs.gateway.clone(),
        })?;
    }
    Ok(fleet)
}

/// Nodes with sessions.
async fn crowd(fleet: &Fleet, nodes: usize, tell: fn(&str)) -> Result<Swarm> {
    tell("these nodes are simulated: their sessions are real, they install nothing");
    let token = std::fs::read_to_string(fleet.join_token(0, nodes)?)?;
    let swarm = Swarm::new(load::Plan {
        speech: Speech::Session,
        gateways: Vec::new(),
        source: Source::Joined {
            control: fleet.operator.url().to_owned(),
            token,
        },
        first: 0,
        nodes,
        from: None,
        opening_max: 256,
        heartbeat_ms: None,
        manner: Manner::Agent,
    })?;
    swarm.want(nodes);
    let deadline = now() + PATIENCE;
    while swarm.status().live < nodes {
        let live = swarm.status().live;
        ensure!(
            now() < deadline,
            "only {live} of {nodes} sessions within {PATIENCE:?}"
        );
        sleep(Duration::from_millis(500)).await;
    }
    tell(&format!("{nodes} nodes hold sessions"));
    Ok(swarm)
}

/// A client that follows nobody elsewhere: what signing in brings is on the first answer.
fn client() -> Result<Client> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    Ok(Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(Policy::none())
        .build()?)
}

/// Somebody who is signed in.
struct Visitor {
    http: Client,
    url: String,
    cookie: String,
}

impl Visitor {
    async fn sign_in(fleet: &Fleet) -> Result<Self> {
        let http = client()?;
        let url = fleet.operator.url().to_owned();
        let token = std::fs::read_to_string(fleet.operator.token_file())?;
        let answer = http
            .post(format!("{url}/console/sign-in"))
            .header(header::ORIGIN, &url)
            .header(header::CONTENT_TYPE, FORM)
            .body(form(&[("token", token.trim())])?)
            .send()
            .await?;
        let cookie = answer.headers().get(header::SET_COOKIE);
        let cookie = cookie.context("nobody was signed in")?.to_str()?;
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        Ok(Self { http, url, cookie })
    }

    async fn bytes(&self, url: &str) -> Result<usize> {
        let answer = self
            .http
            .get(url)
            .header(header::COOKIE, &self.cookie)
            .header(header::ACCEPT_ENCODING, "gzip")
            .send()
            .await?;
        ensure!(
            answer.status().is_success(),
            "{url} answers {}",
            answer.status()
        );
        Ok(answer.bytes().await?.len())
    }

    async fn look(&self, name: &'static str, path: &str, requests: usize) -> Result<Page> {
        let url = format!("{}/console/t/root/{path}", self.url);
        let mut bytes = self.bytes(&url).await?;
        let mut times = Vec::with_capacity(requests);
        for _ in 0..requests {
            let begun = now();
            bytes = bytes.max(self.bytes(&url).await?);
            times.push(now() - begun);
        }
        times.sort();
        Ok(Page { name, bytes, times })
    }
}

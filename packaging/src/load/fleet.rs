//! `cargo xtask fleet`: how much a control and its gateways can hold, with simulated nodes.
//!
//! It says at once that it simulates. What it loads is real: the control and gateways of whoever asks, or a control and
//! a gateway of its own on this machine.

use std::{fmt, path::PathBuf, time::Duration};

use anyhow::{Context, Result, ensure};
use tokio::time::sleep;

use super::{Manner, Plan, SESSIONS_PER_PROCESS, Source, Speech, Status, crew::Crew, open_files};
use crate::{
    build,
    fleet::{self, Patience, PoolPlan, now},
};

/// Nodes that may be between connecting and their Welcome at once, in one process.
const OPENING_MAX: usize = 512;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// How many nodes.
    pub nodes: usize,
    /// Somebody's own control, and a file with a join token; by default both are made for the occasion.
    pub control: Option<(String, PathBuf)>,
    /// How long the sessions are held once all are open.
    pub hold: Duration,
    /// How long they may take to open.
    pub patience: Duration,
    /// Sessions in one process.
    pub per_process: usize,
}

/// What was seen.
#[derive(Clone, Debug)]
pub struct Figures {
    nodes: usize,
    processes: usize,
    opening: Duration,
    open: Status,
    held: Status,
}

impl Figures {
    /// Whether every node had its session to the end.
    pub fn is_whole(&self) -> bool {
        self.held.live == self.nodes && self.held.lost == 0
    }
}

impl fmt::Display for Figures {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |us: u32| f64::from(us) / 1000.0;
        let seconds = self.opening.as_secs_f64();
        write!(
            f,
            "nodes={} processes={} open={} opening_s={:.1} opened_per_s={:.0} open_p50_ms={:.1} open_p99_ms={:.1} \
             welcome_p50_ms={:.2} welcome_p99_ms={:.2} pong_p50_ms={:.2} pong_p99_ms={:.2} lost={} failed={} specs={} reports={}",
            self.nodes,
            self.processes,
            self.held.live,
            seconds,
            self.open.opened as f64 / seconds.max(0.001),
            ms(self.open.open_us.p50),
            ms(self.open.open_us.p99),
            ms(self.open.welcome_us.p50),
            ms(self.open.welcome_us.p99),
            ms(self.held.pong_us.p50),
            ms(self.held.pong_us.p99),
            self.held.lost,
            self.held.failed,
            self.held.specs,
            self.held.reports,
        )
    }
}

/// Opens the sessions, holds them, and says what that was like.
pub async fn run(request: &Request, mut tell: impl FnMut(&str)) -> Result<Figures> {
    ensure!(request.nodes > 0, "--nodes: expected at least 1, found 0");
    ensure!(
        (1..=SESSIONS_PER_PROCESS).contains(&request.per_process),
        "--per-process: expected 1 to {SESSIONS_PER_PROCESS}, found {}",
        request.per_process
    );
    open_files()?;
    tell("these nodes are simulated: their sessions are real, they install nothing");
    let (control, token, _own) = match &request.control {
        Some((control, file)) => {
            let token = std::fs::read_to_string(file)
                .with_context(|| format!("read {}", file.display()))?;
            (control.clone(), token, None)
        }
        None => {
            let own = own(request.nodes).await?;
            let token = std::fs::read_to_string(own.join_token(0, request.nodes)?)?;
            (own.operator.url().to_owned(), token, Some(own))
        }
    };
    let plan = Plan {
        speech: Speech::Session,
        gateways: Vec::new(),
        source: Source::Joined { control, token },
        first: 0,
        nodes: request.nodes,
        from: None,
        opening_max: OPENING_MAX,
        heartbeat_ms: None,
        manner: Manner::Agent,
    };
    let program = std::env::current_exe().context("find this program")?;
    let mut crew = Crew::start(&program, &plan, request.per_process).await?;
    watch(request, &mut crew, &mut tell).await
}

/// A control and a gateway on this machine.
async fn own(nodes: usize) -> Result<fleet::Fleet> {
    ensure!(
        nodes <= SESSIONS_PER_PROCESS,
        "one gateway on this machine holds at most {SESSIONS_PER_PROCESS} sessions: name a control with several gateways \
         by --control"
    );
    let programs = build::programs().await?;
    let plan = fleet::Plan {
        pools: vec![PoolPlan {
            name: "simulated",
            nodes: 0,
            budget: "0.05",
        }],
        patience: Patience {
            watchdog: Duration::from_secs(60),
            stable: Duration::from_secs(1),
        },
    };
    // No node runs, so what their package's binary would be does not matter.
    fleet::Fleet::start(programs.clone(), &programs.gateway, &plan).await
}

async fn watch(request: &Request, crew: &mut Crew, tell: &mut impl FnMut(&str)) -> Result<Figures> {
    let begun = now();
    let mut told = begun;
    let mut ready_at = None;
    crew.want(request.nodes).await?;
    // Its spreads are of all that happened until all were open.
    let open = loop {
        sleep(Duration::from_millis(200)).await;
        let status = crew.status().await?;
        let passed = now() - begun;
        if status.ready > 0 {
            ready_at.get_or_insert_with(now);
        }
        if status.live == request.nodes {
            break status;
        }
        ensure!(
            passed < request.patience,
            "only {} of {} sessions within {:?}: {}",
            status.live,
            request.nodes,
            request.patience,
            status.trouble.as_deref().unwrap_or("no error")
        );
        if now() - told > Duration::from_secs(5) {
            told = now();
            tell(&line(request.nodes, passed, &status));
        }
    };
    let opening = now() - ready_at.unwrap_or(begun);
    tell(&format!(
        "all open after {opening:.1?}; held for {:?}",
        request.hold
    ));
    let until = now() + request.hold;
    while now() < until {
        sleep(Duration::from_secs(5).min(until - now())).await;
    }
    let held = crew.status().await?;
    tell(&line(request.nodes, now() - begun, &held));
    Ok(Figures {
        nodes: request.nodes,
        processes: crew.processes(),
        opening,
        open,
        held,
    })
}

fn line(nodes: usize, passed: Duration, status: &Status) -> String {
    let Status {
        ready,
        live,
        lost,
        failed,
        ..
    } = status;
    let trouble = status
        .trouble
        .as_deref()
        .map(|why| format!(", last trouble: {why}"));
    format!(
        "{:.0} s: {ready} of {nodes} joined, {live} sessions open, {lost} lost, {failed} tries failed{}",
        passed.as_secs_f64(),
        trouble.unwrap_or_default()
    )
}

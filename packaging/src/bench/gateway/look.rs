//! One server looked at: memory, handshakes, pushes, a kill, heartbeats.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, ensure};
use tokio::time::sleep;

use super::{
    super::agent::kernel,
    Extent,
    server::{Programs, Server, Subject, payload},
};
use crate::load::{
    Manner, Plan, Source, Speech, Status,
    authority::Pair,
    crew::Crew,
    monotonic,
    processors::confine,
    worker::{Role, Worker},
};

/// Nodes that open at once.
const OPENING_MAX: usize = 256;

/// For whatever a server does a moment later.
const SETTLE: Duration = Duration::from_secs(2);

/// For ten thousand to be there, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// Hours: nobody beats.
const NEVER: Duration = Duration::from_secs(36_000);

/// Pushes, of which the quickest counts: a machine is slower than it is at times, and never faster.
const PUSHES: usize = 5;

/// What one server was like in one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// A session's memory in the process, bytes.
    pub(super) session_bytes: u64,
    /// A connection's memory in the kernel, bytes.
    pub(super) kernel_bytes: u64,
    /// The processor's time for one handshake, to the Welcome.
    pub(super) handshake: Duration,
    /// From the first byte of a push to the last arrival.
    pub(super) push: Duration,
    /// From the start after a kill to the last session, the server on one processor and all nodes on another.
    pub(super) storm: Duration,
    /// The same where they share both.
    pub(super) storm_shared: Duration,
    /// Connections that failed once it was there again.
    pub(super) storm_errors: u64,
    /// The most memory that the storm took, over what its sessions take later, bytes.
    pub(super) storm_peak_bytes: u64,
    /// A session's share of the memory that is still there when all have left, bytes.
    pub(super) left_bytes: u64,
    /// The processor's time for one heartbeat.
    pub(super) heartbeat: Duration,
}

/// Looks at one server.
pub(super) async fn look(
    subject: Subject,
    programs: &Programs,
    extent: Extent,
    tell: &impl Fn(&str),
) -> Result<Look> {
    let mut server = Server::start(subject, programs, NEVER).await?;
    let plan = plan(&server, extent.most(), NEVER);
    let mut crew = Crew::start(&programs.own, &plan, extent.most()).await?;
    let ready = |status: &Status| status.ready == extent.most();
    crew.until(PATIENCE, ready).await?;
    let told = |what: &str| tell(&format!("{}: {what}", subject.name()));
    let (session_bytes, kernel_bytes, handshake) = open(&server, &mut crew, extent).await?;
    told(&format!(
        "{session_bytes} bytes a session, {kernel_bytes} in the kernel, {handshake:?} a handshake"
    ));
    crew.reach(extent.sessions, PATIENCE).await?;
    let push = push(&mut server, &mut crew, extent.sessions).await?;
    told(&format!("all told within {push:?}"));
    let apart = storm(&mut server, &mut crew, extent.sessions, Room::Apart).await?;
    let shared = storm(&mut server, &mut crew, extent.sessions, Room::Shared).await?;
    let pid = server.pid()?;
    sleep(SETTLE).await;
    let held = kernel::anonymous_kib(pid)? << 10;
    crew.reach(0, PATIENCE).await?;
    drop(crew);
    sleep(SETTLE).await;
    let left = kernel::anonymous_kib(pid)? << 10;
    told(&format!(
        "all back within {:?} on a processor of its own, {:?} beside the nodes, {} and {} errors; {} bytes at most, {held} \
         then, {left} when all have left",
        apart.lasted, shared.lasted, apart.errors, shared.errors, shared.peak
    ));
    for why in [&apart.why, &shared.why] {
        if !why.is_empty() {
            told(&format!("who had to try again found {why:?}"));
        }
    }
    drop(server);
    let heartbeat = beat(subject, programs, extent).await?;
    told(&format!("{heartbeat:?} a heartbeat"));
    Ok(Look {
        session_bytes,
        kernel_bytes,
        handshake,
        push,
        storm: apart.lasted,
        storm_shared: shared.lasted,
        storm_errors: apart.errors + shared.errors,
        storm_peak_bytes: shared.peak.saturating_sub(held),
        left_bytes: left / extent.sessions as u64,
        heartbeat,
    })
}

fn plan(server: &Server, nodes: usize, heartbeat: Duration) -> Plan {
    Plan {
        speech: server.subject.speech(),
        gateways: vec![server.address.clone()],
        source: Source::Minted(server.authority().own().clone()),
        first: 0,
        nodes,
        from: None,
        opening_max: OPENING_MAX,
        heartbeat_ms: u64::try_from(heartbeat.as_millis()).ok(),
        manner: Manner::Eager,
    }
}

/// Opens some, then all: what the others cost.
async fn open(server: &Server, crew: &mut Crew, extent: Extent) -> Result<(u64, u64, Duration)> {
    let pid = server.pid()?;
    crew.reach(extent.first, PATIENCE).await?;
    sleep(SETTLE).await;
    let others = extent.sessions as u64;
    let (memory, slab) = (kernel::anonymous_kib(pid)?, kernel::slab_kib()?);
    let used = kernel::used(pid)?.cpu_ns;
    crew.reach(extent.most(), PATIENCE).await?;
    sleep(SETTLE).await;
    let handshake = (kernel::used(pid)?.cpu_ns - used) / others;
    let session = (kernel::anonymous_kib(pid)?.saturating_sub(memory) << 10) / others;
    // Both ends of each connection are on this machine.
    let socket = (kernel::slab_kib()?.saturating_sub(slab) << 10) / others / 2;
    Ok((session, socket, Duration::from_nanos(handshake)))
}

async fn push(server: &mut Server, crew: &mut Crew, sessions: usize) -> Result<Duration> {
    let mut quickest = Duration::MAX;
    for _ in 0..PUSHES {
        let before = crew.status().await?.specs;
        let began = server.push(sessions).await?;
        quickest = quickest.min(arrival(crew, before + sessions as u64, began).await?);
    }
    Ok(quickest)
}

/// From then to the last of them.
async fn arrival(crew: &mut Crew, specs: u64, began: Duration) -> Result<Duration> {
    // Who asks takes time from who is asked.
    sleep(Duration::from_millis(700)).await;
    let all = crew.until(PATIENCE, |status| status.specs >= specs).await?;
    Ok(Duration::from_nanos(all.last_spec_ns).saturating_sub(began))
}

/// The same bytes by the least that can be done.
pub(super) async fn bare(programs: &Programs, extent: Extent, own: &Pair) -> Result<Duration> {
    let role = Role::Raw {
        bytes: payload(1)?.len(),
    };
    let mut server = Worker::start(&programs.own, &role).await?;
    let plan = Plan {
        speech: Speech::Raw,
        gateways: vec![server.url().await?],
        source: Source::Minted(own.clone()),
        first: 0,
        nodes: extent.sessions,
        from: None,
        opening_max: OPENING_MAX,
        heartbeat_ms: None,
        manner: Manner::Eager,
    };
    let mut crew = Crew::start(&programs.own, &plan, extent.sessions).await?;
    crew.until(PATIENCE, |status| status.ready == extent.sessions)
        .await?;
    crew.reach(extent.sessions, PATIENCE).await?;
    sleep(SETTLE).await;
    let mut quickest = Duration::MAX;
    for _ in 0..PUSHES {
        let before = crew.status().await?.specs;
        let began = server.push(extent.sessions, 1).await?;
        let arrived = arrival(&mut crew, before + extent.sessions as u64, began).await?;
        quickest = quickest.min(arrived);
    }
    Ok(quickest)
}

/// What was seen of one return of all.
struct Storm {
    /// From the start of the server to the last session.
    lasted: Duration,
    /// Connections that failed once it was there again.
    errors: u64,
    /// Why, and how often.
    why: BTreeMap<String, u64>,
    /// The most memory that it took, bytes.
    peak: u64,
}

/// Kills it with all its sessions, starts it again, and waits for them.
async fn storm(server: &mut Server, crew: &mut Crew, sessions: usize, room: Room) -> Result<Storm> {
    server.kill()?;
    crew.until(PATIENCE, |status| status.live == 0).await?;
    // Whoever tries from now on meets the next one.
    crew.forget().await?;
    let began = monotonic();
    server.begin().await?;
    let pid = server.pid()?;
    room.give(pid, crew)?;
    let mut peak = 0;
    let deadline = began + PATIENCE;
    let status = loop {
        sleep(Duration::from_millis(200)).await;
        peak = peak.max(kernel::anonymous_kib(pid)? << 10);
        let status = crew.status().await?;
        if status.live == sessions {
            break status;
        }
        ensure!(monotonic() < deadline, "not all are back: {status:?}");
    };
    Room::Shared.give(pid, crew)?;
    let last = Duration::from_nanos(status.last_opened_ns);
    Ok(Storm {
        lasted: last.saturating_sub(began),
        errors: status.failures.values().sum(),
        why: status.failures,
        peak,
    })
}

/// Where a server and its nodes run.
#[derive(Clone, Copy, Debug)]
enum Room {
    /// Both wherever there is room, and each takes what the other needs.
    Shared,
    /// The server on one processor, all nodes on another: as if they were elsewhere, as far as that goes on one machine.
    Apart,
}

impl Room {
    fn give(self, server: i32, crew: &Crew) -> Result<()> {
        let (of_server, of_nodes) = match self {
            Self::Shared => ("0,1", "0,1"),
            Self::Apart => ("0", "1"),
        };
        confine(server.try_into()?, of_server)?;
        for pid in crew.pids() {
            confine(pid, of_nodes)?;
        }
        Ok(())
    }
}

/// Sessions that do nothing but beat, quicker than they ever would.
async fn beat(subject: Subject, programs: &Programs, extent: Extent) -> Result<Duration> {
    let pace = Duration::from_millis(500);
    let nodes = extent.sessions.min(2000);
    let server = Server::start(subject, programs, pace).await?;
    let mut crew = Crew::start(&programs.own, &plan(&server, nodes, pace), nodes).await?;
    crew.until(PATIENCE, |status| status.ready == nodes).await?;
    crew.reach(nodes, PATIENCE).await?;
    sleep(SETTLE).await;
    let pid = server.pid()?;
    let (before, used) = (crew.status().await?.pongs, kernel::used(pid)?.cpu_ns);
    sleep(extent.beating).await;
    let (after, spent) = (crew.status().await?.pongs, kernel::used(pid)?.cpu_ns - used);
    let each = spent
        .checked_div(after - before)
        .context("expected heartbeats, found none")?;
    Ok(Duration::from_nanos(each))
}

/// Holds as many as one process may, and looks at its memory now and then.
pub(super) async fn soak(
    programs: &Programs,
    sessions: usize,
    span: Duration,
    tell: &impl Fn(&str),
) -> Result<(u64, u64)> {
    let heartbeat = Duration::from_secs(15);
    let server = Server::start(Subject::Ours, programs, heartbeat).await?;
    let plan = plan(&server, sessions, heartbeat);
    let mut crew = Crew::start(&programs.own, &plan, sessions).await?;
    crew.until(PATIENCE, |status| status.ready == sessions)
        .await?;
    crew.reach(sessions, PATIENCE).await?;
    // A whole heartbeat of each.
    sleep(2 * heartbeat).await;
    let pid = server.pid()?;
    let first = kernel::rss_kib(pid)?;
    let (mut most, until) = (first, monotonic() + span);
    while monotonic() < until {
        sleep(Duration::from_secs(10)).await;
        let now = kernel::rss_kib(pid)?;
        most = most.max(now);
        let status = crew.status().await?;
        tell(&format!("{} sessions, {now} KiB", status.live));
        ensure!(
            status.live == sessions && status.lost == 0,
            "expected every session to hold: {status:?}"
        );
    }
    Ok((first, most))
}

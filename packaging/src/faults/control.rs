//! What no crash, stop, cut or operator may do to a control plane of several processes: `cargo xtask faults control`.
//!
//! Two real controls on one real PostgreSQL, two real gateways, simulated nodes that hold sessions with them. Rollout
//! after rollout goes out while controls are killed and stand still past every time-out, connections are cut before and
//! behind their COMMIT, the database restarts, operators pause, resume and abort, workflows take places, nodes are
//! removed and a pool is archived; one more rollout fails at every look. The database's own triggers write down every
//! move, and after each round all of it is looked at, and compared with what operators were answered, what a watcher of
//! events saw who was cut off again and again, and what nodes were told. A seed decides the blows; what they meet is the
//! machine's affair.

mod blow;
mod calls;
mod check;
mod history;
mod house;
mod patience;
mod proxy;
mod rest;
mod round;
mod watch;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use rand::{SeedableRng as _, rngs::StdRng};
use serde_json::json;

use crate::{build, cluster::Cluster, fleet::now};
use check::Checker;
use history::DATABASE;
use house::{House, text};
use watch::Watcher;

/// What to do.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Rollouts, at least 1.
    pub rounds: u64,
    /// Decides who is struck, how and when, and what operators call.
    pub seed: u64,
    /// A folder with programs that were built before, instead of building them now.
    pub programs: Option<PathBuf>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Rollouts that were seen to their end.
    pub rounds: u64,
    /// Blows that were dealt.
    pub blows: usize,
    /// COMMITs that were cut among them.
    pub cuts: usize,
    /// What operators called.
    pub calls: usize,
    /// Moves, places and events that were looked at.
    pub looked_at: usize,
    /// What must never be, and was.
    pub violations: Vec<String>,
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "rounds={} blows={} cuts={} calls={} looked_at={} violations={}",
            self.rounds,
            self.blows,
            self.cuts,
            self.calls,
            self.looked_at,
            self.violations.len()
        )
    }
}

/// Strikes through that many rollouts. None where there is no PostgreSQL to strike at.
pub async fn run(campaign: Campaign, tell: impl Fn(&str)) -> Result<Option<Findings>> {
    ensure!(campaign.rounds >= 1, "--rounds: expected at least 1");
    let Some(cluster) = Cluster::start()? else {
        let required = std::env::var_os("BCD_TESTS_REQUIRE_EVERYTHING").is_some();
        ensure!(
            !required,
            "expected a PostgreSQL under /usr/lib/postgresql, found none"
        );
        tell("passed over: there is no PostgreSQL under /usr/lib/postgresql");
        return Ok(None);
    };
    tell(&format!("seed {}", campaign.seed));
    // Copies: whoever builds meanwhile must not change what is started again.
    let kept = tempfile::tempdir()?;
    let within = |folder: &Path| build::Programs {
        control: folder.join("better-compute"),
        gateway: folder.join("bc-gateway"),
    };
    let built = match &campaign.programs {
        Some(folder) => within(folder),
        None => build::programs().await?,
    };
    let programs = within(kept.path());
    std::fs::copy(&built.control, &programs.control)?;
    std::fs::copy(&built.gateway, &programs.gateway)?;
    let mut house = House::build(&programs, cluster).await?;
    let struck = strike(&mut house, &campaign, &tell).await;
    struck.map(Some).with_context(|| house.pair.logs())
}

async fn strike(house: &mut House, campaign: &Campaign, tell: &impl Fn(&str)) -> Result<Findings> {
    let watcher = Watcher::start(house.caller.clone(), 0);
    rest::online(house).await?;
    never_ending(house).await?;
    let mut checker = Checker::default();
    let mut findings = Findings::default();
    for round in 1..=campaign.rounds {
        let began = now();
        // A round's choices are its own, whatever the ones before met.
        let mut rng = StdRng::seed_from_u64(campaign.seed.wrapping_add(round));
        let struck = round::run(house, round, &mut rng).await?;
        let mut wrong = struck.wrong;
        wrong.extend(rest::wait(house).await?);
        let history = history::take(&house.cluster).await?;
        wrong.extend(checker.look(&history, &struck.said));
        wrong.extend(rest::look(house, &struck.rollout).await?);
        wrong.extend(rest::watched(house, &watcher).await?);
        wrong.extend(house.complaints());
        findings.rounds += 1;
        findings.blows += struck.blows;
        findings.cuts = house.spare();
        findings.calls += struck.calls;
        findings.looked_at += history.len();
        tell(&format!(
            "round {round}: {} blows and {} calls in {:.1?}, {}",
            struck.blows,
            struck.calls,
            now() - began,
            struck.ended,
        ));
        for violation in &wrong {
            tell(&format!("VIOLATION round {round}: {violation}"));
        }
        if !wrong.is_empty() {
            tell(&house.pair.logs());
        }
        let ends = !wrong.is_empty();
        findings.violations.extend(wrong);
        if ends {
            // What is broken stays broken, and would be found again in every round.
            break;
        }
    }
    Ok(findings)
}

/// A rollout that fails at every look, from here to the end: its release's text in the database is another's. It must hold
/// up nobody else.
async fn never_ending(house: &mut House) -> Result<()> {
    house.pair.register(&round::version(0), 1)?;
    let pool = house.pool("never", 2, 0.5).await?;
    let crowd = house.pools.get(&pool).context("the pool")?;
    let node = crowd.nodes.keys().next().context("its node")?.clone();
    let rollout = json!({
        "version": round::version(0),
        "poolIds": [pool],
        "waves": [50, 100],
        "soakSeconds": 604_800,
        "maxFailureRatio": 1,
    });
    let rollout = house.caller.insist("rollouts/create", rollout).await?;
    let id = text(&rollout, "id")?;
    let spoilt = format!(
        "UPDATE daemon_releases SET published = '\\x00' WHERE version = '{}';
         SELECT count(*) FROM rollouts WHERE id = '{id}' AND state = 'running'",
        round::version(0)
    );
    let running = house.cluster.sql(DATABASE, &spoilt).await?;
    ensure!(
        running.ends_with('1'),
        "expected {id} to run, and {node} in it"
    );
    // Its nodes have no part in what follows: nobody can compute what they should run.
    house.set_aside(&pool);
    Ok(())
}

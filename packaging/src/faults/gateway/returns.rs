//! A gateway that is killed with all its sessions.
//!
//! Every node comes back at the pace of a real one, what each has said last is known to control, and what each was told
//! to do is done once.

use std::{
    collections::BTreeMap,
    fmt,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use tokio::time::sleep;

use super::{
    super::Extent,
    house::House,
    node::Crowd,
    raw::{Mint, PATIENCE},
};
use crate::fleet::now;

/// How long the gateway is gone: what a service manager takes to start it again.
const DOWN: Duration = Duration::from_secs(1);

/// Peak over mean of the returns in a second.
const PEAK_OVER_MEAN_MAX: f64 = 3.0;

/// What was seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    sessions: usize,
    back: Duration,
    peak_over_mean: f64,
    reports: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "sessions={} back_s={:.1} peak_over_mean={:.2} reports={}",
            self.sessions,
            self.back.as_secs_f64(),
            self.peak_over_mean,
            self.reports
        )
    }
}

/// Kills a gateway with its sessions, twice: while nodes report and begin commands, and again while they come back.
pub(super) async fn run(gateway: &Path, extent: Extent) -> Result<(Figures, Vec<String>)> {
    // As many reports a second either way.
    let (sessions, every) = match extent {
        Extent::Short => (300, Duration::from_millis(500)),
        Extent::Full => (10_000, Duration::from_secs(15)),
    };
    let mut house = House::start(gateway, 15_000, "").await?;
    let mint = Mint::new(&house.authority)?;
    let who = (0..sessions)
        .map(|number| mint.node(&house.authority, number))
        .collect::<Result<Vec<_>>>()?;
    let crowd = Crowd::gather(house.address, who, every);
    let patience = PATIENCE + Duration::from_millis(20) * u32::try_from(sessions)?;
    all_live(&crowd, patience).await?;
    for life in &crowd.lives {
        house.records.order(&life.who.id);
    }
    // Reports are on their way, and nobody has been sent a command yet: that takes a session.
    sleep(every).await;
    let killed = now();
    house.kill()?;
    sleep(DOWN).await;
    house.begin().await?;
    all_live(&crowd, patience).await?;
    let figures = figures(&crowd, killed);
    let mut violations = Vec::new();
    if figures.peak_over_mean >= PEAK_OVER_MEAN_MAX {
        violations.push(format!(
            "expected a peak of returns under {PEAK_OVER_MEAN_MAX} times the mean, found {:.2}",
            figures.peak_over_mean
        ));
    }
    // Once more, in the middle of whatever goes on.
    house.kill()?;
    house.begin().await?;
    all_live(&crowd, patience).await?;
    crowd.hush();
    violations.extend(all_told(&house, &crowd, patience).await);
    violations.extend(house.records.violations());
    Ok((figures, violations))
}

async fn all_live(crowd: &Crowd, patience: Duration) -> Result<()> {
    let deadline = now() + patience;
    loop {
        let live = crowd.live();
        if live == crowd.lives.len() {
            return Ok(());
        }
        ensure!(
            now() < deadline,
            "expected {} sessions within {patience:?}, found {live}",
            crowd.lives.len()
        );
        sleep(Duration::from_millis(20)).await;
    }
}

/// From the kill to the last node's return: how long, and how evenly they came. A try that nobody hears costs nobody
/// anything, so those that came to something are counted, from the first to the last.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn figures(crowd: &Crowd, killed: Instant) -> Figures {
    let mut returns: Vec<Duration> = Vec::new();
    let mut reports = 0;
    for life in &crowd.lives {
        let state = life.state();
        reports += state.reports;
        returns.extend(
            state
                .opened
                .map(|opened| opened.saturating_duration_since(killed)),
        );
    }
    returns.sort_unstable();
    let (first, back) = (
        returns.first().copied().unwrap_or_default(),
        returns.last().copied().unwrap_or_default(),
    );
    let mut seconds: BTreeMap<u64, u32> = BTreeMap::new();
    for returned in &returns {
        *seconds.entry((*returned - first).as_secs()).or_default() += 1;
    }
    let peak = seconds.values().copied().max().unwrap_or(0);
    let mean = returns.len() as f64 / (back - first).as_secs_f64().max(1.0);
    Figures {
        sessions: crowd.lives.len(),
        back,
        peak_over_mean: f64::from(peak) / mean.max(1.0),
        reports,
    }
}

/// What every node said last is known, and what it was told to do is done once, and told.
async fn all_told(house: &House, crowd: &Crowd, patience: Duration) -> Vec<String> {
    let deadline = now() + patience;
    loop {
        let missing: Vec<String> = crowd
            .lives
            .iter()
            .filter_map(|life| {
                let (state, told) = (life.state().clone(), house.records.of(&life.who.id));
                let effects: u32 = state.done.values().sum();
                let is_told = told.generation == state.generation && told.ended > 0 && effects == 1;
                (!is_told).then(|| {
                    format!(
                        "{}: expected generation {} and one command done, found {} at control, {effects} effects, {} answers",
                        life.who.id, state.generation, told.generation, told.ended
                    )
                })
            })
            .collect();
        if missing.is_empty() || now() > deadline {
            return missing;
        }
        sleep(Duration::from_millis(50)).await;
    }
}

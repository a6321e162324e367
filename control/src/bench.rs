//! Measures the planner on a database, from inside: a fleet of rows, one process, no network.
//!
//! Takes where two databases are, gives figures. What it compares with, the floor, is measured in the same run on the same
//! database: the same rows, written with nothing around them.

mod create;
mod fleet;
mod idle;
mod road;
mod settle;

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result};
use bc_protocol::{
    id::RolloutId,
    release::{Trust, sign::SigningKey},
};

use crate::{
    clock::{Moment, Stopwatch},
    db::{Db, Location, postgres::Server},
    rollout::{
        bench::{News, pass_over},
        service::Services,
    },
};
use fleet::Fleet;

/// Rows that statements have given.
static ROWS: AtomicU64 = AtomicU64::new(0);

/// Transactions that were committed.
static COMMITS: AtomicU64 = AtomicU64::new(0);

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct Order {
    /// A path, or an address of PostgreSQL, where nothing is yet.
    pub small: String,
    /// Another one.
    pub large: String,
    /// Nodes of the large fleet.
    pub nodes: u32,
    /// How often what varies is measured.
    pub rounds: usize,
    /// What alone is measured, names with commas between; everything where there is none.
    pub only: Option<String>,
}

impl Order {
    fn has(&self, part: &str) -> bool {
        let only = self.only.as_ref();
        only.is_none_or(|only| only.split(',').any(|one| one == part))
    }
}

/// Nodes of the small fleet, and of the rollouts that are compared with a floor.
const SMALL: u32 = 1_000;
const COMPARED: u32 = 100_000;

/// Measures everything, and gives figures by name.
pub async fn run(order: &Order) -> Result<Vec<(&'static str, f64)>> {
    let small = Fleet::of(services(&order.small).await?, SMALL).await?;
    let large = Fleet::of(services(&order.large).await?, order.nodes).await?;
    let mut figures = Vec::new();
    if order.has("road") {
        figures.extend(road::run(&small).await?);
    }
    if order.has("create") {
        figures.extend(create::run(&large, order.rounds).await?);
    }
    if order.has("plan") {
        figures.extend(create::plan(&large, order.rounds).await?);
    }
    if order.has("settle") {
        figures.extend(settle::run(&large, order.rounds).await?);
    }
    if order.has("idle") {
        figures.extend(idle::run(&small, &large).await?);
    }
    if order.has("pause") {
        figures.extend(road::pause(&large).await?);
    }
    small.close().await;
    large.close().await;
    Ok(figures)
}

async fn services(place: &str) -> Result<Services> {
    let location = if place.starts_with("postgres://") {
        Location::Postgres(Box::new(Server::parse(place)?))
    } else {
        Location::Sqlite(PathBuf::from(place))
    };
    let db = Db::open(&location).await?;
    let trust = Trust::new([key()?.pin()], 1)?;
    let grace = Duration::from_secs(300);
    Ok(Services::new(
        db,
        trust,
        "http://127.0.0.1/downloads",
        grace,
    ))
}

/// Who signs the releases.
fn key() -> Result<SigningKey> {
    SigningKey::from_scalar(&[7; 32]).context("a scalar that is a key")
}

/// Notes what a statement gave.
pub(crate) fn rows(rows: usize) {
    ROWS.fetch_add(u64::try_from(rows).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Notes a commit.
pub(crate) fn committed() {
    COMMITS.fetch_add(1, Ordering::Relaxed);
}

/// What has been noted since a moment.
struct Count {
    of: &'static AtomicU64,
    before: u64,
}

impl Count {
    fn of(of: &'static AtomicU64) -> Self {
        let before = of.load(Ordering::Relaxed);
        Self { of, before }
    }

    /// So many for each of that many times.
    fn per(&self, times: usize) -> f64 {
        let since = self.of.load(Ordering::Relaxed) - self.before;
        share(since, times)
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "no count here comes near what a float holds exactly"
)]
fn share(sum: u64, times: usize) -> f64 {
    sum as f64 / times as f64
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// The span that this share of all does not exceed, in percent.
fn percentile(spans: &mut [Duration], percent: usize) -> Duration {
    spans.sort_unstable();
    let last = spans.len().saturating_sub(1);
    spans.get(last * percent / 100).copied().unwrap_or_default()
}

/// One pass. Gives how many nodes it told.
async fn pass(services: &Services, id: &RolloutId, news: &News) -> Result<usize> {
    Ok(pass_over(services, id, news, Moment::now)
        .await?
        .stale
        .len())
}

/// How long something took, and what came of it.
async fn timed<T>(work: impl Future<Output = Result<T>>) -> Result<(Duration, T)> {
    let watch = Stopwatch::start();
    let done = work.await?;
    Ok((watch.elapsed(), done))
}

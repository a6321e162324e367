//! Passes that change nothing, over few nodes and over many.
//!
//! What a pass waits for, threads that wake and a machine that slows down, is no part of how its cost grows: so the two
//! fleets take turns, pass by pass, in one process.

use std::time::Duration;

use anyhow::{Result, ensure};
use bc_protocol::id::RolloutId;

use super::{Count, ROWS, fleet::Fleet, ms, pass, percentile, timed};
use crate::rollout::bench::{News, everything};

/// Idle passes that are measured.
const IDLE: usize = 400;

/// Idle passes that are not.
const FIRST: usize = 40;

pub(super) async fn run(small: &Fleet, large: &Fleet) -> Result<Vec<(&'static str, f64)>> {
    let (small, large) = (Idle::begin(small).await?, Idle::begin(large).await?);
    let (mut few, mut many) = (Passes::default(), Passes::default());
    for number in 0..FIRST + IDLE {
        let (one, other) = (small.pass().await?, large.pass().await?);
        if number >= FIRST {
            few.add(one);
            many.add(other);
        }
    }
    let (whole, _) = timed(pass(&large.fleet.services, &large.id, &everything())).await?;
    let (few, many) = (few.conclude(), many.conclude());
    Ok(vec![
        ("idle_pass_ms", ms(many.took)),
        ("idle_pass_small_ms", ms(few.took)),
        (
            "idle_pass_growth",
            many.took.as_secs_f64() / few.took.as_secs_f64(),
        ),
        ("idle_rows", many.rows),
        ("idle_rows_growth", many.rows / few.rows),
        ("whole_look_ms", ms(whole)),
    ])
}

/// A rollout of everybody whose budgets are used up; something is new of one node, and it changes nothing.
struct Idle<'a> {
    fleet: &'a Fleet,
    id: RolloutId,
    news: News,
}

impl<'a> Idle<'a> {
    async fn begin(fleet: &'a Fleet) -> Result<Self> {
        let id = fleet.create(&fleet.pools).await?.id;
        pass(&fleet.services, &id, &everything()).await?;
        fleet.analyze().await?;
        let flying = fleet.flying(&id).await?;
        let mut news = News::default();
        news.nodes.extend(flying.first().cloned());
        Ok(Self { fleet, id, news })
    }

    /// How long one took, and how many rows it read.
    async fn pass(&self) -> Result<(Duration, f64)> {
        let rows = Count::of(&ROWS);
        let (took, changed) = timed(pass(&self.fleet.services, &self.id, &self.news)).await?;
        ensure!(
            changed == 0,
            "expected an idle pass, found one that told {changed} nodes"
        );
        Ok((took, rows.per(1)))
    }
}

/// Passes of one fleet.
#[derive(Default)]
struct Passes {
    took: Vec<Duration>,
    rows: f64,
}

/// What one of them costs: in the middle, and on average.
struct Cost {
    took: Duration,
    rows: f64,
}

impl Passes {
    fn add(&mut self, (took, rows): (Duration, f64)) {
        self.took.push(took);
        self.rows += rows;
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "no count here comes near what a float holds exactly"
    )]
    fn conclude(mut self) -> Cost {
        let passes = self.took.len() as f64;
        Cost {
            took: percentile(&mut self.took, 50),
            rows: self.rows / passes,
        }
    }
}

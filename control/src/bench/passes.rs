//! Passes that change nothing, and passes that settle and start many.

use std::time::Duration;

use anyhow::{Result, ensure};
use bc_protocol::id::RolloutId;

use super::{Count, ROWS, fleet::Fleet, ms, percentile, timed};
use crate::{
    clock::Moment,
    db::query,
    rollout::{
        bench::{News, everything, pass_over},
        service::Services,
    },
};

/// Idle passes that are measured.
const IDLE: usize = 200;

/// What a pass costs that changes nothing.
pub(super) struct Idle {
    pub(super) took: Duration,
    pub(super) rows: f64,
    /// One that looks at everything in flight.
    pub(super) whole: Duration,
}

/// A rollout of everybody whose budgets are used up; something is new of one node, and it changes nothing.
pub(super) async fn idle(fleet: &Fleet) -> Result<Idle> {
    let rollout = fleet.create(&fleet.pools).await?;
    let id = &rollout.id;
    pass(&fleet.services, id, &everything()).await?;
    fleet.analyze().await?;
    let flying = fleet.flying(id).await?;
    let mut news = News::default();
    news.nodes.extend(flying.first().cloned());
    for _ in 0..IDLE / 10 {
        pass(&fleet.services, id, &news).await?;
    }
    let rows = Count::of(&ROWS);
    let mut took = Vec::new();
    for _ in 0..IDLE {
        let (span, changed) = timed(pass(&fleet.services, id, &news)).await?;
        ensure!(
            changed == 0,
            "expected an idle pass, found one that told {changed} nodes"
        );
        took.push(span);
    }
    let rows = rows.per(IDLE);
    let (whole, _) = timed(pass(&fleet.services, id, &everything())).await?;
    Ok(Idle {
        took: percentile(&mut took, 50),
        rows,
        whole,
    })
}

/// A pass that settles and starts a thousand nodes, over the updates of their rows alone, one by one.
pub(super) async fn settle(fleet: &Fleet, rounds: usize) -> Result<Vec<(&'static str, f64)>> {
    let rollout = fleet.create(&fleet.compared()).await?;
    let id = &rollout.id;
    pass(&fleet.services, id, &everything()).await?;
    fleet.analyze().await?;
    let (mut floors, mut passes) = (Vec::new(), Vec::new());
    let mut nodes = 0;
    for _ in 0..rounds {
        let mut news = News::default();
        news.nodes.extend(fleet.flying(id).await?);
        nodes = news.nodes.len();
        fleet.upgrade(id).await?;
        floors.push(timed(updates(fleet, 2 * nodes)).await?.0);
        let (took, started) = timed(pass(&fleet.services, id, &news)).await?;
        ensure!(started == nodes, "expected {nodes} starts, found {started}");
        passes.push(took);
    }
    fleet.abort(id).await?;
    // What they do after the abort is not waited for: they are given back as those that did it.
    fleet.upgrade(id).await?;
    pass(&fleet.services, id, &everything()).await?;
    let (floor, pass) = (percentile(&mut floors, 50), percentile(&mut passes, 50));
    Ok(vec![
        ("settle_nodes", f64::from(u32::try_from(nodes)?)),
        ("updates_ms", ms(floor)),
        ("settle_ms", ms(pass)),
        (
            "settle_over_updates",
            pass.as_secs_f64() / floor.as_secs_f64(),
        ),
    ])
}

/// So many rows of the floor's table, one statement each.
async fn updates(fleet: &Fleet, rows: usize) -> Result<()> {
    let mut tx = fleet.services.db.begin().await?;
    for node in 0..i64::try_from(rows)? {
        query("UPDATE floor_rows SET state = $3 WHERE rollout = $1 AND node = $2")
            .bind(1_i64)
            .bind(node)
            .bind("upgrading")
            .execute(&mut tx)
            .await?;
    }
    Ok(tx.commit().await?)
}

/// One pass. Gives how many nodes it told.
async fn pass(services: &Services, id: &RolloutId, news: &News) -> Result<usize> {
    Ok(pass_over(services, id, news, Moment::now)
        .await?
        .stale
        .len())
}

//! The creation of a rollout, over the least that it could cost: shuffle its nodes and write the same rows, in one table
//! with one key.

use anyhow::Result;
use bc_protocol::id::{NodeId, RolloutId};

use super::{COMPARED, fleet::Fleet, ms, percentile, timed};
use crate::{
    db::{Bind as _, bulk::insert_many, query},
    rollout::{bench::sort_key, service},
};

pub(super) async fn run(fleet: &Fleet, rounds: usize) -> Result<Vec<(&'static str, f64)>> {
    let nodes = nodes();
    let compared = fleet.compared();
    let (mut floors, mut created) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        floors.push(timed(floor(fleet, &nodes)).await?.0);
        let (took, rollout) = timed(fleet.create(&compared)).await?;
        created.push(took);
        fleet.abort(&rollout.id).await?;
    }
    let (floor, create) = (percentile(&mut floors, 50), percentile(&mut created, 50));
    let (everybody, rollout) = timed(fleet.create(&fleet.pools)).await?;
    let (aborted, ()) = timed(fleet.abort(&rollout.id)).await?;
    Ok(vec![
        ("bulk_ms", ms(floor)),
        ("create_100k_ms", ms(create)),
        (
            "create_100k_over_bulk",
            create.as_secs_f64() / floor.as_secs_f64(),
        ),
        ("create_all_ms", ms(everybody)),
        ("abort_all_ms", ms(aborted)),
    ])
}

/// What a rollout would be like, asked as its author asks.
pub(super) async fn plan(fleet: &Fleet, rounds: usize) -> Result<Vec<(&'static str, f64)>> {
    let compared = fleet.compared();
    let mut took = Vec::new();
    for _ in 0..rounds {
        let request = fleet.request(&compared)?;
        took.push(
            timed(async { Ok(service::plan(&fleet.services, "bench", request).await?) })
                .await?
                .0,
        );
    }
    Ok(vec![("plan_100k_ms", ms(percentile(&mut took, 50)))])
}

fn nodes() -> Vec<NodeId> {
    (0..COMPARED)
        .map(|number| NodeId::derived(&[&number.to_be_bytes()]))
        .collect()
}

async fn floor(fleet: &Fleet, nodes: &[NodeId]) -> Result<()> {
    let rollout = RolloutId::derived(&[b"floor"]);
    let mut tx = fleet.services.db.begin().await?;
    query("DROP TABLE IF EXISTS floor_rows")
        .execute(&mut tx)
        .await?;
    let create = if fleet.services.db.is_shared() {
        "CREATE TABLE floor_rows (rollout BIGINT NOT NULL, node BIGINT NOT NULL, place BIGINT NOT NULL,
             pool BIGINT NOT NULL, wave BIGINT NOT NULL, state TEXT NOT NULL, PRIMARY KEY (rollout, node))"
    } else {
        "CREATE TABLE floor_rows (rollout INTEGER NOT NULL, node INTEGER NOT NULL, place INTEGER NOT NULL,
             pool INTEGER NOT NULL, wave INTEGER NOT NULL, state TEXT NOT NULL, PRIMARY KEY (rollout, node))
             WITHOUT ROWID"
    };
    query(create).execute(&mut tx).await?;
    let mut order: Vec<(i64, &NodeId)> = (0_i64..).zip(nodes).collect();
    order.sort_by_cached_key(|(_, node)| sort_key(&rollout, node));
    let mut placed: Vec<(u32, i64)> = (0..).zip(order.iter().map(|(number, _)| *number)).collect();
    placed.sort_unstable_by_key(|(_, number)| *number);
    let rows = placed.iter().map(|(place, number)| {
        [
            1_i64.value(),
            number.value(),
            place.value(),
            (number % 10).value(),
            0_i64.value(),
            "pending".value(),
        ]
    });
    let table = "floor_rows (rollout, node, place, pool, wave, state)";
    insert_many(&mut tx, table, rows).await?;
    Ok(tx.commit().await?)
}

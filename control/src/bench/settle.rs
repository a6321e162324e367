//! A pass that settles and starts many, over the updates of its rows alone.
//!
//! The floor does to a copy of the rows, with the same key and indexes, what the pass has just done to them: the same
//! nodes, one statement each, one transaction.

use std::time::Duration;

use anyhow::{Result, ensure};
use bc_protocol::id::RolloutId;

use super::{fleet::Fleet, ms, pass, percentile, timed};
use crate::{
    db::query,
    rollout::bench::{News, everything},
};

pub(super) async fn run(fleet: &Fleet, rounds: usize) -> Result<Vec<(&'static str, f64)>> {
    let rollout = fleet.create(&fleet.compared()).await?;
    let id = &rollout.id;
    pass(&fleet.services, id, &everything()).await?;
    copy(fleet, id).await?;
    fleet.analyze().await?;
    let (mut floors, mut passes) = (Vec::new(), Vec::new());
    let mut nodes = 0;
    for _ in 0..rounds {
        let mut news = News::default();
        news.nodes.extend(fleet.flying(id).await?);
        nodes = news.nodes.len();
        fleet.upgrade(id).await?;
        let (took, started) = timed(pass(&fleet.services, id, &news)).await?;
        ensure!(started == nodes, "expected {nodes} starts, found {started}");
        passes.push(took);
        let moves = moves(fleet, id).await?;
        ensure!(
            moves.len() == 2 * nodes,
            "expected two moves a node, found {} of {nodes}",
            moves.len()
        );
        floors.push(timed(updates(fleet, &moves)).await?.0);
    }
    fleet.abort(id).await?;
    // What they do after the abort is not waited for: they are given back as those that did it.
    fleet.upgrade(id).await?;
    pass(&fleet.services, id, &everything()).await?;
    Ok(figures(nodes, &mut floors, &mut passes))
}

fn figures(
    nodes: usize,
    floors: &mut [Duration],
    passes: &mut [Duration],
) -> Vec<(&'static str, f64)> {
    let (floor, pass) = (percentile(floors, 50), percentile(passes, 50));
    vec![
        ("settle_nodes", f64::from(u32::try_from(nodes).unwrap_or(0))),
        ("updates_ms", ms(floor)),
        ("settle_ms", ms(pass)),
        (
            "settle_over_updates",
            pass.as_secs_f64() / floor.as_secs_f64(),
        ),
    ]
}

/// Copies the rollout's rows, with what makes an update of one cost what it costs.
async fn copy(fleet: &Fleet, id: &RolloutId) -> Result<()> {
    let table = if fleet.services.db.is_shared() {
        "CREATE TABLE floor_moves (LIKE rollout_rows INCLUDING DEFAULTS, PRIMARY KEY (rollout, node))"
    } else {
        "CREATE TABLE floor_moves (rollout INTEGER NOT NULL, node INTEGER NOT NULL, place INTEGER NOT NULL,
             pool INTEGER NOT NULL, wave INTEGER NOT NULL, state TEXT NOT NULL, deadline_at INTEGER, lingers INTEGER,
             packed INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (rollout, node)) STRICT, WITHOUT ROWID"
    };
    let mut tx = fleet.services.db.begin().await?;
    for statement in [
        "DROP TABLE IF EXISTS floor_moves",
        table,
        "CREATE INDEX floor_moves_waiting ON floor_moves (rollout, wave, pool, place, node)
             WHERE state = 'pending' AND packed = 0",
        "CREATE INDEX floor_moves_flying ON floor_moves (rollout, deadline_at, node)
             WHERE state IN ('upgrading', 'rolling-back')",
        "CREATE INDEX floor_moves_failed ON floor_moves (rollout, wave, node) WHERE state = 'failed'",
        "CREATE INDEX floor_moves_lingering ON floor_moves (lingers, rollout, node) WHERE lingers = 1",
    ] {
        query(statement).execute(&mut tx).await?;
    }
    query(
        "INSERT INTO floor_moves (rollout, node, place, pool, wave, state, deadline_at, lingers, packed)
         SELECT r.rollout, r.node, r.place, r.pool, r.wave, r.state, r.deadline_at, r.lingers, r.packed
         FROM rollout_rows r WHERE r.rollout = (SELECT number FROM rollouts WHERE id = $1) ORDER BY r.node",
    )
    .bind(id.as_str())
    .execute(&mut tx)
    .await?;
    Ok(tx.commit().await?)
}

/// A row that has moved.
struct Move {
    rollout: i64,
    node: i64,
    state: String,
    deadline: Option<i64>,
}

/// What the last pass has moved: the copy does not have it yet.
async fn moves(fleet: &Fleet, id: &RolloutId) -> Result<Vec<Move>> {
    let rows = query(
        "SELECT r.rollout, r.node, r.state, r.deadline_at FROM rollout_rows r
         JOIN floor_moves m ON m.rollout = r.rollout AND m.node = r.node
         WHERE r.rollout = (SELECT number FROM rollouts WHERE id = $1) AND r.state <> m.state ORDER BY r.state, r.place",
    )
    .bind(id.as_str())
    .fetch_all(fleet.services.db.reader())
    .await?;
    let moves = rows.iter().map(|row| {
        Ok(Move {
            rollout: row.try_get("rollout")?,
            node: row.try_get("node")?,
            state: row.try_get("state")?,
            deadline: row.try_get("deadline_at")?,
        })
    });
    moves.collect()
}

/// One statement a row.
async fn updates(fleet: &Fleet, moves: &[Move]) -> Result<()> {
    let mut tx = fleet.services.db.begin().await?;
    for one in moves {
        query("UPDATE floor_moves SET state = $3, deadline_at = $4, packed = 0 WHERE rollout = $1 AND node = $2")
            .bind(one.rollout)
            .bind(one.node)
            .bind(one.state.as_str())
            .bind(one.deadline)
            .execute(&mut tx)
            .await?;
    }
    Ok(tx.commit().await?)
}

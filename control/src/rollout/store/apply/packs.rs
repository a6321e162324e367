//! Opens packs of nodes that wait, and throws away those that nobody needs any more.
//!
//! Packs of one wave and pool are opened in their order: so whoever was in one that is open stands before all that are
//! in others.

use std::collections::{BTreeMap, BTreeSet};

use bc_protocol::id::PoolId;

use crate::{
    db::{
        Bind as _, Tx,
        bulk::{fetch_with_rows, with_rows},
        column::json,
        query,
    },
    rollout::{
        plan::{Plan, Step},
        snapshot::Snapshot,
    },
};

/// Opens every pack up to those of which somebody starts. Whoever stands in none stands before them.
pub(super) async fn open(
    tx: &mut Tx,
    (snapshot, plan): (&Snapshot, &Plan),
    rollout: i64,
) -> Result<(), sqlx::Error> {
    let packed = snapshot.pending.iter().filter(|waiting| waiting.packed);
    let packed: BTreeSet<u32> = packed.map(|waiting| waiting.row.place).collect();
    if packed.is_empty() {
        return Ok(());
    }
    let mut reached: BTreeMap<(u32, &PoolId), u32> = BTreeMap::new();
    for change in &plan.rows {
        if let Step::Start { .. } = change.step
            && packed.contains(&change.row.place)
        {
            let row = &change.row;
            let place = reached.entry((row.wave, &row.pool)).or_default();
            *place = row.place.max(*place);
        }
    }
    let rows = reached.iter().map(|((wave, pool), place)| {
        [
            rollout.value(),
            wave.value(),
            pool.as_str().value(),
            place.value(),
        ]
    });
    let opened = fetch_with_rows(tx, TAKE, rows).await?;
    let mut nodes: Vec<i64> = Vec::new();
    for pack in &opened {
        nodes.extend(json::<Vec<i64>>(pack, "nodes")?);
    }
    let nodes = nodes
        .into_iter()
        .map(|node| [rollout.value(), node.value()]);
    with_rows(tx, UNPACK, nodes).await?;
    Ok(())
}

const TAKE: &str = "
    DELETE FROM rollout_packs WHERE (rollout, wave, pool, place) IN (
        SELECT k.rollout, k.wave, k.pool, k.place FROM {rows} CROSS JOIN pools q CROSS JOIN rollout_packs k
        WHERE q.id = v.column3 AND k.rollout = v.column1 AND k.wave = v.column2 AND k.pool = q.number
          AND k.place <= v.column4)
    RETURNING nodes";

/// Those that have moved are in no pack already.
const UNPACK: &str = "
    UPDATE rollout_rows SET packed = 0
    WHERE (rollout, node) IN (SELECT v.column1, v.column2 FROM {rows}) AND packed = 1";

/// Throws away packs of which nobody waits any more: of waves that are over, and where everybody was passed over.
pub(super) async fn leave(
    tx: &mut Tx,
    (snapshot, plan): (&Snapshot, &Plan),
    rollout: i64,
) -> Result<(), sqlx::Error> {
    let (before, after) = (&snapshot.head, &plan.head);
    let ends = after.finished_at.is_some() && before.finished_at.is_none();
    let all = ends || plan.sweep.is_some();
    if before.wave == after.wave && !all {
        return Ok(());
    }
    query("DELETE FROM rollout_packs WHERE rollout = $1 AND (wave < $2 OR $3 = 1)")
        .bind(rollout)
        .bind(after.wave)
        .bind(all)
        .execute(tx)
        .await?;
    Ok(())
}

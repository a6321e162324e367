//! A node's place in its pool's budget.
//!
//! Takes a reason, gives or ends the place. The place belongs to the node: the pool's counter moves with the first
//! reason and with the last, in the transaction of whoever has the reason.

use std::collections::{BTreeMap, BTreeSet};

use bc_protocol::id::{NodeId, PoolId};

use crate::{
    clock::Moment,
    db::{
        Bind as _, Tx,
        bulk::{insert_many, with_rows},
        query, query_scalar,
    },
    fleet::late,
};

/// Adds a reason for which the node is disrupted; a reason that it has already changes nothing.
pub(crate) async fn occupy(
    tx: &mut Tx,
    node: &NodeId,
    pool: &PoolId,
    reason: &str,
    now: Moment,
) -> Result<(), sqlx::Error> {
    let added = query(
        "INSERT INTO disruptions (node_id, reason, pool_id, since) VALUES ($1, $2, $3, $4)
         ON CONFLICT (node_id, reason) DO NOTHING",
    )
    .bind(node.as_str())
    .bind(reason)
    .bind(pool.as_str())
    .bind(now.millis())
    .execute(&mut **tx)
    .await?;
    if added.rows_affected() == 1 && reasons(tx, node).await? == 1 {
        query("UPDATE pools SET disrupted = disrupted + 1 WHERE id = $1")
            .bind(pool.as_str())
            .execute(&mut **tx)
            .await?;
    }
    Ok(())
}

/// Takes a reason away; one that the node does not have changes nothing.
pub(crate) async fn vacate(tx: &mut Tx, node: &NodeId, reason: &str) -> Result<(), sqlx::Error> {
    let pool: Option<String> = query_scalar(
        "DELETE FROM disruptions WHERE node_id = $1 AND reason = $2 RETURNING pool_id",
    )
    .bind(node.as_str())
    .bind(reason)
    .fetch_optional(&mut **tx)
    .await?;
    let Some(pool) = pool else {
        return Ok(());
    };
    if reasons(tx, node).await? == 0 {
        query("UPDATE pools SET disrupted = disrupted - 1 WHERE id = $1")
            .bind(pool)
            .execute(&mut **tx)
            .await?;
        late::look_again(tx, node).await?;
    }
    Ok(())
}

/// What one reason gives back and takes, of many nodes at once: none of them stands in a list twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moves<'a> {
    /// Nodes that it disrupts no more; one that it does not disrupt changes nothing.
    pub(crate) given: Vec<&'a NodeId>,
    /// Nodes that it disrupts from now on, each with its pool.
    pub(crate) taken: Vec<(&'a NodeId, &'a PoolId)>,
}

/// As [`vacate`] for all that are given back, then as [`occupy`] for all that are taken. A pool that gives as many places as it
/// takes keeps its counter.
pub(crate) async fn exchange(
    tx: &mut Tx,
    Moves { given, taken }: &Moves<'_>,
    reason: &str,
    now: Moment,
) -> Result<(), sqlx::Error> {
    let nodes = given.iter().chain(taken.iter().map(|(node, _)| node));
    let nodes: BTreeSet<&NodeId> = nodes.copied().collect();
    if nodes.is_empty() {
        return Ok(());
    }
    let mut held = Held::read(tx, &nodes).await?;
    let ended: BTreeSet<&NodeId> = given.iter().copied().collect();
    let ended = ended.into_iter().filter(|node| held.end(node, reason));
    let ended: BTreeSet<&NodeId> = ended.collect();
    if !ended.is_empty() {
        query(VACATE)
            .bind(list(&ended)?)
            .bind(reason)
            .execute(&mut **tx)
            .await?;
    }
    let begun = taken.iter();
    let begun = begun.filter(|(node, pool)| held.begin(node, pool, reason));
    let rows: Vec<_> = begun
        .map(|(node, pool)| {
            [
                node.as_str().value(),
                reason.value(),
                pool.as_str().value(),
                now.millis().value(),
            ]
        })
        .collect();
    insert_many(tx, DISRUPTIONS, rows.into_iter()).await?;
    let moved = held.moved.iter().filter(|(_, nodes)| **nodes != 0);
    let moved: Vec<_> = moved
        .map(|(pool, nodes)| [pool.value(), nodes.value()])
        .collect();
    with_rows(tx, SHIFT, moved.into_iter()).await?;
    let free = ended.into_iter().filter(|node| held.is_to_be_told(node));
    late::look_again_all(tx, free).await
}

/// Nodes, what disrupts them, and by how many nodes pools' counters move.
#[derive(Debug, Default)]
struct Held {
    /// By node: each reason, with its pool.
    reasons: BTreeMap<String, BTreeMap<String, String>>,
    /// Nodes that may be late, and wait for something to happen.
    waiting: BTreeSet<String>,
    moved: BTreeMap<String, i64>,
}

impl Held {
    async fn read(tx: &mut Tx, nodes: &BTreeSet<&NodeId>) -> Result<Self, sqlx::Error> {
        let rows = query(HELD).bind(list(nodes)?).fetch_all(&mut **tx).await?;
        let mut held = Self::default();
        for row in &rows {
            let node: &str = row.try_get("node_id")?;
            match row.try_get::<Option<&str>>("reason")? {
                Some(reason) => {
                    let pool: String = row.try_get("pool_id")?;
                    let reasons = held.reasons.entry(node.to_owned()).or_default();
                    reasons.insert(reason.to_owned(), pool);
                }
                None => drop(held.waiting.insert(node.to_owned())),
            }
        }
        Ok(held)
    }

    /// Ends a reason; false if the node does not have it.
    fn end(&mut self, node: &NodeId, reason: &str) -> bool {
        let Some(reasons) = self.reasons.get_mut(node.as_str()) else {
            return false;
        };
        let Some(pool) = reasons.remove(reason) else {
            return false;
        };
        if reasons.is_empty() {
            let nodes = self.moved.entry(pool).or_default();
            *nodes = nodes.saturating_sub(1);
        }
        true
    }

    /// Adds a reason; false if the node has it already.
    fn begin(&mut self, node: &NodeId, pool: &PoolId, reason: &str) -> bool {
        let reasons = self.reasons.entry(node.to_string()).or_default();
        let is_first = reasons.is_empty();
        let had = reasons.insert(reason.to_owned(), pool.to_string());
        if is_first {
            let nodes = self.moved.entry(pool.to_string()).or_default();
            *nodes = nodes.saturating_add(1);
        }
        had.is_none()
    }

    /// Whether nothing disrupts it any more, and it waits for that.
    fn is_to_be_told(&self, node: &NodeId) -> bool {
        let is_free = self
            .reasons
            .get(node.as_str())
            .is_none_or(BTreeMap::is_empty);
        is_free && self.waiting.contains(node.as_str())
    }
}

fn list(nodes: &BTreeSet<&NodeId>) -> Result<String, sqlx::Error> {
    serde_json::to_string(nodes).map_err(|error| sqlx::Error::Encode(error.into()))
}

/// What disrupts some nodes; and, with no reason, those of them that may be late and wait.
const HELD: &str = "
    SELECT d.node_id, d.reason, d.pool_id FROM json_each($1) e CROSS JOIN disruptions d WHERE d.node_id = e.value
    UNION ALL
    SELECT c.node_id, NULL, NULL FROM json_each($1) e CROSS JOIN late_candidates c
    WHERE c.node_id = e.value AND c.ready = 0";

const SHIFT: &str = "
    UPDATE pools SET disrupted = disrupted + v.column2 FROM {rows} WHERE pools.id = v.column1";

const DISRUPTIONS: &str = "disruptions (node_id, reason, pool_id, since)";

const VACATE: &str = "
    DELETE FROM disruptions WHERE node_id IN (SELECT value FROM json_each($1)) AND reason = $2";

async fn reasons(tx: &mut Tx, node: &NodeId) -> Result<i64, sqlx::Error> {
    query_scalar("SELECT count(*) FROM disruptions WHERE node_id = $1")
        .bind(node.as_str())
        .fetch_one(&mut **tx)
        .await
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bc_protocol::id::{NodeId, PoolId};
    use proptest::prelude::*;

    use super::{Moves, exchange, occupy, vacate};
    use crate::{
        clock::Moment,
        db::{Db, query, query_scalar, tests::fresh},
    };

    const REASONS: [&str; 2] = ["rollout_a", "wf_b"];

    fn node(number: u8) -> NodeId {
        NodeId::derived(&[&[number]])
    }

    fn pool() -> PoolId {
        PoolId::derived(&[b"pool"])
    }

    async fn three_nodes() -> (Db, tempfile::TempDir) {
        let (db, dir) = fresh().await;
        let mut tx = db.begin().await.unwrap();
        for statement in [
            "INSERT INTO pools (id, tenant, name, budget_ppm, created_at) VALUES ($1, 't', 'p', 0, 0)",
            "INSERT INTO join_tokens (id, tenant, pool_id, secret_sha256, uses_max, expires_at, created_at, created_by)
             VALUES ('t', 't', $1, cast('' AS BLOB), 1, 0, 0, 'x')",
        ] {
            query(statement)
                .bind(pool().as_str())
                .execute(&mut *tx)
                .await
                .unwrap();
        }
        for number in 0..3_u8 {
            query(
                "INSERT INTO nodes (id, tenant, pool_id, join_token_id, spki, labels, joined_at)
                 VALUES ($1, 't', $2, 't', $3, '{}', 0)",
            )
            .bind(node(number).as_str())
            .bind(pool().as_str())
            .bind([number].as_slice())
            .execute(&mut *tx)
            .await
            .unwrap();
        }
        tx.commit().await.unwrap();
        (db, dir)
    }

    async fn disrupted(db: &Db) -> i64 {
        query_scalar("SELECT disrupted FROM pools")
            .fetch_one(db.reader())
            .await
            .unwrap()
    }

    // I21
    #[tokio::test]
    async fn two_reasons_of_one_node_take_one_place() {
        let (db, _dir) = three_nodes().await;
        let now = Moment::from_millis(0);
        let mut tx = db.begin().await.unwrap();
        for reason in REASONS {
            occupy(&mut tx, &node(0), &pool(), reason, now)
                .await
                .unwrap();
        }
        vacate(&mut tx, &node(0), REASONS[0]).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(disrupted(&db).await, 1);
        let mut tx = db.begin().await.unwrap();
        vacate(&mut tx, &node(0), REASONS[1]).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(disrupted(&db).await, 0);
    }

    #[tokio::test]
    async fn a_place_that_goes_from_one_node_to_another_is_one_place_all_the_time() {
        let (db, _dir) = three_nodes().await;
        let now = Moment::from_millis(0);
        let (given, taken, pool) = (node(0), node(1), pool());
        let mut tx = db.begin().await.unwrap();
        occupy(&mut tx, &given, &pool, REASONS[0], now)
            .await
            .unwrap();
        for node in [&given, &taken] {
            query("INSERT INTO late_candidates (node_id, pool_id, ready) VALUES ($1, $2, 0)")
                .bind(node.as_str())
                .bind(pool.as_str())
                .execute(&mut *tx)
                .await
                .unwrap();
        }
        let moves = Moves {
            given: vec![&given],
            taken: vec![(&taken, &pool)],
        };
        exchange(&mut tx, &moves, REASONS[0], now).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(disrupted(&db).await, 1);
        for (sql, expected) in [
            ("SELECT node_id FROM disruptions", &taken),
            (
                "SELECT node_id FROM late_candidates WHERE ready = 1",
                &given,
            ),
        ] {
            let found: Vec<String> = query_scalar(sql).fetch_all(db.reader()).await.unwrap();
            assert_eq!(found, [expected.as_str()]);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn the_counter_is_the_number_of_disrupted_nodes(
            steps in proptest::collection::vec((0_u8..3, 0_usize..2, any::<bool>(), any::<bool>()), 0..30),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (db, _dir) = three_nodes().await;
                let mut held = BTreeSet::new();
                let mut tx = db.begin().await.unwrap();
                for (number, reason, comes, together) in steps {
                    let now = Moment::from_millis(0);
                    // One by one, or together with the node after it.
                    let mut nodes = BTreeSet::from([number]);
                    nodes.extend(together.then_some((number + 1) % 3));
                    let ids: Vec<NodeId> = nodes.iter().map(|number| node(*number)).collect();
                    let ids: Vec<&NodeId> = ids.iter().collect();
                    if comes {
                        held.extend(nodes.iter().map(|number| (*number, reason)));
                        if together {
                            let pool = pool();
                            let taken = ids.iter().map(|id| (*id, &pool)).collect();
                            let moves = Moves { taken, given: Vec::new() };
                            exchange(&mut tx, &moves, REASONS[reason], now).await.unwrap();
                        } else {
                            occupy(&mut tx, ids[0], &pool(), REASONS[reason], now).await.unwrap();
                        }
                    } else {
                        held.retain(|(number, why)| !(nodes.contains(number) && *why == reason));
                        if together {
                            let moves = Moves { given: ids, taken: Vec::new() };
                            exchange(&mut tx, &moves, REASONS[reason], now).await.unwrap();
                        } else {
                            vacate(&mut tx, ids[0], REASONS[reason]).await.unwrap();
                        }
                    }
                }
                tx.commit().await.unwrap();
                let nodes: BTreeSet<u8> = held.iter().map(|(number, _)| *number).collect();
                assert_eq!(disrupted(&db).await, i64::try_from(nodes.len()).unwrap());
            });
        }
    }
}

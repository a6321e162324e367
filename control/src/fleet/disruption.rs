//! A node's place in its pool's budget.
//!
//! Takes a reason, gives or ends the place. The place belongs to the node: the pool's counter moves with the first
//! reason and with the last, in the transaction of whoever has the reason.

use bc_protocol::id::{NodeId, PoolId};

use crate::{
    clock::Moment,
    db::{Bind as _, Tx, bulk::with_rows, query, query_scalar},
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

/// As [`occupy`], for many nodes of their pools at once.
pub(crate) async fn occupy_all(
    tx: &mut Tx,
    nodes: &[(&NodeId, &PoolId)],
    reason: &str,
    now: Moment,
) -> Result<(), sqlx::Error> {
    let rows = || {
        nodes.iter().map(|(node, pool)| {
            [
                node.as_str().value(),
                reason.value(),
                pool.as_str().value(),
                now.millis().value(),
            ]
        })
    };
    with_rows(tx, COUNT_FIRST, rows()).await?;
    with_rows(tx, OCCUPY, rows()).await?;
    Ok(())
}

/// As [`vacate`], for many nodes at once.
pub(crate) async fn vacate_all(
    tx: &mut Tx,
    nodes: &[&NodeId],
    reason: &str,
) -> Result<(), sqlx::Error> {
    for statement in [DISCOUNT_LAST, LOOK_AGAIN, VACATE] {
        let rows = nodes
            .iter()
            .map(|node| [node.as_str().value(), reason.value()]);
        with_rows(tx, statement, rows).await?;
    }
    Ok(())
}

/// Nodes that nothing disrupts yet take a place of their pool.
const COUNT_FIRST: &str = "
    UPDATE pools SET disrupted = disrupted + c.nodes
    FROM (SELECT v.column3 AS pool_id, count(DISTINCT v.column1) AS nodes FROM {rows}
          WHERE NOT EXISTS (SELECT 1 FROM disruptions d WHERE d.node_id = v.column1) GROUP BY v.column3) c
    WHERE pools.id = c.pool_id";

const OCCUPY: &str = "
    INSERT INTO disruptions (node_id, reason, pool_id, since)
    SELECT v.column1, v.column2, v.column3, v.column4 FROM {rows} WHERE 1 = 1
    ON CONFLICT (node_id, reason) DO NOTHING";

/// Nodes that nothing else disrupts give their place back.
const DISCOUNT_LAST: &str = "
    UPDATE pools SET disrupted = disrupted - c.nodes
    FROM (SELECT d.pool_id, count(DISTINCT d.node_id) AS nodes FROM {rows}
          JOIN disruptions d ON d.node_id = v.column1 AND d.reason = v.column2
          WHERE NOT EXISTS (SELECT 1 FROM disruptions o WHERE o.node_id = d.node_id AND o.reason <> d.reason)
          GROUP BY d.pool_id) c
    WHERE pools.id = c.pool_id";

const LOOK_AGAIN: &str = "
    UPDATE late_candidates SET ready = 1
    FROM {rows} JOIN disruptions d ON d.node_id = v.column1 AND d.reason = v.column2
    WHERE late_candidates.node_id = v.column1 AND late_candidates.ready = 0
      AND NOT EXISTS (SELECT 1 FROM disruptions o WHERE o.node_id = d.node_id AND o.reason <> d.reason)";

const VACATE: &str = "
    DELETE FROM disruptions WHERE (node_id, reason) IN (SELECT v.column1, v.column2 FROM {rows})";

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

    use super::{occupy, occupy_all, vacate, vacate_all};
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
                            let taken: Vec<_> = ids.iter().map(|id| (*id, &pool)).collect();
                            occupy_all(&mut tx, &taken, REASONS[reason], now).await.unwrap();
                        } else {
                            occupy(&mut tx, ids[0], &pool(), REASONS[reason], now).await.unwrap();
                        }
                    } else {
                        held.retain(|(number, why)| !(nodes.contains(number) && *why == reason));
                        if together {
                            vacate_all(&mut tx, &ids, REASONS[reason]).await.unwrap();
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

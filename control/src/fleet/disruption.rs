//! A node's place in its pool's budget.
//!
//! Takes a reason, gives or ends the place. The place belongs to the node: the pool's counter moves with the first
//! reason and with the last, in the transaction of whoever has the reason.

use bc_protocol::id::{NodeId, PoolId};

use crate::{
    clock::Moment,
    db::{Tx, query, query_scalar},
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

    use super::{occupy, vacate};
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
            steps in proptest::collection::vec((0_u8..3, 0_usize..2, any::<bool>()), 0..30),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (db, _dir) = three_nodes().await;
                let mut held = BTreeSet::new();
                let mut tx = db.begin().await.unwrap();
                for (number, reason, comes) in steps {
                    if comes {
                        held.insert((number, reason));
                        let now = Moment::from_millis(0);
                        occupy(&mut tx, &node(number), &pool(), REASONS[reason], now).await.unwrap();
                    } else {
                        held.remove(&(number, reason));
                        vacate(&mut tx, &node(number), REASONS[reason]).await.unwrap();
                    }
                }
                tx.commit().await.unwrap();
                let nodes: BTreeSet<u8> = held.iter().map(|(number, _)| *number).collect();
                assert_eq!(disrupted(&db).await, i64::try_from(nodes.len()).unwrap());
            });
        }
    }
}

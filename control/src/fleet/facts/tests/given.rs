//! Attempts that control has given the node: only of these the end is told.

use super::{AttemptId, Db, node, query};

/// As if control had sent the node these attempts, each in a rollout of its own.
pub(super) async fn give(db: &Db, names: &[&str]) {
    let mut tx = db.begin().await.unwrap();
    query(
        "INSERT INTO daemon_releases (id, version, sequence, published, registered_at, registered_by)
         VALUES ('r', '1.1.0', 2, cast('' AS BLOB), 0, 'x') ON CONFLICT DO NOTHING",
    )
    .execute(&mut *tx)
    .await
    .unwrap();
    for name in names {
        let attempt = AttemptId::derived(&[name.as_bytes()]);
        query(
            "INSERT INTO rollouts (id, tenant, version, state, wave, max_failure_ppm, soak_ms, timeout_ms, narrowed,
                                   maintenance, created_at, created_by, updated_at)
             VALUES ($1, 'root', '1.1.0', 'completed', 0, 0, 0, 0, 0, 0, (SELECT count(*) FROM rollouts), 'x', 0)",
        )
        .bind(attempt.as_str())
        .execute(&mut *tx)
        .await
        .unwrap();
        query(
            "INSERT INTO rollout_notes (rollout, node, attempt)
             SELECT o.number, n.number, $1 FROM rollouts o, nodes n WHERE o.id = $1 AND n.id = $2",
        )
        .bind(attempt.as_str())
        .bind(node().as_str())
        .execute(&mut *tx)
        .await
        .unwrap();
    }
    tx.commit().await.unwrap();
}

/// As if control sent the node this attempt now.
pub(super) async fn send(db: &Db, name: &str) {
    let mut tx = db.begin().await.unwrap();
    query("UPDATE nodes SET spec_attempt = $2 WHERE id = $1")
        .bind(node().as_str())
        .bind(AttemptId::derived(&[name.as_bytes()]).as_str())
        .execute(&mut *tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
}

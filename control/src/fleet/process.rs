//! Control processes, and whose links are whose.
//!
//! Takes a sign of life from each now and then, gives an end to the links of those that gave none for a while: nodes behind
//! them are not seen by anybody. Signs and their age are by the database's clock, whatever the processes' own say.

use bc_protocol::id::GatewayId;

use crate::{
    clock::Moment,
    db::{Db, Tx, query, query_scalar},
};

/// Adds this process. Where no other can be there, links that an earlier one left are over at once.
pub(crate) async fn begin(db: &Db, now: Moment) -> Result<(), sqlx::Error> {
    let mut tx = db.begin().await?;
    if !db.is_shared() {
        query("DELETE FROM processes").execute(&mut tx).await?;
        end_orphans(&mut tx, now).await?;
    }
    show(&mut tx, db.process()).await?;
    tx.commit().await
}

/// Says that a gateway's link is this process's, and which of the gateway's processes has it, in the transaction that
/// begins it.
pub(crate) async fn takes(
    tx: &mut Tx,
    (process, of_gateway): (&str, &[u8]),
    gateway: &GatewayId,
) -> Result<(), sqlx::Error> {
    query("UPDATE gateways SET process = $2, link_process = $3 WHERE id = $1")
        .bind(gateway.as_str())
        .bind(process)
        .bind(of_gateway)
        .execute(tx)
        .await?;
    Ok(())
}

/// Shows that this process lives. Gives how many links of others have ended by it, where it may judge.
pub(crate) async fn beat(db: &Db, judges: bool) -> Result<u64, sqlx::Error> {
    let mut tx = db.begin().await?;
    show(&mut tx, db.process()).await?;
    let ended = if judges {
        end_orphans(&mut tx, Moment::now()).await?
    } else {
        0
    };
    tx.commit().await?;
    Ok(ended)
}

async fn show(tx: &mut Tx, process: &str) -> Result<(), sqlx::Error> {
    query(
        "INSERT INTO processes (id, seen_at) VALUES ($1, cast(unixepoch('subsec') * 1000 AS BIGINT))
         ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at",
    )
    .bind(process)
    .execute(tx)
    .await?;
    Ok(())
}

/// Ends the links of processes that have given no sign for 20 s, which is five times what they rest between two.
async fn end_orphans(tx: &mut Tx, now: Moment) -> Result<u64, sqlx::Error> {
    let ended = query(
        "UPDATE gateways SET linked = 0, linked_since = $1 WHERE linked = 1 AND NOT EXISTS (
             SELECT 1 FROM processes p
             WHERE p.id = gateways.process AND p.seen_at > cast(unixepoch('subsec') * 1000 AS BIGINT) - 20000)",
    )
    .bind(now.millis())
    .execute(&mut *tx)
    .await?;
    // Those that nobody has seen for a day are nobody.
    query(
        "DELETE FROM processes
         WHERE seen_at < cast(unixepoch('subsec') * 1000 AS BIGINT) - 86400000",
    )
    .execute(tx)
    .await?;
    Ok(ended.rows_affected())
}

/// Takes this process out.
pub(crate) async fn leave(db: &Db) -> Result<(), sqlx::Error> {
    let mut tx = db.begin().await?;
    query("DELETE FROM processes WHERE id = $1")
        .bind(db.process())
        .execute(&mut tx)
        .await?;
    tx.commit().await
}

/// What all processes of one database hold in common under this name, if one of them has said it.
pub(crate) async fn agreed(db: &Db, name: &str) -> Result<Option<String>, sqlx::Error> {
    query_scalar("SELECT value FROM agreements WHERE name = $1")
        .bind(name)
        .fetch_optional(db.reader())
        .await
}

/// What all processes of one database have to hold in common, by name: the first says what it is. Gives what it is.
pub(crate) async fn agree(db: &Db, name: &str, value: &str) -> Result<String, sqlx::Error> {
    let mut tx = db.begin().await?;
    query("INSERT INTO agreements (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING")
        .bind(name)
        .bind(value)
        .execute(&mut tx)
        .await?;
    let agreed = query_scalar("SELECT value FROM agreements WHERE name = $1")
        .bind(name)
        .fetch_one(&mut tx)
        .await?;
    tx.commit().await?;
    Ok(agreed)
}

#[cfg(test)]
mod tests {
    use bc_protocol::id::GatewayId;

    use super::{agree, beat, begin, takes};
    use crate::{
        clock::Moment,
        db::{Db, query, query_scalar, tests::fresh},
        fleet::facts::link_opened,
    };

    async fn linked(db: &Db) -> bool {
        let linked = query_scalar("SELECT linked FROM gateways").fetch_one(db.reader());
        linked.await.unwrap()
    }

    async fn link(db: &Db, process: &str) {
        let id = GatewayId::derived(&[]);
        let mut tx = db.begin().await.unwrap();
        query(
            "INSERT INTO gateways (id, name, url, token_sha256, token_expires_at, created_at, created_by)
             VALUES ($1, 'g', 'wss://x/session', cast('' AS BLOB), 0, 0, 'x') ON CONFLICT (id) DO NOTHING",
        )
        .bind(id.as_str())
        .execute(&mut tx)
        .await
        .unwrap();
        link_opened(&mut tx, &id, Moment::now()).await.unwrap();
        takes(&mut tx, (process, &[1; 16]), &id).await.unwrap();
        tx.commit().await.unwrap();
    }

    async fn last_seen(db: &Db, process: &str, ago_ms: i64) {
        let mut tx = db.begin().await.unwrap();
        query(
            "INSERT INTO processes (id, seen_at)
             VALUES ($1, cast(unixepoch('subsec') * 1000 AS BIGINT) - $2)
             ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at",
        )
        .bind(process)
        .bind(ago_ms)
        .execute(&mut tx)
        .await
        .unwrap();
        tx.commit().await.unwrap();
    }

    #[tokio::test]
    async fn links_end_with_the_process_that_held_them() {
        let (db, _dir) = fresh().await;
        begin(&db, Moment::now()).await.unwrap();
        link(&db, "other").await;
        last_seen(&db, "other", 10_000).await;
        assert_eq!(beat(&db, true).await.unwrap(), 0, "it may be slow");
        last_seen(&db, "other", 30_000).await;
        assert_eq!(
            beat(&db, false).await.unwrap(),
            0,
            "this one was away itself"
        );
        assert!(linked(&db).await);
        assert_eq!(beat(&db, true).await.unwrap(), 1);
        assert!(!linked(&db).await);
        link(&db, db.process()).await;
        assert_eq!(beat(&db, true).await.unwrap(), 0);
        assert!(linked(&db).await);
    }

    #[tokio::test]
    async fn a_start_ends_the_links_of_others_only_where_there_can_be_none() {
        let (db, _dir) = fresh().await;
        link(&db, "other").await;
        last_seen(&db, "other", 0).await;
        begin(&db, Moment::now()).await.unwrap();
        assert_eq!(linked(&db).await, db.is_shared());
    }

    #[tokio::test]
    async fn the_first_says_what_is_agreed() {
        let (db, _dir) = fresh().await;
        assert_eq!(agree(&db, "x", "one").await.unwrap(), "one");
        assert_eq!(agree(&db, "x", "two").await.unwrap(), "one");
    }
}

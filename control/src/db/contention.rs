//! Who waits for whom where several processes write at once.
//!
//! SQLite has one writer, so that whoever writes has already waited for everybody else. On PostgreSQL transactions meet
//! at rows, and what is read before a row is locked may be old: so every transaction that decides by what it reads locks
//! first, in this order, and reads then.
//!
//! 1. A name of [`turn`]; the gateway of a link; a join token.
//! 2. A rollout.
//! 3. Pools, by id.
//! 4. Whether a tenant's fleet is frozen.
//! 5. Nodes, by id.
//! 6. The counter of events, by [`Tx::at_last`].
//!
//! Two that meet all the same are told so by the database, which undoes one of them: that one is [`retried`].

use std::{error::Error, time::Duration};

use bc_protocol::id::NodeId;
use sqlx::PgConnection;

use super::{Conn, Tx, query};

/// How often a transaction is tried. More than a few times means that something else is wrong.
const TRIES_MAX: u32 = 8;

/// Before the second try; longer before each further one.
const PAUSE: Duration = Duration::from_millis(5);

/// Serialization failure, deadlock, and a key that somebody else has just taken: each is gone, or found by a read, when the
/// transaction is tried again.
const LOST_TO_ANOTHER: [&str; 3] = ["40001", "40P01", "23505"];

/// Runs a transaction, and again where it lost to another one.
pub(crate) async fn retried<T, E, F>(attempt: impl Fn() -> F) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
    E: Error + 'static,
{
    let mut tries = 1;
    loop {
        match attempt().await {
            Err(error) if tries < TRIES_MAX && lost_to_another(&error) => {
                tracing::debug!(
                    tries,
                    "a transaction lost to another one, and is tried again"
                );
                tokio::time::sleep(PAUSE * tries).await;
                tries += 1;
            }
            done => return done,
        }
    }
}

/// Whether the database undid a transaction in favour of another.
fn lost_to_another(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(sqlx::Error::Database(told)) = error.downcast_ref() {
            let code = told.code();
            return code.is_some_and(|code| LOST_TO_ANOTHER.contains(&code.as_ref()));
        }
        next = error.source();
    }
    false
}

/// Waits until nobody else is in a transaction that took the same turn.
pub(crate) async fn turn(tx: &mut Tx, name: &'static str) -> Result<(), sqlx::Error> {
    if postgres(tx).is_none() {
        return Ok(());
    }
    query(
        "INSERT INTO counters (name, value) VALUES ($1, 1)
         ON CONFLICT (name) DO UPDATE SET value = counters.value",
    )
    .bind(name)
    .execute(tx)
    .await?;
    Ok(())
}

/// Locks nodes' rows, which must come by id. Those that are not there are nobody's to wait for.
pub(crate) async fn lock_nodes(
    tx: &mut Tx,
    nodes: impl IntoIterator<Item = &NodeId>,
) -> Result<(), sqlx::Error> {
    let Some(conn) = postgres(tx) else {
        return Ok(());
    };
    let ids: Vec<&str> = nodes.into_iter().map(NodeId::as_str).collect();
    sqlx::query("SELECT 1 FROM nodes WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE")
        .bind(ids)
        .execute(conn)
        .await?;
    Ok(())
}

/// Whether a transaction that may write is the only one: then its locks are its own.
pub(crate) fn is_alone(conn: &Conn) -> bool {
    match conn {
        Conn::Sqlite(_) => true,
        Conn::Postgres(_) => false,
    }
}

fn postgres(tx: &mut Tx) -> Option<&mut PgConnection> {
    match &mut **tx {
        Conn::Sqlite(_) => None,
        Conn::Postgres(conn) => Some(conn),
    }
}

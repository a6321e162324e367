//! SQLite: one file, one process that writes it.
//!
//! Takes a path, gives one connection that writes, several that cannot, and one that folds the log into the file. SQLite allows one writer, so every
//! transaction begins as one: two that both want to write wait for each other here and not in the middle.

use std::{path::Path, time::Duration};

use sqlx::{
    Connection as _, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use super::{DbError, migrations};

/// Versions before this one can corrupt a write-ahead log.
const OLDEST: [u32; 3] = [3, 51, 3];

/// Connections that read; each runs on a thread of its own.
const READERS_MAX: u32 = 4;

/// What the writer keeps of the file in memory, in KiB. A fleet's tables are read all over, by what reports and by what is
/// started; the two megabytes that SQLite keeps by itself are read again and again.
const WRITER_CACHE_KIB: u32 = 65_536;

/// Pages of the log at which the writer folds it into the file itself. By then somebody else has, as a rule.
const LOG_PAGES_MAX: u32 = 16_000;

/// Statements that a connection keeps prepared: more than there are. One that was thrown away is parsed again.
const STATEMENTS_KEPT: usize = 400;

/// Rows that wait between a connection's thread and whoever asked, so that the two take turns seldom: a pass reads a thousand.
const ROWS_BETWEEN: usize = 1_000;

/// How long one process waits for another that holds the file, such as a backup.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections to one file.
pub(super) struct Opened {
    /// The one that writes.
    pub(super) writer: SqlitePool,
    /// Those that read.
    pub(super) reader: SqlitePool,
    /// The one that folds the log into the file.
    pub(super) folder: SqlitePool,
}

/// Opens the file, or makes it, and brings its schema up to this build's.
pub(super) async fn open(path: &Path) -> Result<Opened, DbError> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .statement_cache_capacity(STATEMENTS_KEPT)
        .row_buffer_size(ROWS_BETWEEN)
        .busy_timeout(BUSY_TIMEOUT);
    let writer = connections(1)
        .connect_with(
            options
                .clone()
                .pragma("cache_size", format!("-{WRITER_CACHE_KIB}"))
                .pragma("wal_autocheckpoint", LOG_PAGES_MAX.to_string()),
        )
        .await?;
    check_version(&writer).await?;
    migrations::sqlite().run(&writer).await?;
    let reader = connections(READERS_MAX)
        .connect_with(options.clone().create_if_missing(false).read_only(true))
        .await?;
    let folder = connections(1).connect_lazy_with(options.create_if_missing(false));
    Ok(Opened {
        writer,
        reader,
        folder,
    })
}

/// So many connections, none of which is used again while it takes itself for one in a transaction. Where the disk is full
/// or fails, SQLite rolls back by itself; the rollback that follows is refused then, and every later transaction on that
/// connection would be.
fn connections(max: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(max)
        .after_release(|conn, _| {
            Box::pin(async move {
                // The rollback of what was dropped comes before the answer.
                conn.ping().await?;
                Ok(!conn.is_in_transaction())
            })
        })
}

async fn check_version(pool: &SqlitePool) -> Result<(), DbError> {
    let found: String = sqlx::query_scalar("SELECT sqlite_version()")
        .fetch_one(pool)
        .await?;
    if is_new_enough(&found) {
        return Ok(());
    }
    Err(DbError::Sqlite { found })
}

fn is_new_enough(version: &str) -> bool {
    let numbers: Option<Vec<u32>> = version.split('.').map(|part| part.parse().ok()).collect();
    numbers.is_some_and(|numbers| numbers.as_slice() >= OLDEST.as_slice())
}

#[cfg(test)]
mod tests {
    use super::is_new_enough;

    #[test]
    fn versions_compare_as_numbers() {
        for version in ["3.51.3", "3.51.10", "3.52.0", "4.0.0"] {
            assert!(is_new_enough(version), "{version}");
        }
        for version in ["3.51.2", "3.9.9", "3.51", "2.99.99", "", "3.51.x"] {
            assert!(!is_new_enough(version), "{version}");
        }
    }
}

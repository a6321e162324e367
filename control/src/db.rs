//! The database: one writer at a time, any number of readers.
//!
//! Takes a path, gives transactions. SQLite allows one writer, so the writer's pool has one connection and every
//! transaction begins as a writer: two that both want to write wait for each other here and not in the middle.

pub(crate) mod column;
pub(crate) mod lock;
mod migrations;

use std::{path::Path, time::Duration};

use sqlx::{
    Sqlite, SqlitePool, Transaction,
    migrate::MigrateError,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use thiserror::Error;

/// A transaction that may write.
pub(crate) type Tx = Transaction<'static, Sqlite>;

/// Versions before this one can corrupt a write-ahead log.
const SQLITE_OLDEST: [u32; 3] = [3, 51, 3];

/// Connections that read; each runs on a thread of its own.
const READERS_MAX: u32 = 4;

/// How long one process waits for another that holds the file, such as a backup.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The database of one control.
#[derive(Clone, Debug)]
pub(crate) struct Db {
    writer: SqlitePool,
    reader: SqlitePool,
}

impl Db {
    /// Opens the file, or makes it, and brings its schema up to this build's.
    pub(crate) async fn open(path: &Path) -> Result<Self, DbError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(BUSY_TIMEOUT);
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .connect_with(options.clone())
            .await?;
        check_version(&writer).await?;
        migrations::all().run(&writer).await?;
        let reader = SqlitePoolOptions::new()
            .max_connections(READERS_MAX)
            .connect_with(options.create_if_missing(false).read_only(true))
            .await?;
        Ok(Self { writer, reader })
    }

    /// Begins a transaction that may write.
    pub(crate) async fn begin(&self) -> Result<Tx, sqlx::Error> {
        self.writer.begin_with("BEGIN IMMEDIATE").await
    }

    /// Where to read what is committed.
    pub(crate) fn reader(&self) -> &SqlitePool {
        &self.reader
    }

    /// Waits for what is under way and closes the file, so that its log is folded in.
    pub(crate) async fn close(&self) {
        self.reader.close().await;
        self.writer.close().await;
    }
}

/// Why the database cannot be used.
#[derive(Debug, Error)]
pub(crate) enum DbError {
    /// The file cannot be opened, or a statement failed.
    #[error("the database cannot be opened")]
    Sql(#[from] sqlx::Error),
    /// The schema cannot be brought up to date.
    #[error("the database's schema cannot be brought up to this build's")]
    Migrate(#[from] MigrateError),
    /// The library is too old to be trusted with a write-ahead log.
    #[error("expected SQLite 3.51.3 or newer, found {found}")]
    Sqlite {
        /// The library's version.
        found: String,
    },
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
    numbers.is_some_and(|numbers| numbers.as_slice() >= SQLITE_OLDEST.as_slice())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Db, DbError, is_new_enough};

    /// A database of its own for one test; the folder goes when the second value does.
    pub(crate) async fn fresh() -> (Db, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(&dir.path().join("control.db")).await.unwrap();
        (db, dir)
    }

    #[test]
    fn versions_compare_as_numbers() {
        for version in ["3.51.3", "3.51.10", "3.52.0", "4.0.0"] {
            assert!(is_new_enough(version), "{version}");
        }
        for version in ["3.51.2", "3.9.9", "3.51", "2.99.99", "", "3.51.x"] {
            assert!(!is_new_enough(version), "{version}");
        }
    }

    #[tokio::test]
    async fn opening_again_finds_what_was_committed_and_nothing_else() {
        let (db, dir) = fresh().await;
        let path = dir.path().join("control.db");
        let mut tx = db.begin().await.unwrap();
        sqlx::query("INSERT INTO counters (name, value) VALUES ('kept', 1)")
            .execute(&mut *tx)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        let mut tx = db.begin().await.unwrap();
        sqlx::query("INSERT INTO counters (name, value) VALUES ('dropped', 1)")
            .execute(&mut *tx)
            .await
            .unwrap();
        drop(tx);
        db.close().await;

        let again = Db::open(&path).await.unwrap();
        let names: Vec<String> = sqlx::query_scalar("SELECT name FROM counters")
            .fetch_all(again.reader())
            .await
            .unwrap();
        assert_eq!(names, ["kept"]);
    }

    #[tokio::test]
    async fn a_file_that_a_newer_build_has_changed_is_refused() {
        let (db, dir) = fresh().await;
        let mut tx = db.begin().await.unwrap();
        sqlx::query(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
             VALUES (9999, 'later', 1, x'00', 0)",
        )
        .execute(&mut *tx)
        .await
        .unwrap();
        tx.commit().await.unwrap();
        db.close().await;
        let refused = Db::open(&dir.path().join("control.db")).await.unwrap_err();
        assert!(matches!(refused, DbError::Migrate(_)), "{refused:?}");
    }

    #[tokio::test]
    async fn readers_cannot_write() {
        let (db, _dir) = fresh().await;
        let refused = sqlx::query("DELETE FROM counters")
            .execute(db.reader())
            .await;
        assert!(refused.is_err());
    }
}

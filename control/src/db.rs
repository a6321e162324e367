//! The database: one writer at a time, any number of readers.
//!
//! Takes a path, gives transactions. SQLite allows one writer, so the writer's pool has one connection and every
//! transaction begins as a writer: two that both want to write wait for each other here and not in the middle.

use std::{path::Path, time::Duration};

use sqlx::{
    Sqlite, SqlitePool, Transaction,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

/// A transaction that may write.
pub(crate) type Tx = Transaction<'static, Sqlite>;

/// The database of one control.
#[derive(Clone, Debug)]
pub(crate) struct Db {
    writer: SqlitePool,
    reader: SqlitePool,
}

impl Db {
    /// Opens the file, or makes it.
    pub(crate) async fn open(path: &Path) -> Result<Self, sqlx::Error> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(Duration::from_secs(10));
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .connect_with(options.clone())
            .await?;
        let reader = SqlitePoolOptions::new()
            .max_connections(4)
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
}

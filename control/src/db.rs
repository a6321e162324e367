//! The database: transactions that write, and readers that cannot.
//!
//! One text of SQL for SQLite and PostgreSQL: statements are [`query`]s, rows are [`Row`]s, and what runs them knows
//! which of the two it is. Nothing outside of this folder does.

pub(crate) mod bulk;
pub(crate) mod column;
mod conn;
pub(crate) mod lock;
mod migrations;
mod query;
mod row;
mod sqlite;
mod value;

use std::path::Path;

use sqlx::migrate::MigrateError;
use thiserror::Error;

use crate::event::news::News;
use conn::Pool;
pub(crate) use conn::{Conn, Reader, Tx};
#[cfg(test)]
pub(crate) use query::query_text;
pub(crate) use query::{query, query_scalar};
pub(crate) use row::Row;
pub(crate) use value::Bind;

/// The database of one control.
#[derive(Clone, Debug)]
pub(crate) struct Db {
    writer: Pool,
    reader: Reader,
    news: News,
}

impl Db {
    /// Opens a file, or makes it, and brings its schema up to this build's.
    pub(crate) async fn open(path: &Path) -> Result<Self, DbError> {
        let (writer, reader) = sqlite::open(path).await?;
        Ok(Self {
            writer: Pool::Sqlite(writer),
            reader: Reader(Pool::Sqlite(reader)),
            news: News::default(),
        })
    }

    /// Begins a transaction that may write.
    pub(crate) async fn begin(&self) -> Result<Tx, sqlx::Error> {
        let conn = match &self.writer {
            Pool::Sqlite(pool) => pool.begin_with("BEGIN IMMEDIATE").await.map(Conn::Sqlite),
            Pool::Postgres(pool) => pool.begin().await.map(Conn::Postgres),
        };
        conn.map(|conn| Tx::new(conn, self.news.clone()))
    }

    /// Where to read what is committed.
    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Word of committed events.
    pub(crate) fn news(&self) -> &News {
        &self.news
    }

    /// Whether it answers, and with a schema that this build knows.
    pub(crate) async fn is_migrated(&self) -> Result<bool, sqlx::Error> {
        let sql = "SELECT count(*) FROM _sqlx_migrations WHERE success";
        let applied: i64 = query_scalar(sql).fetch_one(&self.reader).await?;
        Ok(usize::try_from(applied).is_ok_and(|applied| applied >= migrations::count()))
    }

    /// Waits for what is under way and closes the connections; SQLite's log is folded in.
    pub(crate) async fn close(&self) {
        self.reader.0.close().await;
        self.writer.close().await;
    }
}

/// Why the database cannot be used.
#[derive(Debug, Error)]
pub(crate) enum DbError {
    /// It cannot be opened, or a statement failed.
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

#[cfg(test)]
pub(crate) mod tests {
    use super::{Db, DbError, query, query_scalar};

    /// A database of its own for one test; the folder goes when the second value does.
    pub(crate) async fn fresh() -> (Db, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(&dir.path().join("control.db")).await.unwrap();
        (db, dir)
    }

    #[tokio::test]
    async fn opening_again_finds_what_was_committed_and_nothing_else() {
        let (db, dir) = fresh().await;
        let path = dir.path().join("control.db");
        let mut tx = db.begin().await.unwrap();
        query("INSERT INTO counters (name, value) VALUES ('kept', 1)")
            .execute(&mut tx)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        let mut tx = db.begin().await.unwrap();
        query("INSERT INTO counters (name, value) VALUES ('dropped', 1)")
            .execute(&mut tx)
            .await
            .unwrap();
        drop(tx);
        db.close().await;

        let again = Db::open(&path).await.unwrap();
        let names: Vec<String> = query_scalar("SELECT name FROM counters")
            .fetch_all(again.reader())
            .await
            .unwrap();
        assert_eq!(names, ["kept"]);
    }

    #[tokio::test]
    async fn a_file_that_a_newer_build_has_changed_is_refused() {
        let (db, dir) = fresh().await;
        let mut tx = db.begin().await.unwrap();
        query(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
             VALUES (9999, 'later', 1, $1, 0)",
        )
        .bind(vec![0])
        .execute(&mut tx)
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
        let refused = query("DELETE FROM counters").execute(db.reader()).await;
        assert!(refused.is_err());
    }
}

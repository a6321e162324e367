//! The database: transactions that write, and readers that cannot.
//!
//! One text of SQL for SQLite and PostgreSQL: statements are [`query()`]s, rows are [`Row`]s, and what runs them knows
//! which of the two it is. Nothing outside of this folder does.

pub(crate) mod away;
pub(crate) mod bulk;
pub(crate) mod column;
mod conn;
pub(crate) mod contention;
mod fold;
pub(crate) mod held;
pub(crate) mod hint;
pub(crate) mod lock;
mod migrations;
#[cfg(test)]
pub(crate) mod point;
pub(crate) mod postgres;
mod query;
mod row;
mod sqlite;
mod value;
mod whole;

use std::{path::PathBuf, sync::Arc};

use sqlx::migrate::MigrateError;
use thiserror::Error;
use ulid::Ulid;

use crate::{chance, clock::Moment, event::news::News};
use conn::{Committed, Pool};
pub(crate) use conn::{Conn, Reader, Tx};
use fold::Folding;
use held::may_take;
use hint::Hints;
#[cfg(test)]
pub(crate) use query::query_text;
pub(crate) use query::{Query, query, query_scalar};
pub(crate) use row::Row;
pub(crate) use value::{Bind, Value};

/// Where a database is.
#[derive(Clone, Debug)]
pub(crate) enum Location {
    /// In a file, which is made if it is not there.
    Sqlite(PathBuf),
    /// On a server.
    Postgres(Box<postgres::Server>),
}

/// The database of one control.
#[derive(Clone, Debug)]
pub(crate) struct Db {
    writer: Pool,
    reader: Reader,
    folding: Option<Folding>,
    news: News,
    committed: Committed,
    hints: Hints,
    process: Arc<str>,
}

impl Db {
    /// Opens it, and brings its schema up to this build's.
    pub(crate) async fn open(location: &Location) -> Result<Self, DbError> {
        let (writer, reader, folding) = match location {
            Location::Sqlite(path) => {
                let opened = sqlite::open(path).await?;
                let folding = Folding::begin(opened.folder);
                let (writer, reader) = (Pool::Sqlite(opened.writer), Pool::Sqlite(opened.reader));
                (writer, reader, Some(folding))
            }
            Location::Postgres(server) => {
                let (writer, reader) = postgres::open(server).await?;
                (Pool::Postgres(writer), Pool::Postgres(reader), None)
            }
        };
        let reader = Reader(reader);
        let shared = match location {
            Location::Sqlite(_) => false,
            Location::Postgres(_) => true,
        };
        let process = Ulid::from_parts(Moment::now().unix_ms(), chance::bits()).to_string();
        Ok(Self {
            writer,
            reader,
            folding,
            news: News::default(),
            committed: Committed::default(),
            hints: Hints::new(shared, process.clone()),
            process: process.into(),
        })
    }

    /// Begins a transaction that may write.
    pub(crate) async fn begin(&self) -> Result<Tx, sqlx::Error> {
        self.begin_by(match &self.writer {
            Pool::Sqlite(_) => "BEGIN IMMEDIATE",
            Pool::Postgres(_) => "BEGIN",
        })
        .await
    }

    /// As [`begin`](Self::begin), and what it reads is one moment. Where somebody else has changed since what it is about to
    /// change, it fails, to be [`retried`](contention::retried).
    pub(crate) async fn begin_at_one_moment(&self) -> Result<Tx, sqlx::Error> {
        self.begin_by(match &self.writer {
            Pool::Sqlite(_) => "BEGIN IMMEDIATE",
            Pool::Postgres(_) => "BEGIN ISOLATION LEVEL REPEATABLE READ",
        })
        .await
    }

    async fn begin_by(&self, begins: &'static str) -> Result<Tx, sqlx::Error> {
        may_take();
        let conn = self.writer.begin(begins).await?;
        let written = self.folding.as_ref().map(Folding::written);
        let (news, committed) = (self.news.clone(), self.committed.clone());
        Ok(Tx::new(conn, news, written, committed))
    }

    /// Where to read what is committed.
    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Whether other processes may have it open too.
    pub(crate) fn is_shared(&self) -> bool {
        match &self.writer {
            Pool::Sqlite(_) => false,
            Pool::Postgres(_) => true,
        }
    }

    /// Which of the processes that have it open this one is.
    pub(crate) fn process(&self) -> &str {
        &self.process
    }

    /// Word of committed events.
    pub(crate) fn news(&self) -> &News {
        &self.news
    }

    /// When this process committed something last, or opened the database.
    pub(crate) fn committed_at(&self) -> Moment {
        self.committed.at()
    }

    /// Whether it answers, and with a schema that this build knows.
    pub(crate) async fn is_migrated(&self) -> Result<bool, sqlx::Error> {
        let sql = "SELECT count(*) FROM _sqlx_migrations WHERE success";
        let applied: i64 = query_scalar(sql).fetch_one(&self.reader).await?;
        Ok(usize::try_from(applied).is_ok_and(|applied| applied >= migrations::count()))
    }

    /// Waits for what is under way and closes the connections; SQLite's log is folded in.
    pub(crate) async fn close(&self) {
        if let Some(folding) = &self.folding {
            folding.close().await;
        }
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
    /// The server cannot be reached, or does not let us in.
    #[error("the database {database} at {at} cannot be opened by {user}: {problem}{mend}")]
    Refused {
        /// Where the server is.
        at: String,
        /// Which of its databases.
        database: String,
        /// As whom.
        user: String,
        /// What it said.
        problem: String,
        /// What to do, where that is known.
        mend: &'static str,
    },
    /// The schema cannot be brought up to date.
    #[error("the database's schema cannot be brought up to this build's")]
    Migrate(#[from] MigrateError),
    /// The library is too old to be trusted with a write-ahead log.
    #[error("expected SQLite 3.51.3 or newer, found {found}")]
    Sqlite {
        /// The library's version.
        found: String,
    },
    /// The server is too old.
    #[error("expected PostgreSQL 15 or newer, found {found}")]
    Postgres {
        /// The server's version.
        found: String,
    },
}

#[cfg(test)]
pub(crate) mod tests;

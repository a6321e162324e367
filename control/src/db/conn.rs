//! Where statements run.
//!
//! A [`Conn`] is a transaction of either database; what it reads is one moment. A [`Tx`] is one that may write, and
//! that somebody has to commit. A [`Reader`] runs single statements on what is committed.

use std::{
    ops::{Deref, DerefMut},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use sqlx::{PgConnection, PgPool, Postgres, Sqlite, SqliteConnection, SqlitePool, Transaction};

use super::{
    fold::Written,
    held::{Held, may_take},
    query::Query,
    whole::Whole,
};
use crate::{clock::Moment, event::news::News};

/// A transaction. Dropped, it is rolled back.
#[derive(Debug)]
pub(crate) enum Conn {
    /// Of SQLite.
    Sqlite(Transaction<'static, Sqlite>),
    /// Of PostgreSQL.
    Postgres(Transaction<'static, Postgres>),
}

/// A transaction that may write.
#[derive(Debug)]
pub(crate) struct Tx {
    conn: Conn,
    last: Vec<Query>,
    news: News,
    written: Option<Written>,
    committed: Committed,
}

impl Tx {
    pub(super) fn new(
        conn: Conn,
        news: News,
        written: Option<Written>,
        committed: Committed,
    ) -> Self {
        Self {
            conn,
            last: Vec::new(),
            news,
            written,
            committed,
        }
    }

    /// Leaves a statement for the end. Everybody waits for the rows that it touches, so it runs when nothing else is left
    /// to be done, in the order of these calls.
    pub(crate) fn at_last(&mut self, query: Query) {
        self.last.push(query);
    }

    /// Undoes everything that was written, and lets go of what was locked. One that is only dropped does so some time
    /// later: whoever comes next would find it locked.
    pub(crate) async fn give_up(self) -> Result<(), sqlx::Error> {
        match self.conn {
            Conn::Sqlite(tx) => tx.rollback().await,
            Conn::Postgres(tx) => tx.rollback().await,
        }
    }

    /// Makes everything that was written last.
    pub(crate) async fn commit(mut self) -> Result<(), sqlx::Error> {
        let last = std::mem::take(&mut self.last);
        // What is left for the end is events.
        let is_news = !last.is_empty();
        for query in last {
            query.execute(&mut self.conn).await?;
        }
        #[cfg(test)]
        super::point::pass_by().await;
        match self.conn {
            Conn::Sqlite(tx) => tx.commit().await,
            Conn::Postgres(tx) => tx.commit().await,
        }?;
        self.committed.now();
        #[cfg(feature = "bench")]
        crate::bench::committed();
        if let Some(written) = &self.written {
            written.tell();
        }
        if is_news {
            self.news.tell();
        }
        Ok(())
    }
}

impl Deref for Tx {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        &self.conn
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut Conn {
        &mut self.conn
    }
}

/// When something was committed last.
#[derive(Clone, Debug)]
pub(super) struct Committed(Arc<AtomicI64>);

impl Committed {
    /// Something was, just now.
    pub(super) fn now(&self) {
        self.0.store(Moment::now().millis(), Ordering::Relaxed);
    }

    /// When it was.
    pub(super) fn at(&self) -> Moment {
        Moment::from_millis(self.0.load(Ordering::Relaxed))
    }
}

impl Default for Committed {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(Moment::now().millis())))
    }
}

/// Reads what is committed, and cannot write.
#[derive(Clone, Debug)]
pub(crate) struct Reader(pub(super) Pool);

impl Reader {
    /// Begins to read one moment.
    pub(crate) async fn begin(&self) -> Result<Reading, sqlx::Error> {
        let held = Held::take();
        let begins = match &self.0 {
            Pool::Sqlite(_) => "BEGIN",
            Pool::Postgres(_) => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        };
        let conn = self.0.begin(begins).await?;
        Ok(Reading { conn, _held: held })
    }
}

/// A transaction that reads one moment. Whoever holds one takes no other connection.
#[derive(Debug)]
pub(crate) struct Reading {
    conn: Conn,
    _held: Held,
}

impl Deref for Reading {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        &self.conn
    }
}

impl DerefMut for Reading {
    fn deref_mut(&mut self) -> &mut Conn {
        &mut self.conn
    }
}

/// Connections that wait for work.
#[derive(Clone, Debug)]
pub(super) enum Pool {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

impl Pool {
    /// Begins a transaction by this statement.
    pub(super) async fn begin(&self, begins: &'static str) -> Result<Conn, sqlx::Error> {
        let pool = self.clone();
        let begun = Whole::new(async move {
            match pool {
                Self::Sqlite(pool) => pool.begin_with(begins).await.map(Conn::Sqlite),
                Self::Postgres(pool) => pool.begin_with(begins).await.map(Conn::Postgres),
            }
        });
        begun.await
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
            Self::Postgres(pool) => pool.close().await,
        }
    }
}

/// What a statement can run on.
pub(crate) trait On<'c> {
    /// The connection, or where to get one.
    fn on(self) -> Target<'c>;
}

/// A connection, or where to get one.
#[derive(Debug)]
pub(crate) enum Target<'c> {
    /// A transaction of SQLite.
    Sqlite(&'c mut SqliteConnection),
    /// Any connection to SQLite.
    SqlitePool(&'c SqlitePool),
    /// A transaction of PostgreSQL.
    Postgres(&'c mut PgConnection),
    /// Any connection to PostgreSQL.
    PostgresPool(&'c PgPool),
}

impl<'c> On<'c> for &'c mut Conn {
    fn on(self) -> Target<'c> {
        match self {
            Conn::Sqlite(tx) => Target::Sqlite(tx),
            Conn::Postgres(tx) => Target::Postgres(tx),
        }
    }
}

impl<'c> On<'c> for &'c mut Tx {
    fn on(self) -> Target<'c> {
        self.conn.on()
    }
}

impl<'c> On<'c> for &'c mut Reading {
    fn on(self) -> Target<'c> {
        self.conn.on()
    }
}

impl<'c> On<'c> for &'c Reader {
    fn on(self) -> Target<'c> {
        may_take();
        match &self.0 {
            Pool::Sqlite(pool) => Target::SqlitePool(pool),
            Pool::Postgres(pool) => Target::PostgresPool(pool),
        }
    }
}

//! One statement, whichever database runs it.
//!
//! Takes a text with `$1`, `$2`, … and the values for them, gives rows. The text is the same for SQLite and PostgreSQL;
//! nothing of a caller's ever becomes part of it.

use sqlx::{
    Arguments as _, Postgres, SqlSafeStr as _, SqlStr, Sqlite, error::BoxDynError,
    postgres::PgArguments, sqlite::SqliteArguments,
};

use super::{
    conn::{On, Target},
    row::{Get, Row},
    value::{Bind, Value},
};

/// A statement that is about to run.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    sql: SqlStr,
    values: Vec<Value>,
    lock: Lock,
}

/// What a SELECT does with its rows where several transactions write at once. On SQLite there is only one, and this
/// says nothing.
#[derive(Clone, Copy, Debug)]
enum Lock {
    None,
    Shared,
    Exclusive,
}

impl Lock {
    /// Keys stay as they are, so that rows which refer to a locked one may come and go.
    fn words(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Shared => Some("FOR SHARE"),
            Self::Exclusive => Some("FOR NO KEY UPDATE"),
        }
    }
}

/// Begins a statement.
pub(crate) fn query(sql: &'static str) -> Query {
    Query::new(sql.into_sql_str())
}

/// Begins a statement that a test has put together.
#[cfg(test)]
pub(crate) fn query_text(sql: String) -> Query {
    Query::new(sqlx::AssertSqlSafe(sql).into_sql_str())
}

/// Begins a statement of which the first column matters.
pub(crate) fn query_scalar(sql: &'static str) -> Scalar {
    Scalar(query(sql))
}

/// What a statement did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    rows: u64,
}

impl Done {
    /// How many rows it wrote.
    pub(crate) fn rows_affected(self) -> u64 {
        self.rows
    }
}

/// Runs one method of sqlx, whichever of the four a statement runs on.
macro_rules! run {
    ($query:ident.$method:ident($on:ident), $done:ident => $sqlite:expr, $postgres:expr) => {
        match $on.on() {
            Target::Sqlite(conn) => {
                let $done = $query.for_sqlite()?.$method(conn).await?;
                $sqlite
            }
            Target::SqlitePool(pool) => {
                let $done = $query.for_sqlite()?.$method(pool).await?;
                $sqlite
            }
            Target::Postgres(conn) => {
                let $done = $query.for_postgres()?.$method(conn).await?;
                $postgres
            }
            Target::PostgresPool(pool) => {
                let $done = $query.for_postgres()?.$method(pool).await?;
                $postgres
            }
        }
    };
}

impl Query {
    pub(super) fn new(sql: SqlStr) -> Self {
        Self {
            sql,
            values: Vec::new(),
            lock: Lock::None,
        }
    }

    /// Nobody else may change the rows until the transaction ends. It waits for whoever has them.
    pub(crate) fn for_update(self) -> Self {
        let lock = Lock::Exclusive;
        Self { lock, ..self }
    }

    /// The rows stay as they are until the transaction ends.
    pub(crate) fn for_share(self) -> Self {
        let lock = Lock::Shared;
        Self { lock, ..self }
    }

    /// Gives the next value.
    pub(crate) fn bind(mut self, value: impl Bind) -> Self {
        self.values.push(value.value());
        self
    }

    /// Runs it for its effect.
    pub(crate) async fn execute<'c>(self, on: impl On<'c>) -> Result<Done, sqlx::Error> {
        #[cfg(test)]
        super::point::pass_by().await;
        let rows = run!(self.execute(on), done => done.rows_affected(), done.rows_affected());
        Ok(Done { rows })
    }

    /// Every row.
    pub(crate) async fn fetch_all<'c>(self, on: impl On<'c>) -> Result<Vec<Row>, sqlx::Error> {
        #[cfg(test)]
        super::point::pass_by().await;
        let rows: Vec<Row> = run!(
            self.fetch_all(on),
            rows => rows.into_iter().map(Row::Sqlite).collect(),
            rows.into_iter().map(Row::Postgres).collect()
        );
        #[cfg(feature = "bench")]
        crate::bench::rows(rows.len());
        Ok(rows)
    }

    /// The row, if there is one.
    pub(crate) async fn fetch_optional<'c>(
        self,
        on: impl On<'c>,
    ) -> Result<Option<Row>, sqlx::Error> {
        #[cfg(test)]
        super::point::pass_by().await;
        let row = run!(
            self.fetch_optional(on),
            row => row.map(Row::Sqlite),
            row.map(Row::Postgres)
        );
        #[cfg(feature = "bench")]
        crate::bench::rows(usize::from(row.is_some()));
        Ok(row)
    }

    /// The row.
    pub(crate) async fn fetch_one<'c>(self, on: impl On<'c>) -> Result<Row, sqlx::Error> {
        let row = self.fetch_optional(on).await?;
        row.ok_or(sqlx::Error::RowNotFound)
    }

    fn for_sqlite(
        self,
    ) -> Result<sqlx::query::Query<'static, Sqlite, SqliteArguments>, sqlx::Error> {
        let mut arguments = SqliteArguments::default();
        for value in self.values {
            match value {
                Value::Int(number) => sqlx::Arguments::add(&mut arguments, number),
                Value::Text(text) => sqlx::Arguments::add(&mut arguments, text),
                Value::Blob(bytes) => sqlx::Arguments::add(&mut arguments, bytes),
            }
            .map_err(unencodable)?;
        }
        Ok(sqlx::query_with(self.sql, arguments))
    }

    fn for_postgres(
        self,
    ) -> Result<sqlx::query::Query<'static, Postgres, PgArguments>, sqlx::Error> {
        let mut arguments = PgArguments::default();
        for value in self.values {
            match value {
                Value::Int(number) => arguments.add(number),
                Value::Text(text) => arguments.add(text),
                Value::Blob(bytes) => arguments.add(bytes),
            }
            .map_err(unencodable)?;
        }
        let sql = match self.lock.words() {
            None => self.sql,
            Some(words) => {
                let sql = format!("{} {words}", self.sql.as_str());
                sqlx::AssertSqlSafe(sql).into_sql_str()
            }
        };
        Ok(sqlx::query_with(sql, arguments))
    }
}

fn unencodable(source: BoxDynError) -> sqlx::Error {
    sqlx::Error::Encode(source)
}

/// A statement of which the first column matters.
#[derive(Clone, Debug)]
pub(crate) struct Scalar(Query);

impl Scalar {
    /// Gives the next value.
    pub(crate) fn bind(self, value: impl Bind) -> Self {
        Self(self.0.bind(value))
    }

    /// As [`Query::for_update`].
    pub(crate) fn for_update(self) -> Self {
        Self(self.0.for_update())
    }

    /// As [`Query::for_share`].
    pub(crate) fn for_share(self) -> Self {
        Self(self.0.for_share())
    }

    /// Of the row.
    pub(crate) async fn fetch_one<'c, T: for<'r> Get<'r>>(
        self,
        on: impl On<'c>,
    ) -> Result<T, sqlx::Error> {
        self.0.fetch_one(on).await?.try_get(0)
    }

    /// Of the row, if there is one.
    pub(crate) async fn fetch_optional<'c, T: for<'r> Get<'r>>(
        self,
        on: impl On<'c>,
    ) -> Result<Option<T>, sqlx::Error> {
        let row = self.0.fetch_optional(on).await?;
        row.map(|row| row.try_get(0)).transpose()
    }

    /// Of every row.
    pub(crate) async fn fetch_all<'c, T: for<'r> Get<'r>>(
        self,
        on: impl On<'c>,
    ) -> Result<Vec<T>, sqlx::Error> {
        let rows = self.0.fetch_all(on).await?;
        rows.iter().map(|row| row.try_get(0)).collect()
    }
}

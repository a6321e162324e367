//! Many rows at once.
//!
//! Takes a statement with the rows' values, runs it as few times as the database likes best: SQLite takes rows as long
//! lists of values, PostgreSQL each column as one array.

use sqlx::{
    Arguments as _, AssertSqlSafe, Postgres, SqlSafeStr as _, Sqlite, postgres::PgArguments,
    sqlite::SqliteArguments,
};

use super::{
    conn::{Conn, Tx},
    row::Row,
    value::Value,
};

/// SQLite's limit of 32,766 values a statement, with something to spare.
const SQLITE_VALUES_MAX: usize = 30_000;

/// So many rows of a few short texts are some megabytes in memory.
const POSTGRES_ROWS_MAX: usize = 20_000;

/// Lists so short are told apart by their length alone, and prepared once for each.
const SQLITE_KEPT_ROWS_MAX: usize = 4;

/// Where the rows stand in a statement.
const ROWS: &str = "{rows}";

/// Writes rows into `table`, given as `name (column, …)`. Every row has a value for each column.
pub(crate) async fn insert_many<const COLUMNS: usize>(
    tx: &mut Tx,
    table: &'static str,
    rows: impl ExactSizeIterator<Item = [Value; COLUMNS]>,
) -> Result<(), sqlx::Error> {
    let statement = Statement {
        before: format!("INSERT INTO {table} "),
        shape: Shape::Bare,
        after: String::new(),
    };
    statement.run(tx, rows).await?;
    Ok(())
}

/// Runs a statement in which `{rows}` stands where a table may: it has the rows, in columns `column1`, `column2`, … of `v`.
/// Where they are too many for one statement it runs several times, so each must do its part alone. Gives how many rows it
/// wrote.
pub(crate) async fn with_rows<const COLUMNS: usize>(
    tx: &mut Tx,
    sql: &'static str,
    rows: impl ExactSizeIterator<Item = [Value; COLUMNS]>,
) -> Result<u64, sqlx::Error> {
    Statement::around_rows(sql)?.run(tx, rows).await
}

/// As [`with_rows`], and gives the rows that the statement gives.
pub(crate) async fn fetch_with_rows<const COLUMNS: usize>(
    conn: &mut Conn,
    sql: &'static str,
    rows: impl ExactSizeIterator<Item = [Value; COLUMNS]>,
) -> Result<Vec<Row>, sqlx::Error> {
    Statement::around_rows(sql)?.fetch(conn, rows).await
}

const NOWHERE: &str = "expected a statement that says where its rows stand, found none";

/// How the rows stand in a statement.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// As what is inserted.
    Bare,
    /// As a table.
    Named,
}

/// A statement around rows.
#[derive(Debug)]
struct Statement {
    before: String,
    shape: Shape,
    after: String,
}

impl Statement {
    fn around_rows(sql: &'static str) -> Result<Self, sqlx::Error> {
        let (before, after) = sql
            .split_once(ROWS)
            .ok_or_else(|| sqlx::Error::Encode(NOWHERE.into()))?;
        Ok(Self {
            before: before.to_owned(),
            shape: Shape::Named,
            after: after.to_owned(),
        })
    }

    async fn run<const COLUMNS: usize>(
        &self,
        tx: &mut Tx,
        mut rows: impl ExactSizeIterator<Item = [Value; COLUMNS]>,
    ) -> Result<u64, sqlx::Error> {
        let rows_max = rows_max::<COLUMNS>(tx);
        let mut written = 0;
        loop {
            let chunk: Vec<_> = rows.by_ref().take(rows_max).collect();
            if chunk.is_empty() {
                return Ok(written);
            }
            written += match &mut **tx {
                Conn::Sqlite(tx) => {
                    let done = self.for_sqlite(chunk)?.execute(&mut **tx).await?;
                    done.rows_affected()
                }
                Conn::Postgres(tx) => {
                    let done = self.for_postgres(chunk)?.execute(&mut **tx).await?;
                    done.rows_affected()
                }
            };
        }
    }

    async fn fetch<const COLUMNS: usize>(
        &self,
        conn: &mut Conn,
        mut rows: impl ExactSizeIterator<Item = [Value; COLUMNS]>,
    ) -> Result<Vec<Row>, sqlx::Error> {
        let rows_max = rows_max::<COLUMNS>(conn);
        let mut given = Vec::new();
        loop {
            let chunk: Vec<_> = rows.by_ref().take(rows_max).collect();
            if chunk.is_empty() {
                break;
            }
            match conn {
                Conn::Sqlite(tx) => {
                    let rows = self.for_sqlite(chunk)?.fetch_all(&mut **tx).await?;
                    given.extend(rows.into_iter().map(Row::Sqlite));
                }
                Conn::Postgres(tx) => {
                    let rows = self.for_postgres(chunk)?.fetch_all(&mut **tx).await?;
                    given.extend(rows.into_iter().map(Row::Postgres));
                }
            }
        }
        #[cfg(feature = "bench")]
        crate::bench::rows(given.len());
        Ok(given)
    }

    fn for_sqlite<const COLUMNS: usize>(
        &self,
        rows: Vec<[Value; COLUMNS]>,
    ) -> Result<sqlx::query::Query<'static, Sqlite, SqliteArguments>, sqlx::Error> {
        let sql = AssertSqlSafe(self.around(&values(rows.len(), COLUMNS))).into_sql_str();
        let mut arguments = SqliteArguments::default();
        let is_kept = rows.len() <= SQLITE_KEPT_ROWS_MAX;
        for value in rows.into_iter().flatten() {
            match value {
                Value::Int(number) => sqlx::Arguments::add(&mut arguments, number),
                Value::Text(text) => sqlx::Arguments::add(&mut arguments, text),
                Value::Blob(bytes) => sqlx::Arguments::add(&mut arguments, bytes),
            }
            .map_err(sqlx::Error::Encode)?;
        }
        // Its text depends on the number of rows: a cache of long ones would be of no use.
        Ok(sqlx::query_with(sql, arguments).persistent(is_kept))
    }

    fn for_postgres<const COLUMNS: usize>(
        &self,
        rows: Vec<[Value; COLUMNS]>,
    ) -> Result<sqlx::query::Query<'static, Postgres, PgArguments>, sqlx::Error> {
        let columns = columns(rows)?;
        let sql = AssertSqlSafe(self.around(&arrays(&columns))).into_sql_str();
        let mut arguments = PgArguments::default();
        for column in columns {
            match column {
                Column::Ints(numbers) => arguments.add(numbers),
                Column::Texts(texts) => arguments.add(texts),
                Column::Blobs(blobs) => arguments.add(blobs),
            }
            .map_err(sqlx::Error::Encode)?;
        }
        Ok(sqlx::query_with(sql, arguments))
    }

    fn around(&self, rows: &Rows) -> String {
        let Self {
            before,
            shape,
            after,
        } = self;
        let Rows { list, names } = rows;
        match (shape, names) {
            (Shape::Bare, None) => format!("{before}{list}{after}"),
            (Shape::Bare, Some(_)) => format!("{before}SELECT * FROM {list}{after}"),
            (Shape::Named, None) => format!("{before}({list}) AS v{after}"),
            (Shape::Named, Some(names)) => format!("{before}{list} AS v ({names}){after}"),
        }
    }
}

/// Rows that one statement takes.
fn rows_max<const COLUMNS: usize>(conn: &Conn) -> usize {
    match conn {
        Conn::Sqlite(_) => SQLITE_VALUES_MAX / COLUMNS.max(1),
        Conn::Postgres(_) => POSTGRES_ROWS_MAX,
    }
}

/// Rows as the text of a statement.
struct Rows {
    list: String,
    /// The columns' names, where the database does not give them itself.
    names: Option<String>,
}

fn values(rows: usize, columns: usize) -> Rows {
    let row = format!("({})", vec!["?"; columns].join(", "));
    let list = format!("VALUES {}", vec![row; rows].join(", "));
    Rows { list, names: None }
}

/// One column of all rows.
enum Column {
    Ints(Vec<Option<i64>>),
    Texts(Vec<Option<String>>),
    Blobs(Vec<Option<Vec<u8>>>),
}

fn columns<const COLUMNS: usize>(rows: Vec<[Value; COLUMNS]>) -> Result<Vec<Column>, sqlx::Error> {
    let mut columns: Vec<Column> = Vec::with_capacity(COLUMNS);
    for row in rows {
        if columns.is_empty() {
            columns.extend(row.iter().map(|value| match value {
                Value::Int(_) => Column::Ints(Vec::new()),
                Value::Text(_) => Column::Texts(Vec::new()),
                Value::Blob(_) => Column::Blobs(Vec::new()),
            }));
        }
        for (column, value) in columns.iter_mut().zip(row) {
            match (column, value) {
                (Column::Ints(all), Value::Int(one)) => all.push(one),
                (Column::Texts(all), Value::Text(one)) => all.push(one),
                (Column::Blobs(all), Value::Blob(one)) => all.push(one),
                (Column::Ints(_), Value::Text(_) | Value::Blob(_))
                | (Column::Texts(_), Value::Int(_) | Value::Blob(_))
                | (Column::Blobs(_), Value::Int(_) | Value::Text(_)) => {
                    return Err(sqlx::Error::Encode(MIXED.into()));
                }
            }
        }
    }
    Ok(columns)
}

const MIXED: &str = "expected one kind of values in a column, found two";

fn arrays(columns: &[Column]) -> Rows {
    let numbered = (1_u32..).zip(columns);
    let arrays: Vec<String> = numbered
        .map(|(number, column)| match column {
            Column::Ints(_) => format!("${number}::bigint[]"),
            Column::Texts(_) => format!("${number}::text[]"),
            Column::Blobs(_) => format!("${number}::bytea[]"),
        })
        .collect();
    let names: Vec<String> = (1..=arrays.len())
        .map(|number| format!("column{number}"))
        .collect();
    Rows {
        list: format!("UNNEST({})", arrays.join(", ")),
        names: Some(names.join(", ")),
    }
}

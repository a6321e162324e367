//! Many rows at once.
//!
//! Takes a table with its columns and the rows' values, writes them in as few statements as the database likes best:
//! SQLite takes rows as long lists of values, PostgreSQL each column as one array.

use sqlx::{
    Arguments as _, AssertSqlSafe, SqlSafeStr as _, postgres::PgArguments, sqlite::SqliteArguments,
};

use super::{
    conn::{Conn, Tx},
    value::Value,
};

/// SQLite's limit of 32,766 values a statement, with something to spare.
const SQLITE_VALUES_MAX: usize = 30_000;

/// So many rows of a few short texts are some megabytes in memory.
const POSTGRES_ROWS_MAX: usize = 20_000;

/// Writes rows into `table`, given as `name (column, …)`. Every row has a value for each column.
pub(crate) async fn insert_many<const COLUMNS: usize>(
    tx: &mut Tx,
    table: &'static str,
    rows: impl ExactSizeIterator<Item = [Value; COLUMNS]>,
) -> Result<(), sqlx::Error> {
    let rows_max = match **tx {
        Conn::Sqlite(_) => SQLITE_VALUES_MAX / COLUMNS.max(1),
        Conn::Postgres(_) => POSTGRES_ROWS_MAX,
    };
    let mut chunk = Vec::with_capacity(rows.len().min(rows_max));
    for row in rows {
        chunk.push(row);
        if chunk.len() == rows_max {
            insert(tx, table, std::mem::take(&mut chunk)).await?;
        }
    }
    insert(tx, table, chunk).await
}

async fn insert<const COLUMNS: usize>(
    tx: &mut Tx,
    table: &str,
    rows: Vec<[Value; COLUMNS]>,
) -> Result<(), sqlx::Error> {
    if rows.is_empty() {
        return Ok(());
    }
    match &mut **tx {
        Conn::Sqlite(tx) => {
            let sql = AssertSqlSafe(rows_of_values(table, rows.len(), COLUMNS)).into_sql_str();
            let mut arguments = SqliteArguments::default();
            for value in rows.into_iter().flatten() {
                match value {
                    Value::Int(number) => sqlx::Arguments::add(&mut arguments, number),
                    Value::Text(text) => sqlx::Arguments::add(&mut arguments, text),
                    Value::Blob(bytes) => sqlx::Arguments::add(&mut arguments, bytes),
                }
                .map_err(sqlx::Error::Encode)?;
            }
            // Its text depends on the number of rows: a cache of such statements would be of no use.
            let query = sqlx::query_with(sql, arguments).persistent(false);
            query.execute(&mut **tx).await?;
        }
        Conn::Postgres(tx) => {
            let columns = columns(rows)?;
            let sql = AssertSqlSafe(arrays(table, &columns)).into_sql_str();
            let mut arguments = PgArguments::default();
            for column in columns {
                match column {
                    Column::Ints(numbers) => arguments.add(numbers),
                    Column::Texts(texts) => arguments.add(texts),
                    Column::Blobs(blobs) => arguments.add(blobs),
                }
                .map_err(sqlx::Error::Encode)?;
            }
            sqlx::query_with(sql, arguments).execute(&mut **tx).await?;
        }
    }
    Ok(())
}

fn rows_of_values(table: &str, rows: usize, columns: usize) -> String {
    let row = format!("({})", vec!["?"; columns].join(", "));
    format!("INSERT INTO {table} VALUES {}", vec![row; rows].join(", "))
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

fn arrays(table: &str, columns: &[Column]) -> String {
    let arrays: Vec<String> = (1_u32..)
        .zip(columns)
        .map(|(number, column)| match column {
            Column::Ints(_) => format!("${number}::bigint[]"),
            Column::Texts(_) => format!("${number}::text[]"),
            Column::Blobs(_) => format!("${number}::bytea[]"),
        })
        .collect();
    let arrays = arrays.join(", ");
    format!("INSERT INTO {table} SELECT * FROM UNNEST({arrays})")
}

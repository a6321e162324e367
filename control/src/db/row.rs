//! A row that was read, of either database.
//!
//! Takes a column's name or place, gives its value as one of few types. PostgreSQL has a type of its own for yes and
//! no, and several for whole numbers: here they are the numbers that SQLite gives.

use sqlx::{
    ColumnIndex, Row as _, TypeInfo as _, ValueRef as _, error::UnexpectedNullError,
    postgres::PgRow, sqlite::SqliteRow,
};

/// A row.
#[derive(Debug)]
pub(crate) enum Row {
    /// Of SQLite.
    Sqlite(SqliteRow),
    /// Of PostgreSQL.
    Postgres(PgRow),
}

/// What names a column of either.
pub(crate) trait At: ColumnIndex<SqliteRow> + ColumnIndex<PgRow> + Copy {}

impl<T: ColumnIndex<SqliteRow> + ColumnIndex<PgRow> + Copy> At for T {}

impl Row {
    /// The column of a name or a place.
    pub(crate) fn try_get<'r, T: Get<'r>>(&'r self, at: impl At) -> Result<T, sqlx::Error> {
        T::get(self, at)
    }

    /// As [`try_get`](Self::try_get), for tests, which stop at the first surprise.
    #[cfg(test)]
    pub(crate) fn get<'r, T: Get<'r>>(&'r self, at: impl At) -> T {
        T::get(self, at).unwrap()
    }
}

/// What a column can be read as.
pub(crate) trait Get<'r>: Sized {
    /// Reads it.
    fn get(row: &'r Row, at: impl At) -> Result<Self, sqlx::Error>;
}

impl<'r> Get<'r> for Option<i64> {
    fn get(row: &'r Row, at: impl At) -> Result<Self, sqlx::Error> {
        match row {
            Row::Sqlite(row) => row.try_get(at),
            Row::Postgres(row) => whole(row, at),
        }
    }
}

impl<'r> Get<'r> for Option<bool> {
    fn get(row: &'r Row, at: impl At) -> Result<Self, sqlx::Error> {
        let number: Option<i64> = row.try_get(at)?;
        Ok(number.map(|number| number != 0))
    }
}

/// A whole number of whatever width, or a yes or no.
fn whole(row: &PgRow, at: impl At) -> Result<Option<i64>, sqlx::Error> {
    let value = row.try_get_raw(at)?;
    match value.type_info().name() {
        "BOOL" => Ok(row.try_get::<Option<bool>, _>(at)?.map(i64::from)),
        "INT2" => Ok(row.try_get::<Option<i16>, _>(at)?.map(i64::from)),
        "INT4" => Ok(row.try_get::<Option<i32>, _>(at)?.map(i64::from)),
        _ => row.try_get(at),
    }
}

macro_rules! alike {
    ($($kind:ty),*) => {$(
        impl<'r> Get<'r> for Option<$kind> {
            fn get(row: &'r Row, at: impl At) -> Result<Self, sqlx::Error> {
                match row {
                    Row::Sqlite(row) => row.try_get(at),
                    Row::Postgres(row) => row.try_get(at),
                }
            }
        }
    )*};
}

alike!(String, &'r str, Vec<u8>, &'r [u8]);

macro_rules! present {
    ($($kind:ty),*) => {$(
        impl<'r> Get<'r> for $kind {
            fn get(row: &'r Row, at: impl At) -> Result<Self, sqlx::Error> {
                Option::<$kind>::get(row, at)?.ok_or_else(absent)
            }
        }
    )*};
}

present!(i64, bool, String, &'r str, Vec<u8>, &'r [u8]);

fn absent() -> sqlx::Error {
    sqlx::Error::Decode(Box::new(UnexpectedNullError))
}

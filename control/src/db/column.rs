//! Columns read into values that hold.
//!
//! Takes a row and a column's name, gives a checked value, or an error that names the column. The database is ours,
//! yet a file that was edited by hand must not become a panic or a wrong decision.

use std::{error::Error, str::FromStr};

use serde::de::DeserializeOwned;

use super::Row;
use crate::clock::Moment;

/// A text that reads as `T`.
pub(crate) fn parsed<T>(row: &Row, column: &'static str) -> Result<T, sqlx::Error>
where
    T: FromStr<Err: Error + Send + Sync + 'static>,
{
    let text: &str = row.try_get(column)?;
    text.parse().map_err(|source| undecodable(column, source))
}

/// A text that reads as `T`, or NULL.
pub(crate) fn parsed_option<T>(row: &Row, column: &'static str) -> Result<Option<T>, sqlx::Error>
where
    T: FromStr<Err: Error + Send + Sync + 'static>,
{
    let text: Option<&str> = row.try_get(column)?;
    text.map(|text| text.parse().map_err(|source| undecodable(column, source)))
        .transpose()
}

/// A text that is JSON.
pub(crate) fn json<T: DeserializeOwned>(row: &Row, column: &'static str) -> Result<T, sqlx::Error> {
    let text: &str = row.try_get(column)?;
    serde_json::from_str(text).map_err(|source| undecodable(column, source))
}

/// A whole number that fits into `T`.
pub(crate) fn number<T>(row: &Row, column: &'static str) -> Result<T, sqlx::Error>
where
    T: TryFrom<i64, Error: Error + Send + Sync + 'static>,
{
    let number: i64 = row.try_get(column)?;
    T::try_from(number).map_err(|source| undecodable(column, source))
}

/// A number that cannot be negative, or NULL.
pub(crate) fn number_option<T>(row: &Row, column: &'static str) -> Result<Option<T>, sqlx::Error>
where
    T: TryFrom<i64, Error: Error + Send + Sync + 'static>,
{
    let number: Option<i64> = row.try_get(column)?;
    let checked = number.map(T::try_from).transpose();
    checked.map_err(|source| undecodable(column, source))
}

/// A time.
pub(crate) fn moment(row: &Row, column: &'static str) -> Result<Moment, sqlx::Error> {
    row.try_get(column).map(Moment::from_millis)
}

/// A time, or NULL.
pub(crate) fn moment_option(
    row: &Row,
    column: &'static str,
) -> Result<Option<Moment>, sqlx::Error> {
    let millis: Option<i64> = row.try_get(column)?;
    Ok(millis.map(Moment::from_millis))
}

/// The error of a column whose content is not what it should be.
pub(crate) fn undecodable(
    column: &'static str,
    source: impl Error + Send + Sync + 'static,
) -> sqlx::Error {
    sqlx::Error::ColumnDecode {
        index: column.to_owned(),
        source: Box::new(source),
    }
}

/// A counter of ours as the database keeps it. None of them comes near the limit.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

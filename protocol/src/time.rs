//! Moments, to the second.
//!
//! Takes RFC 3339 text in UTC or unix seconds, gives a [`Timestamp`]. Never reads a clock.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use thiserror::Error;
use time::{Date, OffsetDateTime, Time};

use crate::text::{excerpt, serde_as_text};

/// A whole second in UTC; its text is always 20 characters, like `2026-11-29T21:00:00Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// From the beginning of the year 0 to the end of 9999: other years have no four digits.
const UNIX: RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

impl Timestamp {
    /// The moment `unix` seconds after 1970 began; refused where its year would not have four digits.
    pub fn from_unix(unix: i64) -> Result<Self, TimestampError> {
        if UNIX.contains(&unix) {
            Ok(Self(unix))
        } else {
            Err(TimestampError::Range { found: unix })
        }
    }

    /// Seconds since 1970 began.
    #[must_use]
    pub fn unix(self) -> i64 {
        self.0
    }
}

/// Why a text or number is no moment.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TimestampError {
    /// The form is another, or there is no such day or second.
    #[error(
        "expected a time like 2026-11-29T21:00:00Z, found \"{}\"",
        excerpt(found)
    )]
    Form {
        /// The text given.
        found: String,
    },
    /// Outside the years that the text can name.
    #[error("expected unix seconds within the years 0 to 9999, found {found}")]
    Range {
        /// The seconds given.
        found: i64,
    },
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        unix_of(text)
            .and_then(|unix| Self::from_unix(unix).ok())
            // What is read by its places may be spelled otherwise.
            .filter(|moment| moment.to_string() == text)
            .ok_or_else(|| TimestampError::Form {
                found: text.to_owned(),
            })
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = OffsetDateTime::from_unix_timestamp(self.0).map_err(|_| fmt::Error)?;
        let (year, month, day) = moment.to_calendar_date();
        let (hour, minute, second) = moment.to_hms();
        let month = u8::from(month);
        write!(
            formatter,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
    }
}

fn unix_of(text: &str) -> Option<i64> {
    let part = |from: usize| text.get(from..from + 2)?.parse::<u8>().ok();
    let year = text.get(..4)?.parse().ok()?;
    let date = Date::from_calendar_date(year, part(5)?.try_into().ok()?, part(8)?).ok()?;
    let time = Time::from_hms(part(11)?, part(14)?, part(17)?).ok()?;
    Some(date.with_time(time).assume_utc().unix_timestamp())
}

serde_as_text!(Timestamp);

#[cfg(test)]
mod tests {
    use super::Timestamp;
    use proptest::prelude::*;

    #[test]
    fn moments_read_as_they_are_written() {
        for (text, unix) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-29T21:00:00Z", 1_795_986_000),
            ("2024-02-29T23:59:59Z", 1_709_251_199),
            ("0000-01-01T00:00:00Z", -62_167_219_200),
            ("9999-12-31T23:59:59Z", 253_402_300_799),
        ] {
            assert_eq!(text.parse::<Timestamp>().unwrap().unix(), unix, "{text}");
            assert_eq!(Timestamp::from_unix(unix).unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_spellings_are_refused() {
        for text in [
            "",
            "2026-11-29T21:00:00",
            "2026-11-29T21:00:00z",
            "2026-11-29t21:00:00Z",
            "2026-11-29 21:00:00Z",
            "2026-11-29T21:00:00.0Z",
            "2026-11-29T21:00:00+00",
            "2026-11-29T22:00:00+01:00",
            "2026-11-29T21:00:60Z",
            "2026-11-29T24:00:00Z",
            "2026-02-29T21:00:00Z",
            "2026-13-01T21:00:00Z",
            "20261129T210000Z",
            "+002026-11-29T21:00Z",
            "2026-11-29T21:00:00Z ",
            "2026-11-29T21:00:00Z[UTC]",
            "-00001-01-01T00:00Z",
            "+026-11-29T21:00:00Z",
            "2026-11-29T+1:00:00Z",
            "2026-11-29T21:00:00\u{5a}\u{301}",
        ] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }

    #[test]
    fn years_of_more_or_less_than_four_digits_are_refused() {
        assert!(Timestamp::from_unix(-62_167_219_201).is_err());
        assert!(Timestamp::from_unix(253_402_300_800).is_err());
        assert!(Timestamp::from_unix(i64::MAX).is_err());
        assert!(Timestamp::from_unix(i64::MIN).is_err());
    }

    proptest! {
        #[test]
        fn every_moment_survives_its_text(unix in -62_167_219_200_i64..=253_402_300_799) {
            let moment = Timestamp::from_unix(unix).unwrap();
            prop_assert_eq!(moment.to_string().parse::<Timestamp>().unwrap(), moment);
            prop_assert_eq!(moment.to_string().len(), 20);
        }

        #[test]
        fn the_text_orders_like_the_moment(one in 0_i64..253_402_300_800, other in 0_i64..253_402_300_800) {
            let (one, other) = (Timestamp::from_unix(one).unwrap(), Timestamp::from_unix(other).unwrap());
            prop_assert_eq!(one.cmp(&other), one.to_string().cmp(&other.to_string()));
        }
    }
}

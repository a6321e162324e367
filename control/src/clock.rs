//! Where time enters control: the only reader of the system's clocks, and the point in time that everything keeps.

use std::{fmt, str::FromStr, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A point in time: whole milliseconds since 1970, as the database keeps it. RFC 3339 in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment(i64);

impl Moment {
    /// The system clock's.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the clock"
    )]
    pub(crate) fn now() -> Self {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Self(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// From the database's form.
    pub(crate) const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// From the header `Date` of an answer.
    pub(crate) fn from_http_date(text: &str) -> Option<Self> {
        let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text);
        Some(Self(at.ok()?.as_millisecond()))
    }

    /// The database's form.
    pub(crate) fn millis(self) -> i64 {
        self.0
    }

    /// As ids count: never before 1970.
    pub(crate) fn unix_ms(self) -> u64 {
        u64::try_from(self.0).unwrap_or(0)
    }

    /// Later by a span.
    #[must_use]
    pub(crate) fn plus(self, span: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)),
        )
    }

    /// Earlier by a span.
    #[must_use]
    pub(crate) fn minus(self, span: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)),
        )
    }

    /// The span from an earlier moment to this one; nothing if it is later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// As manifests count: whole seconds. Fails only outside the years that RFC 3339 can write.
    pub(crate) fn timestamp(
        self,
    ) -> Result<bc_protocol::time::Timestamp, bc_protocol::time::TimestampError> {
        bc_protocol::time::Timestamp::from_unix(self.0.div_euclid(1000))
    }
}

impl From<bc_protocol::time::Timestamp> for Moment {
    fn from(at: bc_protocol::time::Timestamp) -> Self {
        Self(at.unix().saturating_mul(1000))
    }
}

/// How long something takes, whatever the system clock does meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(std::time::Instant);

impl Stopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the clock"
    )]
    pub(crate) fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// Since the start.
    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// To the millisecond; in the alternate form, for sentences, to the second.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = Timestamp::from_millisecond(self.0).map_err(|_| fmt::Error)?;
        if f.alternate() {
            write!(f, "{at:.0}")
        } else {
            write!(f, "{at:.3}")
        }
    }
}

impl FromStr for Moment {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        Ok(Self(text.parse::<Timestamp>()?.as_millisecond()))
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?
            .parse()
            .map_err(de::Error::custom)
    }
}

impl utoipa::PartialSchema for Moment {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        crate::api::words::moment("A point in time, RFC 3339 in UTC, milliseconds.").into()
    }
}

impl utoipa::ToSchema for Moment {}

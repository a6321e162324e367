//! Durations as people write them.
//!
//! Takes `90s`, `10m` or `1h 30m`, gives seconds within the bounds of the field that they are for.

use std::time::Duration;

/// Why a text is not the duration that was expected.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum SpanError {
    #[error("expected a duration like 90s, 10m or 1h30m")]
    Form(#[source] humantime::DurationError),
    #[error("expected {} to {}, found {}", human(*least), human(*most), human(*found))]
    Range {
        least: Duration,
        most: Duration,
        found: Duration,
    },
}

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// As whoever reads and writes durations here counts one.
const YEAR: Duration = Duration::from_secs(31_557_600);

/// Rest between waves: up to a week.
pub(super) fn soak(text: &str) -> Result<Duration, SpanError> {
    within(text, Duration::ZERO, 7 * DAY)
}

/// How long one node may take: a minute to a day.
pub(super) fn upgrade_timeout(text: &str) -> Result<Duration, SpanError> {
    within(text, Duration::from_secs(60), DAY)
}

/// How long a token works: a second to a year.
pub(super) fn token_life(text: &str) -> Result<Duration, SpanError> {
    within(text, Duration::from_secs(1), 365 * DAY)
}

/// How long a command may wait to be begun: a second to a month.
pub(super) fn command_life(text: &str) -> Result<Duration, SpanError> {
    within(text, Duration::from_secs(1), 30 * DAY)
}

/// How long a release may be installed anew. That it is long enough is judged where the manifest is made.
pub(super) fn release_life(text: &str) -> Result<Duration, SpanError> {
    within(text, Duration::ZERO, 100 * YEAR)
}

/// How long to wait: not for ever, which is what no limit is for.
pub(super) fn patience(text: &str) -> Result<Duration, SpanError> {
    within(text, Duration::ZERO, 365 * DAY)
}

fn within(text: &str, least: Duration, most: Duration) -> Result<Duration, SpanError> {
    let found = humantime::parse_duration(text.trim()).map_err(SpanError::Form)?;
    if (least..=most).contains(&found) {
        Ok(found)
    } else {
        Err(SpanError::Range { least, most, found })
    }
}

/// As people write it: in hours up to two days, since nobody counts 90 minutes in days.
pub(super) fn human(span: Duration) -> String {
    if span >= HOUR && span <= 2 * DAY && span.as_secs().is_multiple_of(3600) {
        return format!("{}h", span.as_secs() / 3600);
    }
    let days = span.as_secs() / DAY.as_secs();
    let rest = span.saturating_sub(Duration::from_secs(days.saturating_mul(DAY.as_secs())));
    let rest = humantime::format_duration(rest)
        .to_string()
        .replace(' ', "");
    match (days, rest.as_str()) {
        (0, rest) => rest.to_owned(),
        (days, "0s") => format!("{days}d"),
        (days, rest) => format!("{days}d{rest}"),
    }
}

/// The API's seconds as people write them.
pub(super) fn human_seconds(seconds: f64) -> String {
    Duration::try_from_secs_f64(seconds).map_or_else(|_| seconds.to_string(), human)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_within_their_bounds() {
        for (text, seconds) in [
            ("0s", 0),
            ("10m", 600),
            ("1h 30m", 5400),
            ("7days", 604_800),
        ] {
            assert_eq!(soak(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for (text, message) in [
            ("8d", "expected 0s to 7d, found 8d"),
            ("10", "expected a duration like 90s, 10m or 1h30m"),
            ("-1s", "expected a duration like 90s, 10m or 1h30m"),
            ("", "expected a duration like 90s, 10m or 1h30m"),
        ] {
            assert_eq!(soak(text).unwrap_err().to_string(), message, "{text}");
        }
        assert_eq!(
            upgrade_timeout("59s").unwrap_err().to_string(),
            "expected 1m to 24h, found 59s"
        );
    }

    #[test]
    fn spans_are_shown_as_people_write_them() {
        for (seconds, shown) in [
            (0.0, "0s"),
            (0.5, "500ms"),
            (600.0, "10m"),
            (86_400.0, "24h"),
            (604_800.0, "7d"),
            (31_536_000.0, "365d"),
            (183_600.0, "2d3h"),
        ] {
            assert_eq!(human_seconds(seconds), shown);
        }
    }
}

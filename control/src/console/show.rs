//! How values look on a page. Pure.
//!
//! Takes values of ours, gives text, or markup that is made of nothing but numbers and words of ours.

use std::{fmt, time::Duration};

use askama::filters::HtmlSafe;

use crate::clock::Moment;

/// A point in time, as seen from another; the script goes on counting.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    at: Moment,
    now: Moment,
}

/// A moment as seen now.
pub(super) fn at(at: Moment, now: Moment) -> At {
    At { at, now }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, now } = self;
        let millis = at.millis();
        let text = relative(*at, *now);
        write!(
            f,
            "<time datetime=\"{at}\" title=\"{at}\" data-at=\"{millis}\">{text}</time>"
        )
    }
}

impl HtmlSafe for At {}

/// A word of ours with a colour and a sign of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Badge(pub &'static str);

impl fmt::Display for Badge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.0;
        let text = word.replace('-', " ");
        write!(f, "<span class=\"badge is-{word}\">{text}</span>")
    }
}

impl HtmlSafe for Badge {}

/// How far away a moment is, either way.
pub(super) fn relative(at: Moment, now: Moment) -> String {
    let past = now.since(at);
    let ahead = at.since(now);
    if ahead > Duration::from_secs(1) {
        format!("in {}", span(ahead))
    } else if past < Duration::from_secs(5) {
        "just now".to_owned()
    } else {
        format!("{} ago", span(past))
    }
}

/// A span in its largest units, as people say it.
pub(super) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..=59 => format!("{seconds} s"),
        60..=599 if !seconds.is_multiple_of(60) => format!("{minutes} min {} s", seconds % 60),
        60..=3599 => format!("{minutes} min"),
        3600..=86_399 if !minutes.is_multiple_of(60) => format!("{hours} h {} min", minutes % 60),
        3600..=86_399 => format!("{hours} h"),
        _ if days < 14 && !hours.is_multiple_of(24) => format!("{days} d {} h", hours % 24),
        _ => format!("{days} d"),
    }
}

/// Seconds as the API gives them.
pub(super) fn seconds(seconds: f64) -> String {
    span(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// A whole number with its thing: `1 node`, `2 nodes`.
pub(super) fn count(number: u32, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        _ => format!("{} {thing}s", number_text(number)),
    }
}

/// A pool's name, and whether it is out of use.
pub(super) fn called(pool: &str, is_archived: bool) -> String {
    if is_archived {
        format!("{pool} (archived)")
    } else {
        pool.to_owned()
    }
}

/// A number in groups of three digits.
pub(super) fn number_text(number: u32) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && digits.len().saturating_sub(place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// The end of an id: what differs among those that were made together.
pub(super) fn short(id: &str) -> String {
    let tail: Vec<char> = id.chars().rev().take(8).collect();
    let prefix = id.split('_').next().unwrap_or_default();
    format!("{prefix}_…{}", tail.into_iter().rev().collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{at, count, number_text, relative, short, span};
    use crate::clock::Moment;

    #[test]
    fn spans_as_people_say_them() {
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (90, "1 min 30 s"),
            (3599, "59 min"),
            (3600, "1 h"),
            (5400, "1 h 30 min"),
            (86_400, "1 d"),
            (90_000, "1 d 1 h"),
            (86_400 * 30, "30 d"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn before_and_after_now() {
        let now = Moment::from_millis(1_000_000);
        assert_eq!(relative(now, now), "just now");
        assert_eq!(
            relative(now.minus(Duration::from_secs(70)), now),
            "1 min 10 s ago"
        );
        assert_eq!(
            relative(now.plus(Duration::from_secs(70)), now),
            "in 1 min 10 s"
        );
        let shown = at(now, now).to_string();
        assert!(
            shown.contains("data-at=\"1000000\"") && shown.contains("1970-01-01T00:16:40.000Z"),
            "{shown}"
        );
    }

    #[test]
    fn numbers_and_ids() {
        assert_eq!(count(1, "node"), "1 node");
        assert_eq!(count(0, "node"), "0 nodes");
        assert_eq!(number_text(10_000), "10\u{202f}000");
        assert_eq!(number_text(123), "123");
        assert_eq!(short("node_0123456789abcdef"), "node_…89abcdef");
    }
}

//! Which bytes a request wants.
//!
//! Takes the headers of a request and what the file is, gives one answer. Pure. One range is served; a list of them is
//! answered with the whole file, as HTTP allows.

use axum::http::{HeaderMap, HeaderName, header};

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Nothing: the caller has the file.
    Unchanged,
    /// Everything.
    Whole,
    /// At least one byte, from `start` on.
    Part {
        /// The first byte.
        start: u64,
        /// How many.
        length: u64,
    },
    /// A part that the file does not have.
    Nothing,
    /// Another file than this one.
    Other,
}

/// Decides by the conditions first: a part of another file must never be spliced onto what the caller has.
pub(super) fn wanted(headers: &HeaderMap, etag: &str, size: u64) -> Wanted {
    if headers.contains_key(header::IF_MATCH) {
        let wanted = text(headers, &header::IF_MATCH).unwrap_or_default();
        let names_it = |one: &str| one == "*" || one == etag;
        if !wanted.split(',').any(|one| names_it(one.trim())) {
            return Wanted::Other;
        }
    }
    if let Some(known) = text(headers, &header::IF_NONE_MATCH)
        && known.split(',').any(|one| matches_weakly(one.trim(), etag))
    {
        return Wanted::Unchanged;
    }
    let Some(range) = text(headers, &header::RANGE) else {
        return Wanted::Whole;
    };
    if headers.contains_key(header::IF_RANGE) && text(headers, &header::IF_RANGE) != Some(etag) {
        return Wanted::Whole;
    }
    part(range, size)
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn matches_weakly(known: &str, etag: &str) -> bool {
    known == "*" || known.strip_prefix("W/").unwrap_or(known) == etag
}

fn part(range: &str, size: u64) -> Wanted {
    let Some((first, last)) = range
        .strip_prefix("bytes=")
        .and_then(|range| range.split_once('-'))
    else {
        return Wanted::Whole;
    };
    match (digits(first), digits(last)) {
        (Some(start), _) if start >= size && (last.is_empty() || digits(last).is_some()) => {
            Wanted::Nothing
        }
        (Some(start), None) if last.is_empty() => Wanted::Part {
            start,
            length: size - start,
        },
        (Some(start), Some(last)) if start <= last => Wanted::Part {
            start,
            length: last.min(size - 1) - start + 1,
        },
        (None, Some(0)) if first.is_empty() => Wanted::Nothing,
        (None, Some(suffix)) if first.is_empty() => {
            let length = suffix.min(size);
            Wanted::Part {
                start: size - length,
                length,
            }
        }
        // Not of the grammar, or several ranges: the header does not count.
        (Some(_) | None, _) => Wanted::Whole,
    }
}

/// Plain digits; a number too large for any file is as good as the largest.
fn digits(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, header};
    use proptest::prelude::*;

    use super::{Wanted, part, wanted};

    fn check(range: &str, expected: Wanted) {
        assert_eq!(part(range, 100), expected, "{range}");
    }

    fn bytes(start: u64, length: u64) -> Wanted {
        Wanted::Part { start, length }
    }

    #[test]
    fn one_range_is_cut_to_the_file() {
        check("bytes=0-0", bytes(0, 1));
        check("bytes=10-19", bytes(10, 10));
        check("bytes=10-", bytes(10, 90));
        check("bytes=99-", bytes(99, 1));
        check("bytes=90-1000", bytes(90, 10));
        check("bytes=-10", bytes(90, 10));
        check("bytes=-1000", bytes(0, 100));
        check("bytes=0-99999999999999999999999", bytes(0, 100));
    }

    #[test]
    fn a_range_behind_the_end_is_nothing() {
        check("bytes=100-", Wanted::Nothing);
        check("bytes=100-200", Wanted::Nothing);
        check("bytes=99999999999999999999999-", Wanted::Nothing);
        check("bytes=-0", Wanted::Nothing);
    }

    #[test]
    fn what_is_no_range_does_not_count() {
        for range in [
            "",
            "bytes=",
            "bytes=-",
            "bytes=x-",
            "bytes=1-x",
            "bytes=5-4",
            "bytes=1-2,4-5",
            "bytes=+1-2",
            "lines=1-2",
            "bytes 1-2",
            "bytes=1",
            "bytes=100-x",
        ] {
            check(range, Wanted::Whole);
        }
    }

    fn with(headers: &[(header::HeaderName, &'static str)]) -> Wanted {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().unwrap()))
            .collect();
        wanted(&headers, "\"abc\"", 100)
    }

    #[test]
    fn a_part_of_another_file_is_not_sent() {
        let range = (header::RANGE, "bytes=10-");
        assert_eq!(with(std::slice::from_ref(&range)), bytes(10, 90));
        assert_eq!(
            with(&[range.clone(), (header::IF_RANGE, "\"abc\"")]),
            bytes(10, 90)
        );
        assert_eq!(
            with(&[range.clone(), (header::IF_RANGE, "\"other\"")]),
            Wanted::Whole
        );
        assert_eq!(
            with(&[range.clone(), (header::IF_RANGE, "W/\"abc\"")]),
            Wanted::Whole
        );
        assert_eq!(
            with(&[range, (header::IF_RANGE, "Wed, 21 Oct 2026 07:28:00 GMT")]),
            Wanted::Whole
        );
    }

    #[test]
    fn who_has_the_file_gets_nothing() {
        assert_eq!(
            with(&[(header::IF_NONE_MATCH, "\"x\", W/\"abc\"")]),
            Wanted::Unchanged
        );
        assert_eq!(with(&[(header::IF_NONE_MATCH, "\"x\"")]), Wanted::Whole);
    }

    proptest! {
        #[test]
        fn no_header_reaches_outside_of_the_file(range in "(bytes=)?[0-9,-]{0,12}", size in 1_u64..1000) {
            if let Wanted::Part { start, length } = part(&range, size) {
                prop_assert!(length >= 1 && start + length <= size);
            }
        }
    }
}

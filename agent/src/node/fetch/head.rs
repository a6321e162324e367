//! What the head of a server's answer says about its body.
//!
//! Takes the head and what was asked for, gives what the body is. Decides before one byte of the body is kept.

use hyper::{
    HeaderMap, Response, StatusCode,
    header::{
        CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderName, LAST_MODIFIED, LOCATION,
    },
};

use super::FetchError;
use crate::http::Server;

/// Bytes of a validator: more than any server's.
const VALIDATOR_BYTES_MAX: usize = 256;

/// What was asked for.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    /// Whom.
    pub(super) server: &'a Server,
    /// Bytes that are here already; with some, the rest was asked for.
    pub(super) have: u64,
    /// Bytes of the whole file.
    pub(super) size: u64,
}

/// What the body is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// The whole file. With the validator, its rest can be asked for another time.
    Whole {
        /// What names exactly these bytes on this server.
        validator: Option<String>,
    },
    /// The rest, exactly.
    Rest,
    /// Nothing that fits to what is here.
    Useless,
    /// No file; it is elsewhere.
    Elsewhere {
        /// Where, as the server wrote it.
        location: String,
    },
}

/// Judges a head.
pub(super) fn judge<B>(response: &Response<B>, asked: Asked<'_>) -> Result<Head, FetchError> {
    let headers = response.headers();
    let status = response.status();
    let refused = || FetchError::Status {
        server: asked.server.to_string(),
        status: status.as_u16(),
    };
    match status {
        StatusCode::OK => {
            check_encoding(headers)?;
            check_length(headers, asked.size)?;
            let validator = validator(headers);
            Ok(Head::Whole { validator })
        }
        StatusCode::PARTIAL_CONTENT if asked.have > 0 => {
            check_encoding(headers)?;
            Ok(match text(headers, &CONTENT_RANGE).and_then(range) {
                Some((start, total)) if start == asked.have && total == asked.size => Head::Rest,
                Some(_) | None => Head::Useless,
            })
        }
        StatusCode::RANGE_NOT_SATISFIABLE if asked.have > 0 => Ok(Head::Useless),
        StatusCode::MOVED_PERMANENTLY
        | StatusCode::FOUND
        | StatusCode::SEE_OTHER
        | StatusCode::TEMPORARY_REDIRECT
        | StatusCode::PERMANENT_REDIRECT => {
            let location = text(headers, &LOCATION).ok_or_else(refused)?.to_owned();
            Ok(Head::Elsewhere { location })
        }
        _ => Err(refused()),
    }
}

fn check_encoding(headers: &HeaderMap) -> Result<(), FetchError> {
    for encoding in headers.get_all(CONTENT_ENCODING) {
        if !encoding.as_bytes().eq_ignore_ascii_case(b"identity") {
            let found = String::from_utf8_lossy(encoding.as_bytes()).into_owned();
            return Err(FetchError::Encoding(found));
        }
    }
    Ok(())
}

fn check_length(headers: &HeaderMap, size: u64) -> Result<(), FetchError> {
    match text(headers, &CONTENT_LENGTH) {
        Some(length) if length != size.to_string() => Err(FetchError::Size {
            expected: size,
            found: length.to_owned(),
        }),
        Some(_) | None => Ok(()),
    }
}

/// A weak tag promises that the pages look alike, not that the bytes are equal.
fn validator(headers: &HeaderMap) -> Option<String> {
    text(headers, &ETAG)
        .filter(|tag| tag.starts_with('"'))
        .or_else(|| text(headers, &LAST_MODIFIED))
        .filter(|validator| validator.len() <= VALIDATOR_BYTES_MAX)
        .map(ToOwned::to_owned)
}

/// `bytes START-END/TOTAL`: the start and the total.
fn range(value: &str) -> Option<(u64, u64)> {
    let (span, total) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (start, _) = span.split_once('-')?;
    Some((start.parse().ok()?, total.parse().ok()?))
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::PlainHttp, dial::Reach};

    fn verdict(have: u64, status: u16, headers: &[(&str, &str)]) -> Result<Head, &'static str> {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let url = "https://downloads.example/bcd".parse().unwrap();
        let server = Server::of(&url, PlainHttp::Loopback, Reach::Anywhere).unwrap();
        let asked = Asked {
            server: &server,
            have,
            size: 100,
        };
        judge(&response.body(()).unwrap(), asked).map_err(|error| error.code())
    }

    fn whole(validator: Option<&str>) -> Result<Head, &'static str> {
        let validator = validator.map(ToOwned::to_owned);
        Ok(Head::Whole { validator })
    }

    #[test]
    fn a_whole_file() {
        assert_eq!(verdict(0, 200, &[]), whole(None));
        assert_eq!(verdict(7, 200, &[("content-length", "100")]), whole(None));
        assert_eq!(
            verdict(0, 200, &[("content-encoding", "identity")]),
            whole(None)
        );
    }

    #[test]
    fn a_length_that_lies() {
        for length in ["99", "101", "0", "18446744073709551616"] {
            assert_eq!(verdict(0, 200, &[("content-length", length)]), Err("size"));
        }
    }

    #[test]
    fn only_strong_validators_can_resume() {
        let date = "Thu, 01 Jan 1970 00:00:00 GMT";
        for (headers, expected) in [
            (&[("etag", "\"x\"")][..], Some("\"x\"")),
            (&[("etag", "W/\"x\"")], None),
            (&[("etag", "x")], None),
            (&[("last-modified", date)], Some(date)),
            (&[("etag", "W/\"x\""), ("last-modified", date)], Some(date)),
        ] {
            assert_eq!(verdict(0, 200, headers), whole(expected), "{headers:?}");
        }
        let giant = format!("\"{}\"", "x".repeat(300));
        assert_eq!(verdict(0, 200, &[("etag", &giant)]), whole(None));
    }

    #[test]
    fn a_rest_must_fit() {
        for (value, expected) in [
            ("bytes 7-99/100", Head::Rest),
            ("bytes 7-50/100", Head::Rest),
            ("bytes 8-99/100", Head::Useless),
            ("bytes 0-99/100", Head::Useless),
            ("bytes 7-99/101", Head::Useless),
            ("bytes 7-99/*", Head::Useless),
            ("lines 7-99/100", Head::Useless),
            ("", Head::Useless),
        ] {
            let headers = [("content-range", value)];
            assert_eq!(verdict(7, 206, &headers), Ok(expected), "{value}");
            assert_eq!(verdict(0, 206, &headers), Err("download"), "{value}");
        }
        assert_eq!(verdict(7, 416, &[]), Ok(Head::Useless));
        assert_eq!(verdict(0, 416, &[]), Err("download"));
    }

    #[test]
    fn no_encoding_is_undone() {
        for encoding in ["gzip", "br", "zstd", "identity, gzip", "x"] {
            let headers = [("content-encoding", encoding)];
            assert_eq!(verdict(0, 200, &headers), Err("download"));
            let headers = [headers[0], ("content-range", "bytes 7-99/100")];
            assert_eq!(verdict(7, 206, &headers), Err("download"));
        }
    }

    #[test]
    fn redirects_and_refusals() {
        for status in [301, 302, 303, 307, 308] {
            let location = "/elsewhere".to_owned();
            assert_eq!(
                verdict(0, status, &[("location", "/elsewhere")]),
                Ok(Head::Elsewhere { location })
            );
            assert_eq!(verdict(0, status, &[]), Err("download"));
        }
        for status in [201, 204, 300, 304, 400, 401, 403, 404, 410, 429, 500, 503] {
            assert_eq!(verdict(0, status, &[]), Err("download"));
        }
    }
}

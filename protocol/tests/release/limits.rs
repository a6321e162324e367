//! Bounds that are checked before anything is parsed. Too large for a folder of files, so made here.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bc_protocol::limits::{BODY_BYTES_MAX, PUBLISHED_BYTES_MAX};
use bc_protocol::release::{Malformed, Refusal, verify};

use super::forge::*;

fn judge(published: impl AsRef<[u8]>) -> Result<(), Refusal> {
    verify(published.as_ref(), &trust(), PRODUCT, now()).map(drop)
}

/// A good file, with white space behind it up to that many bytes.
fn file_of(bytes: usize) -> String {
    let file = signed(body());
    let padding = " ".repeat(bytes - file.len());
    file + &padding
}

/// A good body of that many bytes: an extension fills it.
fn body_of(bytes: usize) -> String {
    let short = body_with(r#""issuedAt""#, r#""ext":{"fill":""},"issuedAt""#);
    let fill = "x".repeat(bytes - short.len());
    replaced(&short, r#""fill":"""#, &format!(r#""fill":"{fill}""#))
}

#[test]
fn a_file_has_at_most_128_kib() {
    assert_eq!(judge(file_of(PUBLISHED_BYTES_MAX)), Ok(()));
    let refused = Malformed::FileSize {
        found: PUBLISHED_BYTES_MAX + 1,
    };
    assert_eq!(judge(file_of(PUBLISHED_BYTES_MAX + 1)), Err(refused.into()));
}

#[test]
fn a_body_has_at_most_64_kib() {
    assert_eq!(judge(signed(body_of(BODY_BYTES_MAX))), Ok(()));
    let refused = Malformed::BodySize {
        found: BODY_BYTES_MAX + 1,
    };
    assert_eq!(
        judge(signed(body_of(BODY_BYTES_MAX + 1))),
        Err(refused.into())
    );
}

#[test]
fn a_body_too_large_is_not_parsed() {
    let refused = judge(published(vec![b'['; BODY_BYTES_MAX + 1], &[]));
    assert_eq!(
        refused,
        Err(Malformed::BodySize {
            found: BODY_BYTES_MAX + 1
        }
        .into())
    );
}

#[test]
fn ten_thousand_signatures_are_refused_before_one_is_read() {
    let body = body();
    let file = published(&body, &vec![ALICE.sign(&body); 10_000]);
    assert_eq!(
        judge(&file),
        Err(Malformed::FileSize { found: file.len() }.into())
    );
}

#[test]
fn as_many_signatures_as_fit_a_file_stop_the_reader_at_the_seventeenth() {
    // What follows the seventeenth is no JSON: a reader that got there would say so.
    let entries = format!("{},%", vec![ALICE.sign(body()); 17].join(","));
    let refused = judge(file(&STANDARD.encode(body()), &entries)).unwrap_err();
    assert!(
        refused.to_string().contains("at most 16 objects"),
        "{refused}"
    );
}

#[test]
fn what_a_stranger_wrote_does_not_fill_a_log() {
    let wild = format!("\\u001b[2J\\n{}", "x".repeat(60_000));
    let refused = judge(signed(body_with(
        r#""product""#,
        &format!(r#""{wild}":"","product""#),
    )))
    .unwrap_err();
    let message = refused.to_string();
    assert!(
        message.len() < 1_000 && !message.contains(['\u{1b}', '\n']),
        "{message}"
    );
}

//! What is well formed: accepted, or refused by trust, form, product or time, in that order.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use p256::ecdsa::Signature;

use super::super::forge::*;
use super::{Case, bent, case};

pub(super) fn cases() -> Vec<Case> {
    [
        enough_signers(),
        accepted_bodies(),
        too_few_signers(),
        broken_signatures(),
        not_canonical(),
        other_product_or_time(),
        in_order(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn enough_signers() -> Vec<Case> {
    let body = body();
    let all_three = [ALICE, BOB, CAROL].map(|signer| signer.sign(&body));
    let spoilt = signature_entry(
        &CAROL.pin().to_string(),
        &STANDARD.encode(CAROL.raw("another body")),
    );
    let with_mallory = body_with(&CAROL.entry(), &MALLORY.entry());
    let sixteen: Vec<String> = [ALICE.sign(&body), BOB.sign(&body)]
        .into_iter()
        .cycle()
        .take(16)
        .collect();
    let pretty = signed(&body).replace(',', " ,\n\t").replace(':', ": ") + "\r\n";
    vec![
        case("two-of-three", "ok", signed(&body)),
        case("three-of-three", "ok", published(&body, &all_three)),
        case(
            "signatures-in-another-order",
            "ok",
            published(&body, &[CAROL.sign(&body), ALICE.sign(&body)]),
        ),
        case(
            "a-broken-signature-beside-two-good-ones",
            "ok",
            published(&body, &[spoilt, ALICE.sign(&body), BOB.sign(&body)]),
        ),
        case(
            "a-signature-of-an-unlisted-key-beside-two",
            "ok",
            published(
                &body,
                &[MALLORY.sign(&body), ALICE.sign(&body), BOB.sign(&body)],
            ),
        ),
        case(
            "a-listed-key-that-nobody-trusts",
            "ok",
            signed(&with_mallory),
        ),
        case("sixteen-signatures", "ok", published(&body, &sixteen)),
        case(
            "the-other-s-of-a-signature",
            "ok",
            published(&body, &[high_s(ALICE, &body), BOB.sign(&body)]),
        ),
        case("a-file-with-white-space", "ok", pretty),
    ]
}

fn accepted_bodies() -> Vec<Case> {
    let both = [
        artifact("bcd-linux-amd64", "linux-amd64"),
        artifact("bcd-linux-arm64", "linux-arm64"),
    ]
    .join(",");
    vec![
        bent(
            "extensions",
            "ok",
            r#""issuedAt""#,
            r#""ext":{"build":"7","€":"\"\\\n"},"issuedAt""#,
        ),
        bent(
            "extensions-that-are-empty",
            "ok",
            r#""issuedAt""#,
            r#""ext":{},"issuedAt""#,
        ),
        bent(
            "a-file-of-no-platform",
            "ok",
            &artifact("bcd-linux-arm64", "linux-arm64"),
            &artifact("readme €.txt", "x-y").replace(r#""platform":"x-y","#, ""),
        ),
        bent("no-artifacts", "ok", &both, ""),
        bent("a-version-with-a-tail", "ok", "1.4.0", "1.4.0-rc.1"),
        bent(
            "the-last-sequence",
            "ok",
            r#""sequence":14"#,
            r#""sequence":9007199254740991"#,
        ),
        bent("the-smallest-artifact", "ok", r#""size":7"#, r#""size":1"#),
        bent(
            "the-largest-artifact",
            "ok",
            r#""size":7"#,
            r#""size":536870912"#,
        ),
        bent(
            "expiring-in-a-second",
            "ok",
            "2027-05-28T21:00:00Z",
            "2026-12-01T21:00:01Z",
        ),
        bent(
            "issued-in-the-future",
            "ok",
            "2026-11-29T21:00:00Z",
            "2027-01-01T00:00:00Z",
        ),
    ]
}

fn too_few_signers() -> Vec<Case> {
    let body = body();
    let alice = ALICE.sign(&body);
    let bobs = |raw: [u8; 64]| signature_entry(&BOB.pin().to_string(), &STANDARD.encode(raw));
    let with = |other: String| published(&body, &[alice.clone(), other]);
    let without_bob = body_with(&BOB.entry(), &MALLORY.entry());
    vec![
        case("no-signatures", "threshold", published(&body, &[])),
        case(
            "one-signature-too-few",
            "threshold",
            published(&body, std::slice::from_ref(&alice)),
        ),
        case(
            "one-key-that-signed-twice",
            "threshold",
            with(alice.clone()),
        ),
        case(
            "one-key-with-both-its-s",
            "threshold",
            with(high_s(ALICE, &body)),
        ),
        case(
            "one-key-under-anothers-kid",
            "threshold",
            with(bobs(ALICE.raw(&body))),
        ),
        case("a-second-signer-whom-nobody-trusts", "threshold", {
            let listed = body_with(&CAROL.entry(), &MALLORY.entry());
            published(&listed, &[ALICE.sign(&listed), MALLORY.sign(&listed)])
        }),
        case(
            "a-trusted-signer-who-is-not-listed",
            "threshold",
            published(
                &without_bob,
                &[ALICE.sign(&without_bob), BOB.sign(&without_bob)],
            ),
        ),
        case(
            "a-signature-over-another-body",
            "threshold",
            with(BOB.sign(body_with(r#""sequence":14"#, r#""sequence":15"#))),
        ),
        case(
            "a-signature-over-the-digest",
            "threshold",
            with(BOB.sign(bc_protocol::digest::Sha256::of(body.as_bytes()).as_bytes())),
        ),
        case(
            "a-signature-over-the-base64",
            "threshold",
            with(BOB.sign(STANDARD.encode(&body))),
        ),
        bent(
            "no-keys",
            "threshold",
            &[ALICE, BOB, CAROL].map(Signer::entry).join(","),
            "",
        ),
    ]
}

fn broken_signatures() -> Vec<Case> {
    let body = body();
    let bob = BOB.raw(&body);
    let (r, s): ([u8; 32], [u8; 32]) =
        (bob[..32].try_into().unwrap(), bob[32..].try_into().unwrap());
    let part = |first: [u8; 32], second: [u8; 32]| [first, second].concat().try_into().unwrap();
    let bobs = |raw: [u8; 64]| signature_entry(&BOB.pin().to_string(), &STANDARD.encode(raw));
    let with = |other: String| published(&body, &[ALICE.sign(&body), other]);
    vec![
        case("r-is-zero", "threshold", with(bobs(part([0; 32], s)))),
        case("s-is-zero", "threshold", with(bobs(part(r, [0; 32])))),
        case("r-and-s-are-zero", "threshold", with(bobs([0; 64]))),
        case("r-is-the-order", "threshold", with(bobs(part(ORDER, s)))),
        case("s-is-the-order", "threshold", with(bobs(part(r, ORDER)))),
        case("r-and-s-are-all-ones", "threshold", with(bobs([0xff; 64]))),
        case("r-and-s-are-swapped", "threshold", with(bobs(part(s, r)))),
    ]
}

fn not_canonical() -> Vec<Case> {
    let arm = artifact("bcd-linux-arm64", "linux-arm64");
    let amd = artifact("bcd-linux-amd64", "linux-amd64");
    vec![
        bent(
            "a-trailing-newline",
            "not-canonical",
            r#""1.4.0"}"#,
            "\"1.4.0\"}\n",
        ),
        bent(
            "a-leading-space",
            "not-canonical",
            r#"{"artifacts""#,
            r#" {"artifacts""#,
        ),
        bent(
            "white-space-between",
            "not-canonical",
            r#""sequence":14"#,
            r#""sequence": 14"#,
        ),
        bent(
            "fields-in-another-order",
            "not-canonical",
            r#""sequence":14,"spec":1"#,
            r#""spec":1,"sequence":14"#,
        ),
        case("fields-of-a-key-in-another-order", "not-canonical", {
            let without = body_with(r#""alg":"ES256","#, "");
            signed(replaced(
                &without,
                r#","spki":"#,
                r#","alg":"ES256","spki":"#,
            ))
        }),
        bent(
            "an-escaped-letter",
            "not-canonical",
            r#""bcd""#,
            r#""b\u0063d""#,
        ),
        bent(
            "an-escaped-field-name",
            "not-canonical",
            r#""type""#,
            r#""t\u0079pe""#,
        ),
        bent("an-escaped-slash", "not-canonical", "sha256/", r"sha256\/"),
        bent(
            "artifacts-in-another-order",
            "not-canonical",
            &format!("{amd},{arm}"),
            &format!("{arm},{amd}"),
        ),
        bent(
            "extensions-in-another-order",
            "not-canonical",
            r#""issuedAt""#,
            r#""ext":{"b":"","a":""},"issuedAt""#,
        ),
    ]
}

fn other_product_or_time() -> Vec<Case> {
    vec![
        bent("another-product", "product", r#""bcd""#, r#""bcdx""#),
        bent("a-product-in-capitals", "product", r#""bcd""#, r#""BCD""#),
        bent("an-empty-product", "product", r#""bcd""#, r#""""#),
        bent(
            "expiring-this-second",
            "expired",
            "2027-05-28T21:00:00Z",
            "2026-12-01T21:00:00Z",
        ),
        bent(
            "expired-long-ago",
            "expired",
            "2027-05-28T21:00:00Z",
            "1970-01-01T00:00:00Z",
        ),
    ]
}

/// Two things wrong at once: the earlier reason is the one that counts.
fn in_order() -> Vec<Case> {
    let unsigned_and_malformed = body_with(r#""spec":1"#, r#""spec":2"#);
    let spaced = body_with(r#""sequence":14"#, r#""sequence": 14"#);
    let spaced_and_other = replaced(&spaced, r#""bcd""#, r#""bcdx""#);
    let other_and_expired = replaced(&body_with(r#""bcd""#, r#""bcdx""#), "2027", "2026");
    let expired = replaced(&other_and_expired, r#""bcdx""#, r#""bcd""#);
    vec![
        case(
            "malformed-before-threshold",
            "malformed",
            published(unsigned_and_malformed, &[]),
        ),
        case(
            "threshold-before-not-canonical",
            "threshold",
            published(&spaced, &[ALICE.sign(&spaced)]),
        ),
        case(
            "threshold-before-expired",
            "threshold",
            published(&expired, &[BOB.sign(&expired)]),
        ),
        case(
            "not-canonical-before-product",
            "not-canonical",
            signed(spaced_and_other),
        ),
        case(
            "product-before-expired",
            "product",
            signed(other_and_expired),
        ),
    ]
}

const ORDER: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc, 0xe6,
    0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
];

/// The same signature with n-s for s, or s again where that was the higher one.
fn high_s(signer: Signer, body: &str) -> String {
    let signature = Signature::from_slice(&signer.raw(body)).unwrap();
    let other =
        Signature::from_scalars(signature.r().to_bytes(), (-*signature.s()).to_bytes()).unwrap();
    signature_entry(
        &signer.pin().to_string(),
        &STANDARD.encode(other.to_bytes()),
    )
}

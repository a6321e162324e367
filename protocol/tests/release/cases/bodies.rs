//! Bodies that are no manifest, though enough trusted keys signed them.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use p256::elliptic_curve::sec1::ToSec1Point as _;

use super::super::forge::*;
use super::{Case, bent, case};

pub(super) fn cases() -> Vec<Case> {
    let whole = whole_bodies()
        .into_iter()
        .map(|(name, body)| case(name, "malformed", signed(body)));
    let changes = [
        fields(),
        numbers(),
        texts(),
        keys(),
        key_entries(),
        artifacts(),
        extensions(),
    ];
    let changed = changes
        .into_iter()
        .flatten()
        .map(|(name, from, to)| bent(name, "malformed", &from, &to));
    whole.chain(changed).collect()
}

/// A name, and what to replace in the good body by what.
type Change = (&'static str, String, String);

fn change(name: &'static str, from: impl Into<String>, to: impl Into<String>) -> Change {
    (name, from.into(), to.into())
}

fn whole_bodies() -> Vec<(&'static str, Vec<u8>)> {
    let good = body().into_bytes();
    vec![
        ("body-is-empty", Vec::new()),
        ("body-is-no-json", b"bcd 1.4.0".to_vec()),
        ("body-is-an-array", b"[]".to_vec()),
        ("body-is-an-array-of-its-values", format!(
            r#"["bettercompute.release",1,"bcd","1.4.0",14,"2026-11-29T21:00:00Z","2027-05-28T21:00:00Z",[{}],null,[]]"#,
            ALICE.entry(),
        ).into_bytes()),
        ("body-is-an-empty-object", b"{}".to_vec()),
        ("body-has-a-bom", [b"\xef\xbb\xbf".as_slice(), &good].concat()),
        ("body-has-a-second-object", [good.as_slice(), b"{}"].concat()),
        ("body-is-not-utf-8", body_with("bcd-linux", "bcd?linux").bytes().map(|byte| if byte == b'?' { 0xff } else { byte }).collect()),
        ("body-is-very-deep", [vec![b'['; 10_000], vec![b']'; 10_000]].concat()),
        ("body-is-a-published-file", signed(body()).into_bytes()),
    ]
}

fn fields() -> Vec<Change> {
    vec![
        change("unknown-field", r#""product""#, r#""notes":"","product""#),
        change(
            "unknown-field-of-null",
            r#""product""#,
            r#""notes":null,"product""#,
        ),
        change("field-twice", r#""spec":1"#, r#""spec":1,"spec":1"#),
        change(
            "field-twice-once-escaped",
            r#""spec":1"#,
            r#""spec":1,"\u0073pec":1"#,
        ),
        change("no-type", r#""type":"bettercompute.release","#, ""),
        change("no-spec", r#""spec":1,"#, ""),
        change("no-product", r#""product":"bcd","#, ""),
        change("no-version", r#","version":"1.4.0""#, ""),
        change("no-sequence", r#""sequence":14,"#, ""),
        change("no-issued-at", r#""issuedAt":"2026-11-29T21:00:00Z","#, ""),
        change(
            "no-expires-at",
            r#""expiresAt":"2027-05-28T21:00:00Z","#,
            "",
        ),
        change(
            "another-type",
            "bettercompute.release",
            "bettercompute.policy",
        ),
        change(
            "type-as-an-object",
            r#""bettercompute.release""#,
            r#"{"bettercompute.release":null}"#,
        ),
        change("another-spec", r#""spec":1"#, r#""spec":2"#),
        change("spec-as-text", r#""spec":1"#, r#""spec":"1""#),
        change("spec-with-a-point", r#""spec":1"#, r#""spec":1.0"#),
        change("product-is-null", r#""bcd""#, "null"),
        change("product-is-a-list", r#""bcd""#, r#"["bcd"]"#),
    ]
}

fn numbers() -> Vec<Change> {
    let sequence =
        |name, number: &str| change(name, r#""sequence":14"#, format!(r#""sequence":{number}"#));
    let size = |name, number: &str| change(name, r#""size":7"#, format!(r#""size":{number}"#));
    vec![
        sequence("sequence-with-a-point", "14.0"),
        sequence("sequence-with-an-exponent", "1e1"),
        sequence("sequence-of-zero", "0"),
        sequence("sequence-of-minus-zero", "-0"),
        sequence("sequence-below-zero", "-1"),
        sequence("sequence-with-a-leading-zero", "014"),
        sequence("sequence-with-a-plus", "+14"),
        sequence("sequence-as-text", "\"14\""),
        sequence("sequence-is-null", "null"),
        sequence("sequence-past-2-to-the-53", "9007199254740992"),
        sequence("sequence-past-2-to-the-64", "18446744073709551630"),
        sequence("sequence-past-every-float", "1e309"),
        sequence("sequence-is-not-a-number", "NaN"),
        size("size-of-zero", "0"),
        size("size-of-a-byte-too-many", "536870913"),
        size("size-with-a-point", "7.0"),
        size("size-below-zero", "-7"),
        size("size-as-text", "\"7\""),
    ]
}

fn texts() -> Vec<Change> {
    let version = |name, text: &str| change(name, r#""1.4.0""#, format!("\"{text}\""));
    let issued = |name, text: &str| change(name, "2026-11-29T21:00:00Z", text);
    vec![
        version("version-with-a-v", "v1.4.0"),
        version("version-of-two-numbers", "1.4"),
        version("version-that-climbs-out", "../1.4.0"),
        version("version-with-a-slash-in-its-tail", "1.4.0-a/b"),
        version("version-with-a-nul", "1.4.0-\\u0000"),
        version("version-with-a-newline", "1.4.0\\n"),
        version(
            "version-of-129-characters",
            &format!("1.4.0-{}", "a".repeat(123)),
        ),
        version("version-with-half-a-surrogate", "1.4.0-\\ud800"),
        change("version-is-a-number", r#""1.4.0""#, "1.4"),
        issued("issued-at-with-an-offset", "2026-11-29T22:00:00+01:00"),
        issued("issued-at-with-a-fraction", "2026-11-29T21:00:00.0Z"),
        issued("issued-at-in-lower-case", "2026-11-29t21:00:00z"),
        issued("issued-at-without-zone", "2026-11-29T21:00:00"),
        issued("issued-on-no-day", "2026-11-31T21:00:00Z"),
        issued("issued-in-a-leap-second", "2026-12-31T23:59:60Z"),
        change(
            "issued-at-is-a-number",
            r#""2026-11-29T21:00:00Z""#,
            "1795986000",
        ),
        change("text-with-a-raw-newline", r#""bcd""#, "\"bc\nd\""),
    ]
}

fn keys() -> Vec<Change> {
    let spki = ALICE.spki();
    let as_spki = |name, spki: &[u8]| {
        let pin = bc_protocol::digest::Pin::of_spki(spki).to_string();
        change(name, ALICE.entry(), key_entry(&pin, &STANDARD.encode(spki)))
    };
    let bent_at = |at: usize, xor: u8| {
        let mut bent = spki.clone();
        bent[at] ^= xor;
        bent
    };
    vec![
        as_spki("key-compressed", &compressed_spki(ALICE)),
        as_spki("key-in-hybrid-form", &bent_at(26, 0x02)),
        as_spki("key-beside-the-curve", &bent_at(90, 1)),
        as_spki("key-of-another-curve", &bent_at(22, 1)),
        as_spki("key-with-a-byte-behind", &[spki.as_slice(), &[0]].concat()),
        as_spki("key-without-its-wrapping", &spki[26..]),
        as_spki("key-of-no-bytes", &[]),
    ]
}

fn compressed_spki(signer: Signer) -> Vec<u8> {
    let point = signer
        .private()
        .verifying_key()
        .as_affine()
        .to_sec1_point(true);
    let header = [
        0x30, 0x39, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08,
        0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x22, 0x00,
    ];
    [header.as_slice(), point.as_bytes()].concat()
}

fn key_entries() -> Vec<Change> {
    let alice = ALICE.entry();
    let pin = ALICE.pin().to_string();
    let spki = STANDARD.encode(ALICE.spki());
    let seventeen: Vec<String> = (1..=17)
        .map(|number| Signer::numbered(number).entry())
        .collect();
    vec![
        change(
            "key-under-anothers-kid",
            alice.clone(),
            key_entry(&MALLORY.pin().to_string(), &spki),
        ),
        change(
            "key-under-a-kid-that-is-no-pin",
            alice.clone(),
            key_entry("alice", &spki),
        ),
        change(
            "key-without-padding",
            alice.clone(),
            key_entry(&pin, &STANDARD_NO_PAD.encode(ALICE.spki())),
        ),
        change("key-for-another-algorithm", "ES256", "ES384"),
        change("key-for-no-algorithm", "ES256", "none"),
        change("key-twice", BOB.entry(), alice.clone()),
        change(
            "key-twice-under-two-kids",
            BOB.entry(),
            key_entry(&BOB.pin().to_string(), &spki),
        ),
        change(
            "key-as-an-array",
            alice.clone(),
            format!(r#"["{pin}","ES256","{}"]"#, spki),
        ),
        change(
            "key-with-an-unknown-field",
            r#"{"alg""#,
            r#"{"use":"sig","alg""#,
        ),
        change("key-is-null", alice, "null"),
        change(
            "seventeen-keys",
            [ALICE, BOB, CAROL].map(Signer::entry).join(","),
            seventeen.join(","),
        ),
    ]
}

fn artifacts() -> Vec<Change> {
    let amd = artifact("bcd-linux-amd64", "linux-amd64");
    let name = |case, text: &str| {
        change(
            case,
            r#""name":"bcd-linux-amd64""#,
            format!(r#""name":"{text}""#),
        )
    };
    let platform = |case, json: &str| change(case, r#""linux-amd64""#, json);
    let sixty_five: Vec<String> = (0..65)
        .map(|number| artifact(&format!("file-{number:02}"), "linux-amd64"))
        .collect();
    vec![
        name("artifact-of-no-name", ""),
        name("artifact-named-like-its-folder", "."),
        name("artifact-that-climbs-out", ".."),
        name("artifact-in-a-folder", "bin/bcd"),
        name("artifact-at-the-root", "/bcd"),
        name("artifact-with-a-backslash", "bin\\\\bcd"),
        name("artifact-with-a-nul", "bcd\\u0000"),
        name("artifact-with-a-newline", "bcd\\n"),
        name("artifact-of-256-bytes", &"b".repeat(256)),
        platform("platform-is-null", "null"),
        platform("platform-is-empty", r#""""#),
        platform("platform-in-capitals", r#""Linux-amd64""#),
        platform("platform-that-climbs-out", r#""linux-../..""#),
        platform(
            "platform-is-too-long",
            r#""linux-amd64amd64amd64amd64amd64amd""#,
        ),
        change(
            "artifact-twice",
            r#""name":"bcd-linux-arm64""#,
            r#""name":"bcd-linux-amd64""#,
        ),
        change(
            "artifact-as-an-array",
            amd.clone(),
            r#"["bcd-linux-amd64","linux-amd64","e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",7]"#,
        ),
        change(
            "artifact-with-an-unknown-field",
            r#"{"name""#,
            r#"{"mode":493,"name""#,
        ),
        change("artifact-without-size", r#","size":7"#, ""),
        change(
            "artifact-without-digest",
            r#""sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","#,
            "",
        ),
        change("digest-in-capitals", "e3b0c442", "E3B0C442"),
        change("digest-of-31-bytes", "7852b855", "7852b8"),
        change("digest-of-odd-length", "7852b855", "7852b85"),
        change(
            "sixty-five-artifacts",
            format!("{amd},{}", artifact("bcd-linux-arm64", "linux-arm64")),
            sixty_five.join(","),
        ),
        change(
            "artifacts-are-null",
            format!("[{amd},{}]", artifact("bcd-linux-arm64", "linux-arm64")),
            "null",
        ),
    ]
}

fn extensions() -> Vec<Change> {
    let ext =
        |name, json: &str| change(name, r#""issuedAt""#, format!(r#""ext":{json},"issuedAt""#));
    let seventeen: Vec<String> = (0..17)
        .map(|number| format!(r#""k{number:02}":"""#))
        .collect();
    vec![
        ext(
            "extension-that-must-be-understood",
            r#"{"!rollout":"slow"}"#,
        ),
        ext(
            "extension-that-must-be-understood-escaped",
            r#"{"\u0021rollout":"slow"}"#,
        ),
        ext("extensions-are-null", "null"),
        ext("extensions-are-an-array", r#"[["a","b"]]"#),
        ext("extension-is-a-number", r#"{"a":1}"#),
        ext("extension-is-an-object", r#"{"a":{}}"#),
        ext("extension-twice", r#"{"a":"1","a":"2"}"#),
        ext("extension-twice-once-escaped", r#"{"a":"1","\u0061":"2"}"#),
        ext(
            "seventeen-extensions",
            &format!("{{{}}}", seventeen.join(",")),
        ),
    ]
}

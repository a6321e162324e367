//! Files that are no published manifest, whatever their body.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
use p256::ecdsa::Signature;

use super::super::forge::*;
use super::{Case, case};

pub(super) fn cases() -> Vec<Case> {
    [shapes(), fields(), encodings(), signatures()]
        .into_iter()
        .flatten()
        .map(|(name, file)| case(name, "malformed", file))
        .collect()
}

type Named = (&'static str, Vec<u8>);

fn shapes() -> Vec<Named> {
    let good = signed(body());
    let manifest = STANDARD.encode(body());
    let two = [ALICE.sign(body()), BOB.sign(body())].join(",");
    vec![
        ("file-is-empty", Vec::new()),
        ("file-is-no-json", b"release".to_vec()),
        ("file-is-null", b"null".to_vec()),
        (
            "file-has-a-bom",
            [b"\xef\xbb\xbf", good.as_bytes()].concat(),
        ),
        (
            "file-is-utf-16",
            good.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        ),
        (
            "file-is-an-array",
            format!(r#"["{manifest}",[{two}]]"#).into_bytes(),
        ),
        (
            "file-has-a-second-object",
            [good.as_bytes(), b"{}"].concat(),
        ),
        (
            "file-ends-early",
            good.as_bytes()[..good.len() - 1].to_vec(),
        ),
        ("file-has-a-nul-behind", [good.as_bytes(), b"\0"].concat()),
        (
            "file-is-very-deep",
            [vec![b'['; 10_000], vec![b']'; 10_000]].concat(),
        ),
    ]
}

fn fields() -> Vec<Named> {
    let good = signed(body());
    let manifest = STANDARD.encode(body());
    let two = [ALICE.sign(body()), BOB.sign(body())].join(",");
    let bend = |from: &str, to: &str| replaced(&good, from, to).into_bytes();
    vec![
        (
            "file-has-an-unknown-field",
            bend(r#"{"manifest""#, r#"{"note":"","manifest""#),
        ),
        (
            "file-has-the-manifest-twice",
            bend(
                r#"{"manifest""#,
                &format!(r#"{{"manifest":"{manifest}","manifest""#),
            ),
        ),
        (
            "file-has-the-signatures-twice",
            bend(r#"{"manifest""#, r#"{"signatures":[],"manifest""#),
        ),
        (
            "file-has-the-manifest-twice-once-escaped",
            bend(
                r#"{"manifest""#,
                &format!(r#"{{"\u006danifest":"{manifest}","manifest""#),
            ),
        ),
        (
            "file-has-no-manifest",
            format!(r#"{{"signatures":[{two}]}}"#).into_bytes(),
        ),
        (
            "file-has-no-signatures",
            format!(r#"{{"manifest":"{manifest}"}}"#).into_bytes(),
        ),
        (
            "file-has-null-signatures",
            format!(r#"{{"manifest":"{manifest}","signatures":null}}"#).into_bytes(),
        ),
        (
            "file-has-a-comment",
            bend(r#"{"manifest""#, r#"{/**/"manifest""#),
        ),
        ("file-has-a-trailing-comma", bend("]}", "],}")),
    ]
}

fn encodings() -> Vec<Named> {
    let body = (0..3)
        .map(|fill| body_with("1.4.0", &format!("1.4.0-pad{}", "x".repeat(fill))))
        .find(|body| body.len() % 3 == 2)
        .unwrap();
    let encoded = STANDARD.encode(&body);
    let encoded_as = |manifest: &str| {
        file(manifest, &[ALICE.sign(&body), BOB.sign(&body)].join(",")).into_bytes()
    };
    let trailing_bits = {
        let symbol = encoded.trim_end_matches('=').chars().last().unwrap();
        // The last symbol carries two bits that no byte needs: its neighbour in the alphabet sets one of them.
        let neighbour = char::from_u32(u32::from(symbol) + 1).unwrap();
        replaced(&encoded, &format!("{symbol}="), &format!("{neighbour}="))
    };
    vec![
        (
            "manifest-without-padding",
            encoded_as(&STANDARD_NO_PAD.encode(&body)),
        ),
        (
            "manifest-with-too-much-padding",
            encoded_as(&format!("{encoded}=")),
        ),
        ("manifest-with-trailing-bits", encoded_as(&trailing_bits)),
        (
            "manifest-with-a-newline",
            encoded_as(&format!("{}\\n{}", &encoded[..76], &encoded[76..])),
        ),
        (
            "manifest-with-a-newline-behind",
            encoded_as(&format!("{encoded}\\n")),
        ),
        (
            "manifest-with-a-space-before",
            encoded_as(&format!(" {encoded}")),
        ),
        ("manifest-in-the-url-alphabet", in_the_url_alphabet()),
        ("manifest-is-empty", encoded_as("")),
        (
            "manifest-is-an-object",
            replaced(&signed(&body), &format!("\"{encoded}\""), &body).into_bytes(),
        ),
        (
            "manifest-is-hexadecimal",
            encoded_as(
                &body
                    .bytes()
                    .map(|byte| format!("{byte:02x}"))
                    .collect::<String>(),
            ),
        ),
    ]
}

/// A body whose base64 has a symbol that the two alphabets write differently.
fn in_the_url_alphabet() -> Vec<u8> {
    let body = (0..3)
        .map(|fill| {
            body_with(
                r#""issuedAt""#,
                &format!(r#""ext":{{"a":"{}>>>???"}},"issuedAt""#, "x".repeat(fill)),
            )
        })
        .find(|body| STANDARD.encode(body).contains(['+', '/']))
        .unwrap();
    file(
        &URL_SAFE.encode(&body),
        &[ALICE.sign(&body), BOB.sign(&body)].join(","),
    )
    .into_bytes()
}

fn signatures() -> Vec<Named> {
    let body = body();
    let pin = BOB.pin().to_string();
    let raw = BOB.raw(&body);
    let encoded = STANDARD.encode(raw);
    let with = |entry: &str| published(&body, &[ALICE.sign(&body), entry.to_owned()]).into_bytes();
    let sig = |text: &str| with(&signature_entry(&pin, text));
    let der = Signature::from_slice(&raw).unwrap().to_der();
    let unpadded = STANDARD_NO_PAD.encode(raw);
    let url_alphabet = "_".repeat(86) + "==";
    vec![
        ("signature-of-63-bytes", sig(&STANDARD.encode(&raw[..63]))),
        (
            "signature-of-65-bytes",
            sig(&STANDARD.encode([raw.as_slice(), &[0]].concat())),
        ),
        ("signature-of-no-bytes", sig("")),
        ("signature-in-der", sig(&STANDARD.encode(der.as_bytes()))),
        ("signature-without-padding", sig(&unpadded)),
        ("signature-in-the-url-alphabet", sig(&url_alphabet)),
        (
            "signature-with-a-newline-behind",
            sig(&format!("{encoded}\\n")),
        ),
        (
            "signature-is-null",
            with(&format!(r#"{{"kid":"{pin}","sig":null}}"#)),
        ),
        (
            "signature-is-a-list-of-numbers",
            with(&format!(r#"{{"kid":"{pin}","sig":[1,2,3]}}"#)),
        ),
        (
            "signature-with-an-unknown-field",
            with(&format!(
                r#"{{"kid":"{pin}","sig":"{encoded}","alg":"none"}}"#
            )),
        ),
        (
            "signature-with-a-field-twice",
            with(&format!(
                r#"{{"kid":"{pin}","sig":"{encoded}","kid":"{pin}"}}"#
            )),
        ),
        (
            "signature-without-kid",
            with(&format!(r#"{{"sig":"{encoded}"}}"#)),
        ),
        (
            "signature-as-an-array",
            with(&format!(r#"["{pin}","{encoded}"]"#)),
        ),
        (
            "signature-whose-kid-is-no-pin",
            with(&signature_entry("bob", &encoded)),
        ),
        (
            "seventeen-signatures",
            published(&body, &vec![ALICE.sign(&body); 17]).into_bytes(),
        ),
    ]
}

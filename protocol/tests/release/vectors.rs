//! The vectors as files, for every crate and for other people's verifiers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use bc_protocol::release::{Trust, verify, verify_installed};
use bc_protocol::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::cases::{self, Case};
use super::forge::{PRODUCT, now, trust};

/// What `table.json` holds: how to judge, and what every file must be judged.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    product: String,
    now: Timestamp,
    trust: Trust,
    expected: BTreeMap<String, String>,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/manifest")
}

fn table_path() -> PathBuf {
    folder().with_file_name("manifest.json")
}

#[test]
fn every_vector_is_judged_as_the_table_says() {
    let table: Table = serde_json::from_slice(&fs::read(table_path()).unwrap()).unwrap();
    for (name, expected) in &table.expected {
        let published = fs::read(folder().join(name)).unwrap();
        let judged = verify(&published, &table.trust, &table.product, table.now);
        let found = judged
            .as_ref()
            .map_or_else(|refusal| refusal.code(), |_| "ok");
        assert_eq!(found, expected, "{name}: {judged:?}");
    }
}

/// Set `BLESS=1` to write the files anew after a case was added.
#[test]
fn the_files_are_the_cases() {
    let made = cases::all();
    if std::env::var_os("BLESS").is_some() {
        write(&made);
    }
    let table: Table = serde_json::from_slice(&fs::read(table_path()).unwrap()).unwrap();
    assert_eq!(table, table_of(&made));
    for case in &made {
        assert_eq!(
            fs::read(folder().join(case.file_name())).unwrap(),
            case.published,
            "{}",
            case.name
        );
    }
    let listed: BTreeSet<&str> = table.expected.keys().map(String::as_str).collect();
    let found: BTreeSet<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(
        found.iter().map(String::as_str).collect::<BTreeSet<_>>(),
        listed
    );
}

#[test]
fn every_case_has_a_name_and_bytes_of_its_own() {
    let made = cases::all();
    let names: BTreeSet<_> = made.iter().map(|case| case.name).collect();
    let bytes: BTreeSet<_> = made.iter().map(|case| &case.published).collect();
    assert_eq!((names.len(), bytes.len()), (made.len(), made.len()));
}

#[test]
fn what_is_installed_is_judged_alike_but_for_its_age() {
    for case in cases::all() {
        let judged = verify_installed(&case.published, &trust(), PRODUCT);
        let found = judged
            .as_ref()
            .map_or_else(|refusal| refusal.code(), |_| "ok");
        let expected = if case.expected == "expired" {
            "ok"
        } else {
            case.expected
        };
        assert_eq!(found, expected, "{}", case.name);
    }
}

fn table_of(made: &[Case]) -> Table {
    let expected = made
        .iter()
        .map(|case| (case.file_name(), case.expected.to_owned()))
        .collect();
    Table {
        product: PRODUCT.to_owned(),
        now: now(),
        trust: trust(),
        expected,
    }
}

fn write(made: &[Case]) {
    let table = serde_json::to_string_pretty(&table_of(made)).unwrap() + "\n";
    let files = made
        .iter()
        .map(|case| (folder().join(case.file_name()), case.published.clone()));
    drop(fs::remove_dir_all(folder()));
    fs::create_dir_all(folder()).unwrap();
    for (path, bytes) in files.chain([(table_path(), table.into_bytes())]) {
        std::io::Write::write_all(&mut fs::File::create(path).unwrap(), &bytes).unwrap();
    }
}

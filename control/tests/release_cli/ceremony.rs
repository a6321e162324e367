//! Keys are made, releases signed and cosigned.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use bc_protocol::digest::Sha256;
use bc_protocol::release::PublicKey;
use bc_protocol::release::sign::SigningKey;
use serde_json::Value;

use crate::desk::{Desk, MANIFEST};

#[test]
fn two_people_make_a_release() {
    let desk = Desk::new();
    desk.sign();
    desk.verify("1", &[]).done();
    desk.verify("2", &[]).refused_for("threshold");
    desk.cosign();
    let shown = desk.verify("2", &["--dir", "release"]).done();
    for expected in [
        "bcd 1.4.0, sequence 14",
        "bcd-linux-amd64",
        "linux-arm64",
        "README.md",
        &desk.pins[0],
        &desk.pins[1],
    ] {
        assert!(shown.contains(expected), "{expected} is not in {shown}");
    }
}

#[test]
fn programs_read_what_was_verified() {
    let desk = Desk::new();
    desk.sign_with(&[
        "--version",
        "1.4.0",
        "--cosigners",
        "b.pub.pem",
        "--ext",
        "build=7",
    ])
    .done();
    desk.cosign();
    let shown: Value =
        serde_json::from_str(&desk.verify("2", &["--output", "json"]).done()).unwrap();
    let sorted = |pins: &[String; 2]| {
        let mut pins = pins.clone();
        pins.sort();
        serde_json::json!(pins)
    };
    let mut signers = shown["signers"].as_array().unwrap().clone();
    signers.sort_by_key(|pin| pin.as_str().unwrap().to_owned());
    assert_eq!(Value::Array(signers), sorted(&desk.pins));
    assert_eq!(
        (&shown["version"], &shown["sequence"]),
        (&"1.4.0".into(), &14.into())
    );
    assert_eq!(shown["ext"], serde_json::json!({ "build": "7" }));
    let digest = Sha256::of(b"the program for one processor").to_string();
    let listed = shown["artifacts"].as_array().unwrap();
    assert!(listed.contains(&serde_json::json!({
        "name": "bcd-linux-amd64", "platform": "linux-amd64", "sha256": digest, "size": 29
    })));
    assert!(
        listed
            .iter()
            .any(|artifact| artifact["name"] == "README.md" && artifact.get("platform").is_none())
    );
}

#[test]
fn a_refusal_for_programs_is_an_object_on_standard_error() {
    let desk = Desk::new();
    desk.sign();
    let refused = desk.verify("2", &["--output", "json"]);
    let error: Value = serde_json::from_str(&refused.err).unwrap();
    assert_eq!((refused.code, refused.out.as_str()), (1, ""));
    assert_eq!(error["error"]["code"], "threshold");
    assert!(
        error["error"]["message"]
            .as_str()
            .unwrap()
            .contains("found 1")
    );
}

#[test]
fn a_key_is_made_for_its_owner_alone() {
    let desk = Desk::new();
    let mode = |name: &str| fs::metadata(desk.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("a.pem"), mode("a.pub.pem") & 0o600), (0o600, 0o600));
    let read = |name: &str| fs::read_to_string(desk.path(name)).unwrap();
    assert_eq!(
        SigningKey::from_pem(&read("a.pem"))
            .unwrap()
            .pin()
            .to_string(),
        desk.pins[0]
    );
    assert_eq!(
        PublicKey::from_pem(&read("a.pub.pem"))
            .unwrap()
            .pin()
            .to_string(),
        desk.pins[0]
    );
    assert_ne!(desk.pins[0], desk.pins[1]);
}

#[test]
fn a_key_is_never_overwritten() {
    let desk = Desk::new();
    let before = fs::read(desk.path("a.pem")).unwrap();
    desk.run(&["keygen", "--out", "a.pem"])
        .refused_for("exists");
    assert_eq!(fs::read(desk.path("a.pem")).unwrap(), before);

    desk.put("c.pub.pem", b"somebody's");
    desk.run(&["keygen", "--out", "c.pem"])
        .refused_for("exists");
    assert_eq!(fs::read(desk.path("c.pub.pem")).unwrap(), b"somebody's");
    assert!(!desk.path("c.pem").exists(), "a refusal left half a key");

    symlink("elsewhere", desk.path("d.pem")).unwrap();
    desk.run(&["keygen", "--out", "d.pem"])
        .refused_for("exists");
    assert!(
        !desk.path("elsewhere").exists(),
        "a key was written through a link"
    );
    desk.run(&["keygen", "--out", "nowhere/e.pem"])
        .refused_for("io");
}

#[test]
fn keys_that_cannot_be_used_are_refused() {
    let desk = Desk::new();
    desk.put(
        "junk.pem",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    );
    desk.put("binary.pem", &[0xff; 100]);
    let sign_by = |key: &str| {
        desk.run(&[
            "sign",
            "release",
            "--product",
            "bcd",
            "--version",
            "1.4.0",
            "--sequence",
            "1",
            "--key",
            key,
        ])
    };
    sign_by("missing.pem").refused_for("io");
    sign_by("binary.pem").refused_for("io");
    sign_by("release").refused_for("io");
    sign_by("junk.pem").refused_for("key");
    sign_by("a.pub.pem").refused_for("key");
    desk.sign_with(&["--version", "1.4.0", "--cosigners", "b.pem"])
        .refused_for("key");
    desk.sign_with(&["--version", "1.4.0", "--cosigners", "missing.pem"])
        .refused_for("io");
    assert!(!desk.path(MANIFEST).exists(), "a refusal left a manifest");
}

#[test]
fn only_listed_keys_cosign() {
    let desk = Desk::new();
    desk.sign();
    let before = desk.published();
    desk.run(&["keygen", "--out", "c.pem"]).done();
    desk.run(&["cosign", MANIFEST, "--key", "c.pem"])
        .refused_for("unlisted-key");
    assert_eq!(desk.published(), before);
}

#[test]
fn cosigning_again_changes_nothing() {
    let desk = Desk::new();
    desk.sign();
    desk.cosign();
    let before = desk.published();
    desk.cosign();
    assert_eq!(desk.published(), before);
    assert_eq!(
        desk.names("release"),
        [
            "README.md",
            "bcd-linux-amd64",
            "bcd_1.4.0_linux_arm64",
            "manifest.json"
        ]
    );
}

#[test]
fn signing_again_does_not_sign_the_manifest() {
    let desk = Desk::new();
    desk.sign();
    desk.put(
        "release/.manifest.json.x7Qf2p",
        b"what a killed signer left behind",
    );
    let shown = desk.sign();
    assert!(
        !shown
            .lines()
            .any(|line| line.contains("bytes") && line.contains("manifest.json")),
        "{shown}"
    );
    desk.verify("1", &["--dir", "release"]).done();
}

#[test]
fn a_second_signer_sees_what_there_is_before_signing() {
    let desk = Desk::new();
    desk.sign();
    let shown = desk.run(&["show", "release"]).done();
    for expected in [
        "bcd 1.4.0, sequence 14",
        &format!("keys that have signed\n  {}\n", desk.pins[0]),
        &format!("keys that have not signed\n  {}\n", desk.pins[1]),
        "3 of its 3 files lie beside it",
    ] {
        assert!(shown.contains(expected), "{expected} is not in {shown}");
    }
    let object = desk.run(&["show", MANIFEST, "--output", "json"]).done();
    let object: Value = serde_json::from_str(&object).unwrap();
    assert_eq!(object["signers"], serde_json::json!([desk.pins[0]]));
    assert_eq!(object["keys"].as_array().unwrap().len(), 2);
}

#[test]
fn nobody_signs_files_that_lie_there_and_are_others() {
    let desk = Desk::new();
    desk.sign();
    let before = fs::read(desk.path(MANIFEST)).unwrap();
    desk.put("release/bcd-linux-amd64", b"the program of somebody else!");
    for command in [
        &["cosign", "release", "--key", "b.pem"][..],
        &["show", "release"],
    ] {
        desk.run(command).refused_for("digest");
    }
    assert_eq!(fs::read(desk.path(MANIFEST)).unwrap(), before);
    // Whoever was given the manifest alone is told that nothing was compared.
    desk.put("alone/manifest.json", &before);
    let told = desk.run(&["cosign", "alone", "--key", "b.pem"]).done();
    assert!(told.contains("none of its files lies beside it"), "{told}");
}

#[test]
fn signing_anew_says_whose_signatures_are_gone() {
    let desk = Desk::new();
    desk.sign();
    desk.cosign();
    let again = desk.sign_with(&["--version", "1.4.0"]).done();
    assert!(
        again.contains("it replaces one that 2 keys had signed: they sign anew"),
        "{again}"
    );
}

#[test]
fn a_key_that_others_can_read_is_worth_a_warning() {
    let desk = Desk::new();
    fs::set_permissions(desk.path("a.pem"), fs::Permissions::from_mode(0o644)).unwrap();
    let told = desk.sign_with(&["--version", "1.4.0"]).done();
    assert!(told.contains("warning: others can read a.pem"), "{told}");
}

#[test]
fn an_expiry_that_is_no_duration_is_told_what_one_is() {
    let desk = Desk::new();
    let refused = desk.sign_with(&["--version", "1.4.0", "--expires", "tomorrow"]);
    assert_eq!(refused.code, 2);
    assert!(
        refused
            .err
            .contains("expected a duration like 90s, 10m or 1h30m"),
        "{refused:?}"
    );
}

//! What is refused, and with which reason.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use bc_protocol::digest::Sha256;
use bc_protocol::release::Artifact;
use bc_protocol::release::sign::{ManifestDraft, SigningKey, cosign, sign};
use bc_protocol::sequence::Sequence;
use bc_protocol::time::Timestamp;
use serde_json::Value;

use crate::desk::{Desk, MANIFEST};

#[test]
fn a_changed_byte_is_refused_wherever_it_is() {
    let desk = Desk::new();
    desk.sign();
    desk.cosign();
    let good = desk.published();
    let after = |marker: &str| {
        let text = String::from_utf8(good.clone()).unwrap();
        text.find(marker).unwrap() + marker.len()
    };
    for (at, byte, reason) in [
        (0, b'[', "malformed"),
        // The first digit of the body, which no longer begins with a brace, and one of a signature.
        (after("\"manifest\":\""), b'A', "malformed"),
        (
            after("\"sig\":\""),
            if good[after("\"sig\":\"")] == b'A' {
                b'B'
            } else {
                b'A'
            },
            "threshold",
        ),
    ] {
        let mut bent = good.clone();
        bent[at] = byte;
        desk.put(MANIFEST, &bent);
        desk.verify("2", &[]).refused_for(reason);
    }
}

#[test]
fn a_changed_body_has_no_signatures() {
    let desk = Desk::new();
    desk.sign();
    desk.cosign();
    let mut published: Value = serde_json::from_slice(&desk.published()).unwrap();
    let mut other: BTreeMap<String, Value> = serde_json::from_value(published.clone()).unwrap();
    desk.sign_with(&["--version", "1.4.1", "--cosigners", "b.pub.pem"])
        .done();
    let newer: Value = serde_json::from_slice(&desk.published()).unwrap();
    published["manifest"] = newer["manifest"].clone();
    desk.put(MANIFEST, published.to_string().as_bytes());
    desk.verify("1", &[]).refused_for("threshold");
    other.insert("note".to_owned(), Value::Null);
    desk.put(MANIFEST, serde_json::to_string(&other).unwrap().as_bytes());
    desk.verify("1", &[]).refused_for("malformed");
}

#[test]
fn a_release_of_something_else_is_refused() {
    let desk = Desk::new();
    desk.run(&[
        "sign",
        "release",
        "--product",
        "other",
        "--version",
        "1.4.0",
        "--sequence",
        "14",
        "--key",
        "a.pem",
    ])
    .done();
    desk.verify("1", &[]).refused_for("product");
    desk.verify("1", &["--product", "other"]).done();
}

#[test]
fn an_older_release_is_refused() {
    let desk = Desk::new();
    desk.sign();
    desk.verify("1", &["--floor", "14"]).done();
    desk.verify("1", &["--floor", "15"]).refused_for("rollback");
}

#[test]
fn an_expired_release_is_refused() {
    let desk = Desk::new();
    let keys = ["a.pem", "b.pem"]
        .map(|name| SigningKey::from_pem(&fs::read_to_string(desk.path(name)).unwrap()).unwrap());
    let draft = ManifestDraft {
        product: "bcd".to_owned(),
        version: "1.4.0".parse().unwrap(),
        sequence: Sequence::new(14).unwrap(),
        issued_at: Timestamp::from_unix(0).unwrap(),
        expires_at: Timestamp::from_unix(1).unwrap(),
        keys: keys.iter().map(|key| key.public().clone()).collect(),
        extensions: BTreeMap::new(),
        artifacts: vec![Artifact::new("bcd".to_owned(), None, Sha256::of(b""), 1).unwrap()],
    };
    let published = cosign(
        &sign(draft.into_body().unwrap(), &keys[0]).unwrap(),
        &keys[1],
    )
    .unwrap();
    desk.put(MANIFEST, &published);
    desk.verify("2", &[]).refused_for("expired");
}

#[test]
fn every_file_must_be_there_as_it_was_signed() {
    let desk = Desk::new();
    desk.sign();
    let program = "release/bcd-linux-amd64";
    let checked = || desk.verify("1", &["--dir", "release"]);
    desk.put(program, b"the program for one processor!");
    checked().refused_for("size");
    desk.put(program, b"The program for one processor");
    checked().refused_for("digest");
    fs::remove_file(desk.path(program)).unwrap();
    checked().refused_for("missing");
    fs::create_dir(desk.path(program)).unwrap();
    checked().refused_for("file");
    desk.verify("1", &[]).done();
    fs::remove_dir(desk.path(program)).unwrap();
    desk.put(program, b"the program for one processor");
    checked().done();
}

#[test]
fn nothing_is_left_out_of_a_release_in_silence() {
    let desk = Desk::new();
    let sign = || desk.sign_with(&["--version", "1.4.0"]);
    fs::create_dir(desk.path("release/more")).unwrap();
    sign().refused_for("file");
    fs::remove_dir(desk.path("release/more")).unwrap();
    symlink("nowhere", desk.path("release/dangling")).unwrap();
    sign().refused_for("io");
    fs::remove_file(desk.path("release/dangling")).unwrap();
    desk.put("release/empty", b"");
    sign().refused_for("artifact");
    assert!(!desk.path(MANIFEST).exists(), "a refusal left a manifest");
    for name in desk.names("release") {
        fs::remove_file(desk.path("release").join(name)).unwrap();
    }
    sign().refused_for("file");
    desk.run(&[
        "sign",
        "nowhere",
        "--product",
        "bcd",
        "--version",
        "1.4.0",
        "--sequence",
        "1",
        "--key",
        "a.pem",
    ])
    .refused_for("io");
}

#[test]
fn what_no_reader_would_accept_is_not_signed() {
    let desk = Desk::new();
    let version = ["--version", "1.4.0"];
    desk.sign_with(&[&version, ["--expires", "0s"].as_slice()].concat())
        .refused_for("never-valid");
    desk.sign_with(&[&version, ["--ext", "!must=1"].as_slice()].concat())
        .refused_for("malformed");
    desk.run(&[
        "sign",
        "release",
        "--product",
        "bcd",
        "--version",
        "1.4.0",
        "--sequence",
        "0",
        "--key",
        "a.pem",
    ])
    .refused_for("malformed");
    assert!(!desk.path(MANIFEST).exists(), "a refusal left a manifest");
}

#[test]
fn what_cannot_be_understood_is_a_mistake_of_usage() {
    let desk = Desk::new();
    for wrong in [
        desk.sign_with(&["--version", "1.4"]),
        desk.sign_with(&["--version", "1.4.0", "--expires", "soon"]),
        desk.sign_with(&["--version", "1.4.0", "--expires", "99999y"]),
        desk.sign_with(&["--version", "1.4.0", "--ext", "novalue"]),
        desk.sign_with(&[]),
        desk.run(&[
            "verify",
            MANIFEST,
            "--pins",
            "sha256/short",
            "--threshold",
            "1",
        ]),
        desk.run(&["verify", MANIFEST, "--threshold", "1"]),
        desk.run(&["keygen"]),
        desk.run(&[]),
    ] {
        assert_eq!(wrong.code, 2, "{wrong:?}");
    }
}

#[test]
fn trust_that_nobody_or_anybody_could_meet_is_refused() {
    let desk = Desk::new();
    desk.sign();
    desk.verify("0", &[]).refused_for("trust");
    desk.verify("3", &[]).refused_for("trust");
    let twice = format!("{0},{0}", desk.pins[0]);
    desk.run(&["verify", MANIFEST, "--pins", &twice, "--threshold", "1"])
        .refused_for("trust");
}

#[test]
fn a_giant_file_is_not_read_to_its_end() {
    let desk = Desk::new();
    desk.put("giant.json", b"{");
    // Sparse: a reader that took it all would need this much memory.
    File::options()
        .write(true)
        .open(desk.path("giant.json"))
        .unwrap()
        .set_len(64 << 30)
        .unwrap();
    desk.run(&[
        "verify",
        "giant.json",
        "--pins",
        &desk.pins[0],
        "--threshold",
        "1",
    ])
    .refused_for("malformed");
    desk.run(&["cosign", "giant.json", "--key", "a.pem"])
        .refused_for("malformed");
}

#[test]
fn a_manifest_can_be_read_by_whoever_serves_it() {
    let desk = Desk::new();
    desk.sign();
    let umask = fs::metadata(desk.path("release/README.md"))
        .unwrap()
        .permissions()
        .mode();
    let mode = |name: &str| fs::metadata(desk.path(name)).unwrap().permissions().mode();
    assert_eq!(mode(MANIFEST), umask);
    fs::set_permissions(desk.path(MANIFEST), Permissions::from_mode(0o400)).unwrap();
    desk.cosign();
    assert_eq!(mode(MANIFEST), umask);
}

#[test]
fn a_release_that_control_would_not_register_is_signed_with_a_warning() {
    let desk = Desk::new();
    desk.put(
        "release/bcd-linux-arm64",
        b"a second program for the same processor",
    );
    let shown = desk.sign_with(&["--version", "1.4.0"]).done();
    assert!(
        shown.contains("warning: control will not register this"),
        "{shown}"
    );
}

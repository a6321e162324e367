//! The release ceremony and every way that it can be refused, with the real program and real files.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use bc_protocol::digest::Sha256;
use bc_protocol::release::sign::{ManifestDraft, SigningKey, cosign, sign};
use bc_protocol::release::{Artifact, PublicKey};
use bc_protocol::sequence::Sequence;
use bc_protocol::time::Timestamp;
use serde_json::Value;
use tempfile::TempDir;

/// A folder with two keys, and a release that the first has signed and the second may.
struct Desk {
    folder: TempDir,
    pins: [String; 2],
}

/// How a command ended, and what it said.
#[derive(Debug)]
struct Ended {
    code: i32,
    out: String,
    err: String,
}

impl Ended {
    fn refused_for(&self, reason: &str) {
        assert_eq!(self.code, 1, "{self:?}");
        assert!(
            self.err.starts_with(&format!("error[{reason}]: ")),
            "{self:?}"
        );
        assert_eq!(self.err.lines().count(), 1, "{self:?}");
    }

    fn done(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{self:?}");
        self.out
    }
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pins = ["a", "b"].map(|name| {
            let made = run(folder.path(), &["keygen", "--out", &format!("{name}.pem")]).done();
            made.trim_end().to_owned()
        });
        let desk = Self { folder, pins };
        desk.put("release/bcd-linux-amd64", b"the program for one processor");
        desk.put("release/bcd_1.4.0_linux_arm64", b"the program for another");
        desk.put("release/README.md", b"read me");
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        File::create(path).unwrap().write_all(bytes).unwrap();
    }

    fn run(&self, args: &[&str]) -> Ended {
        run(self.folder.path(), args)
    }

    fn sign_with(&self, more: &[&str]) -> Ended {
        let usual = [
            "sign",
            "release",
            "--product",
            "bcd",
            "--sequence",
            "14",
            "--key",
            "a.pem",
        ];
        self.run(&[&usual, more].concat())
    }

    fn sign(&self) -> String {
        self.sign_with(&["--version", "v1.4.0", "--cosigners", "b.pub.pem"])
            .done()
    }

    fn cosign(&self) -> String {
        self.run(&["cosign", MANIFEST, "--key", "b.pem"]).done()
    }

    fn verify(&self, threshold: &str, more: &[&str]) -> Ended {
        let pins = self.pins.join(",");
        let usual = [
            "verify",
            MANIFEST,
            "--pins",
            &pins,
            "--threshold",
            threshold,
        ];
        self.run(&[&usual, more].concat())
    }

    fn published(&self) -> Vec<u8> {
        fs::read(self.path(MANIFEST)).unwrap()
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

const MANIFEST: &str = "release/manifest.json";

fn run(folder: &Path, args: &[&str]) -> Ended {
    let mut program = Command::new(env!("CARGO_BIN_EXE_better-compute"));
    // No server, no network, no home: nothing but the folder is there to be used.
    let output = program
        .env_clear()
        .current_dir(folder)
        .arg("release")
        .args(args)
        .output()
        .unwrap();
    Ended {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

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
    desk.sign_with(&[&version, ["--expires", "99999y"].as_slice()].concat())
        .refused_for("expiry");
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

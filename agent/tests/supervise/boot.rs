//! What a node starts with, and what it starts from when much is lost.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use bc_protocol::digest::Sha256;
use bc_protocol::platform::Platform;
use bc_protocol::release::Artifact;
use bc_protocol::release::sign::{ManifestDraft, SigningKey, sign};
use bc_protocol::sequence::Sequence;
use bc_protocol::time::Timestamp;
use serde_json::{Value, json};

use crate::world::{World, program, until};

fn key() -> SigningKey {
    SigningKey::from_scalar(&[7; 32]).unwrap()
}

fn manifest(sequence: u64, digest: Sha256, size: u64) -> Vec<u8> {
    let platform = Platform::host();
    let name = format!("bcd-{platform}");
    let draft = ManifestDraft {
        product: "bcd".to_owned(),
        version: format!("1.{sequence}.0").parse().unwrap(),
        sequence: Sequence::new(sequence).unwrap(),
        issued_at: Timestamp::from_unix(1_700_000_000).unwrap(),
        // Long over: expiry stops new installs, never a start.
        expires_at: Timestamp::from_unix(1_700_000_001).unwrap(),
        keys: vec![key().public().clone()],
        extensions: BTreeMap::new(),
        artifacts: vec![Artifact::new(name, Some(platform), digest, size).unwrap()],
    };
    sign(draft.into_body().unwrap(), &key()).unwrap()
}

/// A machine whose slots hold signed scripts of these sequences, and no record.
fn slots_only(a: u64, b: u64) -> World {
    let world = World::trusting("60s", &[key().pin()]);
    for (slot, sequence) in [("a", a), ("b", b)] {
        let digest = world.script(slot, &format!("exit {sequence}"), 0o755);
        let size = fs::metadata(world.path(&format!("node/slots/{slot}/bcd")))
            .unwrap()
            .len();
        let published = manifest(sequence, digest, size);
        world.put(
            &format!("node/slots/{slot}/release.json"),
            &published,
            0o644,
        );
    }
    world
}

fn status(world: &World) -> Value {
    let output = world.run(&["status", "--output", "json"]);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_new_machine_starts_with_the_packages_binary() {
    let world = World::new("60s");
    let supervisor = world.supervise();
    supervisor.says("a new machine");
    let record = until("the record", || world.read_record());
    let package = fs::read(program()).unwrap();
    assert_eq!(record["confirmed"]["slot"], "a");
    assert_eq!(record["confirmed"]["digest"], json!(Sha256::of(&package)));
    assert_eq!(
        (&record["confirmed"]["sequence"], &record["floor"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(fs::read(world.path("node/slots/a/bcd")).unwrap(), package);
    let status = status(&world);
    assert_eq!(status["running"]["slot"], "a");
    assert_eq!(
        (&status["lastAttempt"], &status["slots"]["b"]),
        (&json!(null), &json!(null))
    );
    assert_eq!(status["session"]["connected"], false);
}

#[test]
fn booting_again_changes_nothing() {
    let world = World::new("60s");
    assert!(world.run(&["boot"]).status.success());
    let first = fs::read(world.path("node/update.json")).unwrap();
    assert!(world.run(&["boot"]).status.success());
    assert_eq!(fs::read(world.path("node/update.json")).unwrap(), first);
}

#[test]
fn a_lost_record_is_made_anew_from_the_newest_signed_slot() {
    for damage in [&b""[..], b"{}", b"nonsense"] {
        let world = slots_only(4, 9);
        world.put("node/update.json", damage, 0o644);
        world.put("node/update.json.1", damage, 0o644);
        assert!(world.run(&["boot"]).status.success());
        let status = status(&world);
        assert_eq!(
            (&status["running"]["slot"], &status["floor"]),
            (&json!("b"), &json!(9))
        );
        assert_eq!(
            (&status["notice"], &status["version"]),
            (&json!("recovered"), &json!("1.9.0"))
        );
    }
}

/// Folders where both copies belong, full ones too: they are set aside.
#[test]
fn folders_in_the_places_of_both_copies_are_in_nobodys_way() {
    let world = slots_only(4, 9);
    for name in [
        "update.json",
        "update.json.1",
        ".update.json.new",
        "current",
    ] {
        world.put(&format!("node/{name}/theirs"), b"", 0o644);
    }
    assert!(world.run(&["boot"]).status.success());
    assert_eq!(world.read_record().unwrap()["floor"], 9);
    assert_eq!(status(&world)["notice"], "recovered");
    assert!(world.path("node/current").is_symlink());
    assert!(world.path("node/.update.json.aside/theirs").exists());
}

/// A record that can be neither read nor written: what the slots prove runs all the same, and says what happened.
#[test]
fn a_record_that_cannot_be_made_anew_keeps_no_signed_binary_from_running() {
    let world = slots_only(4, 9);
    // The way is blocked for whatever would be set aside.
    for name in ["update.json", "update.json.1"] {
        world.put(&format!("node/{name}/theirs"), b"", 0o644);
        world.put(&format!("node/.{name}.aside"), b"", 0o644);
    }
    let booted = world.run(&["boot"]);
    let said = String::from_utf8(booted.stderr).unwrap();
    assert!(booted.status.success(), "{said}");
    assert!(said.contains("the record cannot be written"), "{said}");
    // The script of the newest slot ends with its sequence.
    assert_eq!(world.run(&["exec", "node"]).status.code(), Some(9));
    assert_eq!(
        (&status(&world)["notice"], &status(&world)["floor"]),
        (&json!("recovered"), &json!(9))
    );
}

#[test]
fn a_removed_record_lowers_no_floor() {
    let world = slots_only(4, 9);
    assert!(world.run(&["boot"]).status.success());
    assert_eq!(status(&world)["floor"], 9);
}

#[test]
fn a_slot_that_its_manifest_does_not_cover_proves_nothing() {
    let world = slots_only(4, 9);
    world.script("b", "exit 99", 0o755);
    assert!(world.run(&["boot"]).status.success());
    assert_eq!(
        (&status(&world)["running"]["slot"], &status(&world)["floor"]),
        (&json!("a"), &json!(4))
    );
}

#[test]
fn with_no_proof_left_the_packages_binary_is_what_runs() {
    let world = slots_only(4, 9);
    world.script("a", "exit 98", 0o755);
    world.script("b", "exit 99", 0o755);
    assert!(world.run(&["boot"]).status.success());
    assert_eq!(status(&world)["running"]["sequence"], 0);
    let (slot, package) = (world.path("node/slots/a/bcd"), program());
    assert_eq!(fs::read(slot).unwrap(), fs::read(package).unwrap());
}

#[test]
fn both_slots_damaged_is_a_rescue_and_the_floor_stays() {
    let world = World::new("60s");
    world.script("a", "exit 1", 0o755);
    world.record(Sha256::of(b"what was confirmed"), None);
    assert!(world.run(&["boot"]).status.success());
    let status = status(&world);
    assert_eq!(
        (&status["notice"], &status["floor"]),
        (&json!("rescue"), &json!(1))
    );
    assert_eq!(status["running"]["slot"], json!(null));
    // The package's own binary is what runs: it says what it misses.
    let output = world.run(&["exec", "node"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("join"), "{said}");
}

#[test]
fn the_packages_binary_mends_a_machine_that_never_confirmed_another() {
    let world = World::new("60s");
    assert!(world.run(&["boot"]).status.success());
    world.script("a", "exit 1", 0o755);
    assert!(world.run(&["boot"]).status.success());
    let mended = status(&world);
    assert_eq!(
        (&mended["running"]["slot"], &mended["notice"]),
        (&json!("b"), &json!(null))
    );
    let package = fs::read(program()).unwrap();
    assert_eq!(fs::read(world.path("node/slots/b/bcd")).unwrap(), package);
    let record = fs::read(world.path("node/update.json")).unwrap();
    assert!(world.run(&["boot"]).status.success());
    assert_eq!(fs::read(world.path("node/update.json")).unwrap(), record);
}

#[test]
fn a_pipe_in_a_files_place_is_not_waited_for() {
    for name in ["slots/a/bcd", "slots/b/bcd", "update.json", "update.lock"] {
        let world = World::new("60s");
        assert!(world.run(&["boot"]).status.success());
        let path = world.path(&format!("node/{name}"));
        // Not every one is there: slot b is still empty.
        fs::remove_file(&path).ok();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(world.run(&["boot"]).status.success(), "{name}");
        // What came with the package is put into the other slot again.
        assert_eq!(status(&world)["notice"], json!(null), "{name}");
        assert!(
            world.run(&["exec", "node"]).status.code() == Some(1),
            "{name}"
        );
    }
}

#[test]
fn a_file_in_a_folders_place_stops_no_healthy_binary() {
    for (name, notice) in [
        ("slots/b", json!(null)),
        ("slots/a", json!(null)),
        ("slots", json!("rescue")),
        ("state", json!(null)),
    ] {
        let world = World::new("60s");
        assert!(world.run(&["boot"]).status.success());
        fs::remove_dir_all(world.path(&format!("node/{name}"))).unwrap();
        world.put(&format!("node/{name}"), b"", 0o644);
        assert!(world.run(&["boot"]).status.success(), "{name}");
        assert_eq!(status(&world)["notice"], notice, "{name}");
    }
}

#[test]
fn a_confirmed_binary_that_lost_its_mode_is_executable_again() {
    let world = World::new("60s");
    assert!(world.run(&["boot"]).status.success());
    let binary = world.path("node/slots/a/bcd");
    let bytes = fs::read(&binary).unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(world.run(&["boot"]).status.success());
    let mode = fs::metadata(&binary).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
    assert_eq!(fs::read(&binary).unwrap(), bytes);
    assert_eq!(status(&world)["notice"], json!(null));
}

#[test]
fn any_bytes_in_the_nodes_folder_end_in_a_start_or_a_documented_status() {
    for bytes in [
        &b""[..],
        b"\0\0\0\0",
        b"[]",
        b"{\"sha256\":\"\",\"record\":{}}",
        &[0xff; 9000],
    ] {
        let world = World::new("60s");
        assert!(world.run(&["boot"]).status.success());
        for name in [
            "update.json",
            "update.json.1",
            "state/trial.json",
            "state/node-spec.json",
            "state/session.json",
            "state/connect-seq",
            "identity/node.json",
            "slots/a/release.json",
        ] {
            world.put(&format!("node/{name}"), bytes, 0o600);
        }
        assert!(world.run(&["boot"]).status.success());
        assert!(world.run(&["status"]).status.success());
        for command in [&["preflight"][..], &["exec", "node"]] {
            assert_eq!(world.run(command).status.code(), Some(1), "{command:?}");
        }
    }
}

#[test]
fn a_process_whose_parent_is_another_does_not_start() {
    let world = World::new("60s");
    assert!(world.run(&["boot"]).status.success());
    let output = world.run(&["exec", "node", "--die-with-parent", "1"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("expected to die with process 1"), "{said}");
}

#[test]
fn a_wrong_configuration_has_its_own_status() {
    let world = World::new("60s");
    world.put("bcd.toml", b"contrl = 1\n", 0o644);
    for command in ["boot", "supervise", "preflight", "status", "node"] {
        let output = world.run(&[command]);
        assert_eq!(output.status.code(), Some(3), "{command}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("bcd.toml:1: contrl: unknown field"), "{said}");
    }
}

/// `LimitFSIZE=` of a unit, or a shell's own.
#[test]
fn a_file_that_may_not_grow_is_an_error_and_no_signal() {
    let world = World::new("60s");
    let command = world.command(&["boot"]);
    let limited = Command::new("sh")
        .args(["-c", "ulimit -f 0 && exec \"$0\" \"$@\""])
        .arg(command.get_program())
        .args(command.get_args())
        .output()
        .unwrap();
    assert_eq!(limited.status.code(), Some(1), "{limited:?}");
    let said = String::from_utf8(limited.stderr).unwrap();
    assert!(said.contains("File too large"), "{said}");
    assert!(world.run(&["boot"]).status.success());
}

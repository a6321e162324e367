//! What a binary that has not proven itself is left with.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::unistd::geteuid;
use tempfile::TempDir;

const BCD: &str = env!("CARGO_BIN_EXE_bcd");

const NOBODY: u32 = 65_534;

/// A folder that nobody but its owner gets into, with a script in it.
fn script(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script");
    let mut file = File::create(&path).unwrap();
    file.write_all(format!("#!/bin/sh\n{text}\n").as_bytes())
        .unwrap();
    file.set_permissions(Permissions::from_mode(0o755)).unwrap();
    (folder, path)
}

fn confine(binary: &Path, folder: &Path) -> Command {
    let mut command = Command::new(BCD);
    command.arg("confine").arg("--binary").arg(binary);
    command.arg("--folder").arg(folder);
    if geteuid().is_root() {
        let nobody = NOBODY.to_string();
        command.args(["--user", &nobody, "--group", &nobody]);
    }
    command.args(["--", "word", "another word"]);
    command
}

fn said(output: &Output) -> String {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {complaint}", output.status);
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The lines of /proc/self/status and of a shell's own words, by name.
fn facts(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .map(|(name, value)| {
            let words: Vec<_> = value.split_whitespace().collect();
            (name.to_owned(), words.join(" "))
        })
        .collect()
}

#[test]
fn nothing_is_left_of_what_its_parent_may() {
    let (folder, binary) = script(
        "cat /proc/$$/status; echo \"words:$*\"; echo \"here:$(pwd)\"; echo \"core:$(ulimit -c)\"; \
         echo \"files:$(ulimit -n)\"; for fd in /proc/$$/fd/*; do readlink $fd; done | grep secret && echo \"open:yes\"; true",
    );
    let secret = folder.path().join("secret");
    let secret = File::create(secret).unwrap();
    // What a careless parent leaves open.
    fcntl(&secret, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let inside = folder.path().join("inside");
    fs::create_dir(&inside).unwrap();
    if geteuid().is_root() {
        chown(&inside, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let facts = facts(&said(&confine(&binary, &inside).output().unwrap()));
    if geteuid().is_root() {
        let everywhere = "65534 65534 65534 65534";
        assert_eq!(
            (facts["Uid"].as_str(), facts["Gid"].as_str()),
            (everywhere, everywhere)
        );
        assert_eq!(facts["Groups"], "");
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(facts[set], "0000000000000000", "{set}");
        }
        assert!(secret.as_raw_fd() > 2);
    }
    assert_eq!(facts["NoNewPrivs"], "1");
    assert_eq!(facts["words"], "word another word");
    assert_eq!(facts["here"], inside.to_str().unwrap());
    assert_eq!(
        (facts["core"].as_str(), facts["files"].as_str()),
        ("0", "64")
    );
    assert!(!facts.contains_key("open"), "a descriptor was inherited");
}

#[test]
fn nothing_can_be_written_and_nothing_of_roots_be_read() {
    let (folder, binary) = script(
        "cat secret >/dev/null 2>&1 && echo read:yes; echo bytes > inside/file && echo written:yes; echo end:yes",
    );
    let secret = folder.path().join("secret");
    let file = File::create(&secret).unwrap();
    file.set_permissions(Permissions::from_mode(0o600)).unwrap();
    let inside = folder.path().join("inside");
    fs::create_dir(&inside).unwrap();
    fs::set_permissions(&inside, Permissions::from_mode(0o777)).unwrap();
    let output = confine(&binary, folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(facts(&text).contains_key("read"), !geteuid().is_root());
    assert!(!text.contains("written"), "{text}");
    assert!(fs::read(inside.join("file")).unwrap_or_default().is_empty());
}

#[test]
fn what_cannot_be_executed_has_its_own_status() {
    let (folder, binary) = script("exit 0");
    fs::set_permissions(&binary, Permissions::from_mode(0o644)).unwrap();
    for path in [binary, folder.path().join("none"), folder.path().to_owned()] {
        let output = confine(&path, folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(126), "{path:?}");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(complaint.contains("expected to execute"), "{complaint}");
    }
}

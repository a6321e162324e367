//! What is shipped: packages that are the same wherever they are made, and a release that control takes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use packaging::{
    build::{self, AgentBuild, Shipping, Target},
    dist::{self, Compression, Signing, Sources},
    fleet::{Fleet, Patience, Plan},
};
use serde_json::Value;

/// When everything was made, as far as anybody can tell.
const EPOCH: u64 = 1_700_000_000;

fn shipping(version: &str) -> Shipping {
    Shipping {
        version: version.to_owned(),
        epoch: EPOCH,
        target: Target::here(),
    }
}

/// What a program says, which has to be there where everything is required; otherwise nothing.
fn said(program: &str, words: &[&str]) -> Option<String> {
    if !dist::has(program) {
        assert!(
            std::env::var_os("BCD_TESTS_REQUIRE_EVERYTHING").is_none(),
            "{program} is missing"
        );
        return None;
    }
    let output = Command::new(program)
        .args(words)
        .env("TZ", "UTC")
        .output()
        .unwrap();
    assert!(output.status.success(), "{program}: {output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Programs of a few bytes: what is packed makes no difference.
fn programs(dir: &Path) -> Sources {
    std::fs::create_dir_all(dir).unwrap();
    let make = |name: &str| {
        let path = dir.join(name);
        // Another time and other rights than what they are packed with.
        std::fs::copy("/bin/true", &path).unwrap();
        path
    };
    let manuals = dir.join("manuals");
    for name in ["bcd", "bc-gateway", "better-compute"] {
        let pages = manuals.join(name);
        std::fs::create_dir_all(&pages).unwrap();
        std::fs::copy("/proc/version", pages.join(format!("{name}.1"))).unwrap();
    }
    Sources {
        agent: make("agent"),
        gateway: make("gateway"),
        control: make("control"),
        manuals,
    }
}

fn packed(dir: &Path) -> Vec<PathBuf> {
    std::fs::create_dir_all(dir).unwrap();
    let sources = programs(&dir.join("built"));
    dist::packages(dir, &sources, (Compression::Best, &shipping("1.4.0-rc.1"))).unwrap()
}

#[test]
fn packages_do_not_depend_on_where_and_when_they_are_made() {
    if said("dpkg-deb", &["--version"]).is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let first = packed(&dir.path().join("one"));
    let again = packed(&dir.path().join("another/folder/further/down"));
    assert!(first.len() >= 3, "{first:?}");
    for (one, other) in first.iter().zip(&again) {
        assert_eq!(one.file_name(), other.file_name());
        assert!(
            std::fs::read(one).unwrap() == std::fs::read(other).unwrap(),
            "{} differs",
            one.display()
        );
    }
}

#[test]
fn everything_in_a_package_is_roots_and_as_old_as_the_checkout() {
    let dir = tempfile::tempdir().unwrap();
    if said("dpkg-deb", &["--version"]).is_none() || said("rpm", &["--version"]).is_none() {
        return;
    }
    for package in packed(dir.path()) {
        let file = package.to_str().unwrap();
        if file.ends_with(".deb") {
            for line in said("dpkg-deb", &["--contents", file]).unwrap().lines() {
                assert!(line.contains(" root/root "), "{file}: {line}");
                assert!(line.contains(" 2023-11-14 22:13 "), "{file}: {line}");
            }
            // The control archive is dated too: what is in it is read by every tool that compares packages.
            let version = said("dpkg-deb", &["--field", file, "Version"]).unwrap();
            assert_eq!(version.trim(), "1.4.0~rc.1");
        } else {
            let each = "[%{FILEUSERNAME} %{FILEGROUPNAME} %{FILEMTIMES} %{FILENAMES}\n]";
            let words = ["--query", "--package", "--queryformat", each, file];
            for line in said("rpm", &words).unwrap().lines() {
                assert!(line.starts_with("root root 1700000000 /usr/"), "{line}");
            }
            let built = "%{VERSION} %{BUILDTIME} %{BUILDHOST} %{SOURCERPM}";
            let words = ["--query", "--package", "--queryformat", built, file];
            let built = said("rpm", &words).unwrap();
            assert!(
                built.starts_with("1.4.0~rc.1 1700000000 reproducible "),
                "{built}"
            );
        }
    }
}

#[test]
fn a_package_brings_its_own_pages_and_no_others() {
    if said("dpkg-deb", &["--version"]).is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let node = packed(dir.path()).remove(0);
    let listed = said("dpkg-deb", &["--contents", node.to_str().unwrap()]).unwrap();
    let pages: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split("/man/man1/").nth(1))
        .filter(|page| !page.is_empty())
        .collect();
    assert_eq!(pages, ["bcd.1.gz"]);
}

/// Units leave older binaries more rights, and know them by what they do not hold: every newer one has to hold it.
#[tokio::test(flavor = "multi_thread")]
async fn a_binary_names_where_others_are_tried_out() {
    let script = include_str!("../systemd/older.sh");
    let word = script
        .split_whitespace()
        .find(|word| word.ends_with("preflight.sock"))
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let agent = dir.path().join("bcd");
    let built = AgentBuild {
        version: "6.5.4",
        fault: None,
    };
    build::agent(built, &agent).await.unwrap();
    let found = Command::new("grep")
        .args(["-q", "-F", word])
        .arg(&agent)
        .status()
        .unwrap();
    assert!(found.success(), "the agent does not hold {word}");
    let listens = include_str!("../systemd/bcd-preflight.socket");
    assert!(listens.contains(&format!("ListenStream={word}\n")));
}

/// What `dist` signs is what `releases register` takes, as it lies.
#[tokio::test(flavor = "multi_thread")]
async fn control_takes_the_release_folder() {
    let dir = tempfile::tempdir().unwrap();
    let programs = build::programs().await.unwrap();
    let agent = dir.path().join("bcd");
    let version = "6.5.4";
    let built = AgentBuild {
        version,
        fault: None,
    };
    build::agent(built, &agent).await.unwrap();
    let plan = Plan {
        pools: Vec::new(),
        patience: Patience {
            watchdog: Duration::from_secs(20),
            stable: Duration::from_secs(1),
        },
    };
    let fleet = Fleet::start(programs.clone(), &agent, &plan).await.unwrap();
    let out = dir.path().join("dist");
    std::fs::create_dir_all(&out).unwrap();
    let signed = |keys: &[PathBuf], sequence| {
        let signing = Signing {
            sequence,
            keys: keys.to_vec(),
        };
        let signing = Some((&*programs.control, &signing));
        let made = dist::release(&out, &agent, &shipping(version), signing).unwrap();
        made.join("manifest.json").to_str().unwrap().to_owned()
    };
    let keys = fleet.keys.files();
    // One of two signers is not enough.
    let half = signed(&keys[..1], 1);
    assert!(
        fleet
            .operator
            .run(&["releases", "register", &half])
            .is_err()
    );
    let whole = signed(keys, 1);
    fleet
        .operator
        .run(&["releases", "register", &whole])
        .unwrap();
    let taken = fleet.operator.json(&["releases", "get", version]).unwrap();
    assert_eq!(taken.pointer("/version"), Some(&Value::from(version)));
    let list: Value =
        serde_json::from_slice(&std::fs::read(out.join("release/sbom.cdx.json")).unwrap()).unwrap();
    let names: Vec<_> = list["components"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|component| component["name"].as_str())
        .collect();
    for name in ["bcd", "rustls", "ring", "sqlx", "bc-protocol"] {
        assert!(names.contains(&name), "{name} is not in the list");
    }
}

//! What the units leave open, by systemd's own measure.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use std::path::Path;
use std::process::Command;

/// The folder of units.
const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/systemd");

/// Whether systemd-analyze is here. Where everything is required, it has to be.
fn can_be_measured() -> bool {
    let there = Command::new("systemd-analyze").arg("--version").output();
    if there.is_ok_and(|output| output.status.success()) {
        return true;
    }
    assert!(
        std::env::var_os("BCD_TESTS_REQUIRE_EVERYTHING").is_none(),
        "systemd-analyze is missing"
    );
    false
}

/// At most that many tenths are left open.
fn assert_exposure(unit: &Path, tenths: u32) {
    let output = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager"])
        .arg(format!("--threshold={tenths}"))
        .arg(unit)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}:\n{said}", unit.display());
}

#[test]
fn units_leave_open_no_more_than_they_need() {
    if !can_be_measured() {
        return;
    }
    for (unit, tenths) in [
        ("bc-gateway.service", 12),
        ("better-compute.service", 12),
        ("bcd-helper.service", 10),
        ("bcd.service", 18),
        ("bcd-preflight@.service", 10),
        ("bcd-watchdog.service", 19),
    ] {
        assert_exposure(&Path::new(UNITS).join(unit), tenths);
    }
}

#[test]
fn a_node_without_rights_leaves_open_least() {
    if !can_be_measured() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("bcd.service");
    std::fs::copy(Path::new(UNITS).join("bcd.service"), &unit).unwrap();
    let further = folder.path().join("bcd.service.d");
    std::fs::create_dir(&further).unwrap();
    let from = Path::new(UNITS).join("unprivileged.conf");
    std::fs::copy(from, further.join("unprivileged.conf")).unwrap();
    assert_exposure(&unit, 12);
}

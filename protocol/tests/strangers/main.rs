//! What strangers send, held against what must be true of it whatever it is.
//!
//! The same properties are the fuzz targets of `packaging/fuzz`; here they meet the inputs that are kept there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod envelope;
mod link_frame;
mod manifest;
mod session_frame;

use std::fs;
use std::path::PathBuf;

/// Holds the property for every input that is kept for it.
fn check(target: &str, hold: fn(&[u8])) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../packaging/fuzz/corpus")
        .join(target);
    let mut held = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        hold(&fs::read(entry.unwrap().path()).unwrap());
        held += 1;
    }
    assert!(held > 3, "expected inputs in {}", folder.display());
}

#[test]
fn bodies() {
    check("manifest", manifest::hold);
}

#[test]
fn published_files() {
    check("envelope", envelope::hold);
}

#[test]
fn frames_of_a_session() {
    check("session-frame", session_frame::hold);
}

#[test]
fn frames_of_a_link() {
    check("link-frame", link_frame::hold);
}

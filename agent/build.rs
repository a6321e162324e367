//! When this machine began to build the agent, for builds that SOURCE_DATE_EPOCH does not date.
//!
//! Run once a target folder, so that builds of several versions share everything but `main.rs`.

use std::time::{SystemTime, UNIX_EPOCH};

#[expect(clippy::disallowed_methods, reason = "a build has no clock module")]
fn main() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.map_or(0, |since| since.as_secs());
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=BCD_BUILT={seconds}");
}

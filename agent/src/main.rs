//! The program `bcd`. Only what differs from one build to the next is here: the rest is the library.

use std::process::ExitCode;

use bcd::Build;

/// When it was built, in seconds since 1970.
const BUILT: i64 = seconds_of(match option_env!("SOURCE_DATE_EPOCH") {
    Some(date) => date,
    None => env!("BCD_BUILT"),
});

fn main() -> ExitCode {
    bcd::run(Build {
        version: option_env!("BCD_VERSION").unwrap_or(env!("CARGO_PKG_VERSION")),
        built: BUILT,
        #[cfg(feature = "faults")]
        fault: option_env!("BCD_FAULT"),
    })
}

/// Worked out while this is built, where a date that is none has to show.
#[expect(clippy::panic, reason = "it ends a build, never a process")]
const fn seconds_of(date: &str) -> i64 {
    match i64::from_str_radix(date, 10) {
        Ok(seconds) => seconds,
        Err(_) => panic!("expected SOURCE_DATE_EPOCH to be seconds since 1970"),
    }
}

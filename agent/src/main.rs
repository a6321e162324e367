//! The program `bcd`. Only what differs from one build to the next is here: the rest is the library.

use std::process::ExitCode;

use bcd::Build;

fn main() -> ExitCode {
    bcd::run(Build {
        version: option_env!("BCD_VERSION").unwrap_or(env!("CARGO_PKG_VERSION")),
        #[cfg(feature = "faults")]
        fault: option_env!("BCD_FAULT"),
    })
}

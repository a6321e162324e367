//! The agent of one node: it keeps a session with a gateway, and replaces itself safely.
//!
//! The program hands in what it was built as, and the library does the rest, so that a build of another version
//! compiles nothing but `main.rs` anew.

mod account;
#[cfg(test)]
mod authority;
mod changes;
mod cli;
mod clock;
mod config;
mod confinement;
mod content;
mod dial;
mod doctor;
mod durable;
mod faults;
mod footprint;
mod hangup;
mod helper;
mod hold;
mod http;
mod identity;
mod join;
mod labels;
mod logs;
mod manager;
mod node;
mod paths;
mod shown;
#[cfg(feature = "simulation")]
pub mod simulation;
mod slots;
#[cfg(any(test, feature = "faults"))]
pub mod strangers;
mod supervise;
mod tls;
mod updater;
mod watchdog;

use std::process::ExitCode;

use nix::sys::signal::{SigSet, Signal};

/// What this program was built as. A node reports the version of the image that runs, never that of a file.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// The version, as people name it.
    pub version: &'static str,
    /// When it was built, in seconds since 1970: no clock that shows less is right.
    pub built: i64,
    /// The deliberate misbehaviour to show, by its name.
    #[cfg(feature = "faults")]
    pub fault: Option<&'static str>,
}

/// What the command line understands. No build of the program calls it: the manual is made of it when packages are.
#[must_use]
pub fn command() -> clap::Command {
    cli::tree()
}

/// Does what the command line says; the exit codes are listed in `bcd --help`.
#[must_use]
pub fn run(build: Build) -> ExitCode {
    clock::never_before(build.built);
    let refused = make_outgrown_files_errors();
    if let Err(error) = refused {
        tracing::debug!(%error, "the signal for outgrown files cannot be held back");
    }
    cli::run(build)
}

/// Where files may only grow so far (`LimitFSIZE=`), a write beyond that is to fail like one to a full disk. The kernel
/// would end the process instead, in the middle of whatever it does, and at every start again. Held back and not ignored:
/// whom this process starts gets an empty mask and the kernel's way again.
fn make_outgrown_files_errors() -> nix::Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGXFSZ);
    signals.thread_block()
}

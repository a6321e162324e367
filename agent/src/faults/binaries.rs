//! New binaries that are no good: what they do as soon as they are started.
//!
//! Takes the node's folder; gives nothing, and mostly does not come back.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::thread;

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal};

use super::{Fault, planted};
use crate::durable::{self, Mode};
use crate::paths::Paths;

/// Memory that one that eats it may have: enough to start, and no harm to the machine.
const MEMORY_BYTES_MAX: u64 = 512 << 20;

/// Descriptors that one that eats them may have.
const DESCRIPTORS_MAX: u64 = 64;

/// Does what is planted, where it is about a start.
pub(crate) fn misbehave(paths: &Paths) {
    if planted(Fault::ExitsAtOnce) {
        std::process::exit(7);
    }
    if planted(Fault::CrashesAtOnce) {
        std::process::abort();
    }
    if planted(Fault::HangsAtOnce) {
        hang();
    }
    if planted(Fault::EatsMemory) {
        eat_memory();
    }
    if planted(Fault::EatsDescriptors) {
        eat_descriptors();
    }
    if planted(Fault::WritesNewerState) {
        write_newer_state(paths);
    }
}

/// Also where it is asked politely.
fn hang() {
    let mut polite = SigSet::empty();
    polite.add(Signal::SIGTERM);
    polite.thread_block().ok();
    loop {
        thread::park();
    }
}

fn eat_memory() {
    if setrlimit(Resource::RLIMIT_AS, MEMORY_BYTES_MAX, MEMORY_BYTES_MAX).is_err() {
        return;
    }
    let mut eaten = VecDeque::new();
    loop {
        eaten.push_back(vec![1_u8; 1 << 20]);
    }
}

fn eat_descriptors() {
    setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS_MAX, DESCRIPTORS_MAX).ok();
    while let Ok(file) = File::open("/dev/null") {
        std::mem::forget(file);
    }
}

fn write_newer_state(paths: &Paths) {
    for entry in fs::read_dir(paths.state()).into_iter().flatten().flatten() {
        let newer = br#"{"format":99,"of":"a newer agent"}"#;
        if entry.path().is_file() {
            durable::replace_file(&entry.path(), newer, Mode::Private).ok();
        }
    }
    std::process::exit(8);
}

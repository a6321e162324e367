//! Which processors a process or a thread runs on, and who goes first there.
//!
//! Load on the machine that is looked at stands for other machines: it is kept apart as far as that goes, by the
//! programs that every Linux has for it.

use std::{
    fs,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

/// Lets all threads of a process run on these processors alone, as `taskset` writes them.
pub fn confine(pid: u32, to: &str) -> Result<()> {
    told("taskset", &["--all-tasks", "--cpu-list", "--pid", to], pid)
}

/// From now on this thread runs before any that is no more than usual; for root alone.
pub fn go_first() -> Result<()> {
    told("chrt", &["--rr", "--pid", "1"], this_thread()?)
}

/// From now on this thread runs when no other wants to.
pub fn stand_aside() -> Result<()> {
    told("chrt", &["--idle", "--pid", "0"], this_thread()?)
}

fn this_thread() -> Result<u32> {
    let link = fs::read_link("/proc/thread-self")?;
    let name = link.file_name().and_then(|name| name.to_str());
    Ok(name.context("expected a thread")?.parse()?)
}

fn told(program: &str, words: &[&str], whom: u32) -> Result<()> {
    let done = Command::new(program)
        .args(words)
        .arg(whom.to_string())
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("run {program}"))?;
    ensure!(done.success(), "expected {program} to take {whom}");
    Ok(())
}

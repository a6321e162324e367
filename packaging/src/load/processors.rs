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

/// The same for this thread, which from now on also gives way to every other at once.
pub fn stand_aside(on: &str) -> Result<()> {
    let link = fs::read_link("/proc/thread-self")?;
    let name = link.file_name().and_then(|name| name.to_str());
    let thread = name.context("expected a thread")?.parse()?;
    told("taskset", &["--cpu-list", "--pid", on], thread)?;
    told("chrt", &["--idle", "--pid", "0"], thread)
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

//! What the kernel tells about a process.

use std::fs;

use anyhow::{Context, Result};

/// What a process has used so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    /// Times that one of its threads waited for something and was woken.
    pub(super) wakeups: u64,
    /// Nanoseconds on a processor.
    pub(super) cpu_ns: u64,
}

/// Its memory now: its own, and what it has mapped of files.
pub(super) fn rss_kib(pid: i32) -> Result<u64> {
    status(pid, "VmRSS:")
}

/// The most memory that it has had since [`forget_peak`].
pub(super) fn peak_kib(pid: i32) -> Result<u64> {
    status(pid, "VmHWM:")
}

/// Who traces it; 0 while nobody does.
pub(super) fn tracer(pid: i32) -> Result<u64> {
    status(pid, "TracerPid:")
}

/// Makes the memory that it has now the most that it has had.
pub(super) fn forget_peak(pid: i32) -> Result<()> {
    super::write(format!("/proc/{pid}/clear_refs").as_ref(), b"5")
}

/// Bytes that it has made the disk write; what was removed before it got there is none.
pub(super) fn written(pid: i32) -> Result<u64> {
    let io = fs::read_to_string(format!("/proc/{pid}/io"))?;
    Ok(number(&io, "write_bytes:")?.saturating_sub(number(&io, "cancelled_write_bytes:")?))
}

/// What all its threads together have used.
pub(super) fn used(pid: i32) -> Result<Used> {
    let mut used = Used {
        wakeups: 0,
        cpu_ns: 0,
    };
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let folder = thread?.path();
        let status = fs::read_to_string(folder.join("status"))?;
        used.wakeups += number(&status, "voluntary_ctxt_switches:")?;
        let scheduled = fs::read_to_string(folder.join("schedstat"))?;
        let on_cpu = scheduled.split_whitespace().next();
        used.cpu_ns += on_cpu
            .context("the kernel keeps no schedstat")?
            .parse::<u64>()?;
    }
    Ok(used)
}

fn status(pid: i32, key: &str) -> Result<u64> {
    number(&fs::read_to_string(format!("/proc/{pid}/status"))?, key)
}

fn number(text: &str, key: &str) -> Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let word = line.and_then(|line| line.split_whitespace().next());
    Ok(word
        .with_context(|| format!("the kernel tells no {key}"))?
        .parse()?)
}

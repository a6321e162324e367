//! What the kernel tells about a process.

use std::fs;

use anyhow::{Context, Result};

/// What a process has used so far.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Used {
    /// Times that one of its threads waited for something and was woken.
    pub(super) wakeups: u64,
    /// Nanoseconds on a processor.
    pub(in crate::bench) cpu_ns: u64,
}

/// Its memory now: its own, and what it has mapped of files.
pub(in crate::bench) fn rss_kib(pid: i32) -> Result<u64> {
    status(pid, "VmRSS:")
}

/// What it has of memory that is no file's; what it shares counts by its share.
pub(in crate::bench) fn anonymous_kib(pid: i32) -> Result<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    number(&rollup, "Pss_Anon:")
}

/// The kernel's own memory, of all that goes on.
pub(in crate::bench) fn slab_kib() -> Result<u64> {
    number(&fs::read_to_string("/proc/meminfo")?, "Slab:")
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
pub(in crate::bench) fn used(pid: i32) -> Result<Used> {
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

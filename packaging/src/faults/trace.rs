//! System calls of one command, as strace counts them.

use std::{path::Path, process::Command};

use anyhow::{Context, Result};

use super::{passed_over, script::Step, yard::Yard};

/// One call: the `number`th of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) number: usize,
    /// Whether it changes something on the disk.
    pub(super) changes: bool,
    /// Whether a disk can make it fail.
    pub(super) is_fallible: bool,
}

/// Calls that change the disk by their very name.
const CHANGING: [&str; 20] = [
    "write",
    "pwrite64",
    "writev",
    "copy_file_range",
    "sendfile",
    "fsync",
    "fdatasync",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
    "symlink",
    "symlinkat",
    "fchmod",
    "fchmodat",
    "ftruncate",
    "flock",
];

/// Calls that can fail for reasons of the disk.
const FALLIBLE: [&str; 13] = [
    "open",
    "openat",
    "read",
    "pread64",
    "stat",
    "lstat",
    "fstat",
    "newfstatat",
    "statx",
    "lseek",
    "readlink",
    "getdents64",
    "access",
];

impl Call {
    /// What makes strace do `what` at this call.
    pub(super) fn injected(&self, what: &str) -> Vec<String> {
        ["strace", "-f", "-qq", "-o", "/dev/null"]
            .map(str::to_owned)
            .into_iter()
            .chain(self.injection(what))
            .collect()
    }

    /// The part of strace's words that says so.
    pub(super) fn injection(&self, what: &str) -> [String; 4] {
        let Self { name, number, .. } = self;
        [
            "-e".to_owned(),
            format!("trace={name}"),
            "-e".to_owned(),
            format!("inject={name}:{what}:when={number}"),
        ]
    }
}

/// Whether strace works here.
pub(super) fn is_there() -> Result<bool> {
    let tried = Command::new("strace")
        .args(["-qq", "-o", "/dev/null", "true"])
        .status();
    match tried {
        Ok(status) if status.success() => Ok(true),
        Ok(status) => passed_over("kills and errors", &format!("strace ended with {status}")),
        Err(error) => passed_over("kills and errors", &format!("no strace: {error}")),
    }
}

/// The calls that a step makes on a folder, from when it has found its configuration on. Before that it has touched
/// nothing.
pub(super) fn calls(yard: &Yard, state: &Path, step: &Step) -> Result<Vec<Call>> {
    let file = yard.folder.join("trace");
    let strace = ["strace", "-f", "-qq", "-o", &crate::fleet::text(&file)?].map(str::to_owned);
    yard.run(state, step, &strace)?;
    let text = std::fs::read_to_string(&file).context("read the trace")?;
    // The process id comes first in every line.
    let lines = text
        .lines()
        .filter_map(|line| Some(line.split_once(' ')?.1));
    let mut begun = false;
    let calls = counted(lines).filter(|(call, arguments)| {
        begun |= arguments.contains("bcd.toml") && call.name.starts_with("open");
        begun
    });
    Ok(calls.map(|(call, _)| call).collect())
}

/// The calls of a trace of one thread.
pub(super) fn numbered(text: &str) -> Vec<Call> {
    counted(text.lines()).map(|(call, _)| call).collect()
}

/// Calls with their arguments, each with its number among those of its name.
fn counted<'a>(lines: impl Iterator<Item = &'a str>) -> impl Iterator<Item = (Call, &'a str)> {
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    lines
        .filter_map(call_of)
        .filter(|(name, _)| *name != "exit_group")
        .map(move |(name, arguments)| {
            let number = counts.entry(name.to_owned()).or_default();
            *number += 1;
            let call = Call {
                name: name.to_owned(),
                number: *number,
                changes: changes(name, arguments),
                is_fallible: is_fallible(name, arguments),
            };
            (call, arguments)
        })
}

fn call_of(line: &str) -> Option<(&str, &str)> {
    let (name, arguments) = line.trim_start().split_once('(')?;
    let is_name = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_name && !name.is_empty()).then_some((name, arguments))
}

/// Whether a line of a trace is about a call that was made to fail.
pub(super) fn is_injected(line: &str) -> bool {
    line.contains("(INJECTED)")
}

/// Whether a line of a trace with paths is about a call that files have, and not about a file.
pub(super) fn is_elsewhere(line: &str) -> bool {
    call_of(line).is_some_and(|(name, arguments)| is_about_files(name) && is_no_file(arguments))
}

/// Whether it is about something that lies on no disk, or about the log. Only a trace with paths says so.
fn is_no_file(arguments: &str) -> bool {
    let first = arguments.split(',').next().unwrap_or_default();
    let is_log = first.starts_with("2<");
    is_log
        || ["<anon_inode:", "<socket:", "<pipe:", "<UNIX"]
            .iter()
            .any(|kind| first.contains(kind))
}

fn is_fallible(name: &str, arguments: &str) -> bool {
    is_about_files(name) && !is_no_file(arguments)
}

fn is_about_files(name: &str) -> bool {
    CHANGING.contains(&name) || FALLIBLE.contains(&name)
}

fn changes(name: &str, arguments: &str) -> bool {
    if is_no_file(arguments) {
        return false;
    }
    let creates = name.starts_with("open")
        && (arguments.contains("O_CREAT") || arguments.contains("O_TRUNC"));
    creates || CHANGING.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::{call_of, changes, is_elsewhere, is_injected};

    #[test]
    fn lines_of_a_trace_are_read() {
        let line = "  openat(AT_FDCWD, \"x\", O_RDWR|O_CREAT, 0600) = 3";
        let (name, arguments) = call_of(line).unwrap();
        assert_eq!(name, "openat");
        assert!(changes(name, arguments));
        assert!(!changes("openat", "AT_FDCWD, \"x\", O_RDONLY"));
        assert!(changes("write", "3</x>, \"y\", 1"));
        assert!(!changes("write", "3<anon_inode:[eventfd]>, \"\\1\", 8"));
        assert!(!changes("write", "2</tmp/helper.log>, \"y\", 1"));
        assert_eq!(call_of("+++ exited with 0 +++"), None);
        assert_eq!(call_of("--- SIGKILL {si_signo=SIGKILL} ---"), None);
    }

    #[test]
    fn an_error_that_came_where_it_was_not_meant_to_is_told() {
        let meant = "write(9</state/new>, \"y\", 1) = -1 EIO (Input/output error) (INJECTED)";
        let elsewhere =
            "write(4<anon_inode:[eventfd]>, \"y\", 8) = -1 EIO (Input/output error) (INJECTED)";
        let well = "write(4<anon_inode:[eventfd]>, \"y\", 8) = 8";
        let talking = "recvmsg(9<socket:[1]>, 0x1, 0) = -1 ECONNRESET (INJECTED)";
        assert!(is_injected(meant) && !is_elsewhere(meant));
        assert!(is_injected(elsewhere) && is_elsewhere(elsewhere));
        assert!(!is_injected(well));
        assert!(is_injected(talking) && !is_elsewhere(talking));
    }
}

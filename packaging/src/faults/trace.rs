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

/// Whether it is about something that lies on no disk. Only a trace with paths says so.
fn is_elsewhere(arguments: &str) -> bool {
    let first = arguments.split(',').next().unwrap_or_default();
    ["<anon_inode:", "<socket:", "<pipe:", "<UNIX"]
        .iter()
        .any(|kind| first.contains(kind))
}

fn is_fallible(name: &str, arguments: &str) -> bool {
    let is_about_files = CHANGING.contains(&name) || FALLIBLE.contains(&name);
    is_about_files && !is_elsewhere(arguments)
}

fn changes(name: &str, arguments: &str) -> bool {
    if is_elsewhere(arguments) {
        return false;
    }
    let creates = name.starts_with("open")
        && (arguments.contains("O_CREAT") || arguments.contains("O_TRUNC"));
    creates || CHANGING.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::{call_of, changes};

    #[test]
    fn lines_of_a_trace_are_read() {
        let line = "  openat(AT_FDCWD, \"x\", O_RDWR|O_CREAT, 0600) = 3";
        let (name, arguments) = call_of(line).unwrap();
        assert_eq!(name, "openat");
        assert!(changes(name, arguments));
        assert!(!changes("openat", "AT_FDCWD, \"x\", O_RDONLY"));
        assert!(changes("write", "3</x>, \"y\", 1"));
        assert!(!changes("write", "3<anon_inode:[eventfd]>, \"\\1\", 8"));
        assert_eq!(call_of("+++ exited with 0 +++"), None);
        assert_eq!(call_of("--- SIGKILL {si_signo=SIGKILL} ---"), None);
    }
}

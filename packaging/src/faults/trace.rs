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
    /// Whether a disk can make it fail.
    pub(super) fn is_fallible(&self) -> bool {
        CHANGING.contains(&self.name.as_str()) || FALLIBLE.contains(&self.name.as_str())
    }

    /// What makes strace do `what` at this call.
    pub(super) fn injected(&self, what: &str) -> Vec<String> {
        let Self { name, number, .. } = self;
        ["strace", "-f", "-qq", "-o", "/dev/null", "-e"]
            .map(str::to_owned)
            .into_iter()
            .chain([
                format!("trace={name}"),
                "-e".to_owned(),
                format!("inject={name}:{what}:when={number}"),
            ])
            .collect()
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
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    let mut begun = false;
    let mut calls = Vec::new();
    for line in text.lines() {
        let Some((name, arguments)) = call_of(line) else {
            continue;
        };
        let number = counts.entry(name.to_owned()).or_default();
        *number += 1;
        begun |= arguments.contains("bcd.toml") && name.starts_with("open");
        if begun && name != "exit_group" {
            calls.push(Call {
                name: name.to_owned(),
                number: *number,
                changes: changes(name, arguments),
            });
        }
    }
    Ok(calls)
}

fn call_of(line: &str) -> Option<(&str, &str)> {
    // The process id comes first.
    let (_, call) = line.split_once(' ')?;
    let (name, arguments) = call.trim_start().split_once('(')?;
    let is_name = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_name && !name.is_empty()).then_some((name, arguments))
}

fn changes(name: &str, arguments: &str) -> bool {
    let creates = name.starts_with("open")
        && (arguments.contains("O_CREAT") || arguments.contains("O_TRUNC"));
    creates || CHANGING.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::{call_of, changes};

    #[test]
    fn lines_of_a_trace_are_read() {
        let line = "123   openat(AT_FDCWD, \"x\", O_RDWR|O_CREAT, 0600) = 3";
        let (name, arguments) = call_of(line).unwrap();
        assert_eq!(name, "openat");
        assert!(changes(name, arguments));
        assert!(!changes("openat", "AT_FDCWD, \"x\", O_RDONLY"));
        assert_eq!(call_of("123 +++ exited with 0 +++"), None);
        assert_eq!(call_of("123 --- SIGKILL {si_signo=SIGKILL} ---"), None);
    }
}

//! The folder that a campaign happens in.
//!
//! It goes with everything in it when the campaign ends, also where somebody interrupts it: then processes and disks of
//! the campaign are left, and go first.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

/// The folder.
#[derive(Debug)]
pub(super) struct Ground(TempDir);

impl Ground {
    /// A new one in `parent`.
    pub(super) fn new(parent: &Path) -> Result<Self> {
        let made = tempfile::Builder::new()
            .prefix("bcd-faults-")
            .tempdir_in(parent)?;
        Ok(Self(made))
    }

    pub(super) fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    /// Disks that are mounted in it.
    fn disks(&self) -> Vec<PathBuf> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        let points = points.map(PathBuf::from);
        points
            .filter(|point| point.starts_with(self.0.path()))
            .collect()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        for child in children() {
            // It may have ended by itself.
            kill(Pid::from_raw(child), Signal::SIGKILL).ok();
        }
        for disk in self.disks() {
            // Lazily: whoever was killed just now may not be gone yet.
            Command::new("umount").arg("--lazy").arg(disk).status().ok();
        }
    }
}

/// The processes that this one has started and not waited for.
fn children() -> Vec<i32> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten();
    tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|children| {
            let children = children.split_whitespace();
            children
                .filter_map(|child| child.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect()
}

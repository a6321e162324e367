//! What an update writes and waits for, on a file system that nobody else uses.
//!
//! The kernel lays what it writes for a file system to whoever waits for it: on a shared one others' share is among it.
//! Where no disk can be made the folder's own file system has to do.

use std::{fs, path::Path};

use anyhow::Result;
use nix::unistd::geteuid;

use super::{
    Size, update,
    update::{Bench, Look},
    written_ratio,
};
use crate::faults::ext4::{self, Disk};

/// Two slots with releases of 10 MB, a third on its way, and a journal.
const DISK_BYTES: u64 = 64 << 20;

/// What was counted.
pub(super) struct Counted {
    pub(super) written_ratio: f64,
    pub(super) syncs: usize,
}

/// Counts at two updates of a node in `folder`.
pub(super) async fn count(agent: &Path, folder: &Path) -> Result<Counted> {
    fs::create_dir_all(folder)?;
    let at = folder.join("mounted");
    // Gone behind the node that is on it.
    let _disk = match geteuid().is_root() && ext4::is_possible()? {
        true => {
            let disk = Disk::of(&folder.join("disk"), &at, DISK_BYTES)?;
            disk.mount()?;
            Some(disk)
        }
        false => None,
    };
    let (mut bench, session) = Bench::open(agent, &at.join("node")).await?;
    let (session, written) = update(&mut bench, session, (Size::Ten, Look::Counters)).await?;
    let (_, waited) = update(&mut bench, session, (Size::Ten, Look::Calls)).await?;
    Ok(Counted {
        written_ratio: written_ratio(&written, Size::Ten),
        syncs: waited.syncs,
    })
}
